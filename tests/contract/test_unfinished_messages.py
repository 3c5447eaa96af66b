"""Messages that are begun and never finished: how much memory they hold, and that the next ones are still served."""

from __future__ import annotations

import contextlib
import struct

from tests.contract import http2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, allocated

UPDATE_ALLOCATION = "/si.v1.Scheduler/UpdateAllocation"
MESSAGE_BYTES_MAX = 4 << 20
CONNECTIONS, STREAMS = 3, 4
OVERHEAD_MAX = 1.5
"""Of what is held to what was sent: gRPC keeps a message in slices as they came."""
FRAME_BYTES = 16_384
WINDOW_UPDATE = 8
INITIAL_WINDOW_SIZE = 4
INITIAL_WINDOW = 65_535


class Unfinished(http2.Connection):
    """Sends messages to all but their last byte, as fast as the other side lets it."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self._initial = INITIAL_WINDOW
        self._windows: dict[int, int] = {0: INITIAL_WINDOW}
        """What may still be sent, by stream; 0 is the connection."""
        self.send(http2.BEGIN)

    def begin(self, stream: int, size_bytes: int) -> int:
        """The bytes that were taken of a message of this size, on a stream of its own."""
        self._windows[stream] = self._initial
        self.send(http2.headers(stream, UPDATE_ALLOCATION))
        content = b"\x00" + struct.pack(">I", size_bytes) + b"\x00" * (size_bytes - 1)
        sent = 0
        while sent < len(content):
            while (room := min(self._windows[0], self._windows[stream], FRAME_BYTES)) <= 0:
                self._hear()
            piece = content[sent : sent + room]
            self.send(http2.frame(http2.DATA, 0, stream, piece))
            sent += len(piece)
            self._windows[0] -= len(piece)
            self._windows[stream] -= len(piece)
        return sent

    def _hear(self) -> None:
        kind, flags, stream, payload = self.next_frame()
        if kind == WINDOW_UPDATE:
            self._windows[stream] += struct.unpack(">I", payload)[0]
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            settings = dict(struct.iter_unpack(">HI", payload))
            more = settings.get(INITIAL_WINDOW_SIZE, self._initial) - self._initial
            self._initial += more
            for one in self._windows:
                self._windows[one] += more if one else 0
            self.send(http2.frame(http2.SETTINGS, http2.ACK, 0))
        elif kind == http2.PING and not flags & http2.ACK:
            self.send(http2.frame(http2.PING, http2.ACK, 0, payload))


def test_unfinished_messages_hold_what_was_sent_of_them_and_no_more() -> None:
    with DaemonProcess("--max-message-bytes", str(MESSAGE_BYTES_MAX)) as daemon, RawClient(daemon.target) as client:
        client.set_up()
        before_bytes = daemon.resident_bytes()
        with contextlib.ExitStack() as stack:
            sent = 0
            for _ in range(CONNECTIONS):
                connection = stack.enter_context(Unfinished(daemon.target))
                sent += sum(connection.begin(2 * number + 1, MESSAGE_BYTES_MAX) for number in range(STREAMS))
            held = daemon.resident_bytes() - before_bytes
            print(f"{CONNECTIONS * STREAMS} unfinished messages of {sent >> 20} MiB in all hold {held >> 20} MiB")
            assert sent >= CONNECTIONS * STREAMS * MESSAGE_BYTES_MAX
            assert held < OVERHEAD_MAX * sent
            stream = client.allocations()
            stream.send(client.asks("app-1", ["meanwhile"]))
            assert allocated(stream.until(lambda got: bool(allocated(got))))
