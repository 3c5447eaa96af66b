"""HTTP/2 by hand, for clients that no library would be: conversations that stop anywhere.

Only what a gRPC client has to say (RFC 9113); headers are literals without Huffman code or index (RFC 7541, 6.2.2).
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL = struct.pack(">I", 8)
HEADER_BYTES = 9
TIMEOUT_SECONDS = 20.0


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


BEGIN = PREFACE + frame(SETTINGS, 0, 0)
"""What every connection begins with."""

BEGIN_WITHOUT_WINDOW = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
"""INITIAL_WINDOW_SIZE 0 (RFC 9113, 6.5.2): the other side may send headers, and not one byte of data."""


def headers(stream: int, path: str) -> bytes:
    """Opens a call of a method."""
    named = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
    named |= {"te": "trailers", "content-type": "application/grpc"}
    block = b"".join(b"\x00" + _text(name) + _text(value) for name, value in named.items())
    return frame(HEADERS, END_HEADERS, stream, block)


def message(stream: int, payload: bytes, *, last: bool = False) -> bytes:
    """A message of a call, uncompressed."""
    return frame(DATA, END_STREAM if last else 0, stream, b"\x00" + struct.pack(">I", len(payload)) + payload)


def call(stream: int, path: str, payloads: Sequence[bytes], *, finish: bool) -> list[bytes]:
    """All frames of a call from the client; `finish` says that there will be no more."""
    last = len(payloads) - 1
    return [
        headers(stream, path),
        *(message(stream, one, last=finish and at == last) for at, one in enumerate(payloads)),
    ]


class Connection:
    """One to HOST:PORT that sends what it is told, and reads only to find out whether it is still open. A context."""

    def __init__(self, target: str) -> None:
        host, port = target.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def until_read(self) -> None:
        """Returns when the other side has read everything that was sent."""
        self.send(frame(PING, 0, 0, b"all read"))
        while self.next_frame()[:2] != (PING, ACK):
            pass

    def until_ended(self, stream: int) -> None:
        """Returns when the other side has ended the call."""
        ends = (HEADERS, END_STREAM | END_HEADERS, stream)
        while self.next_frame()[:3] != ends:
            pass

    def until_begun(self, stream: int) -> None:
        """Returns when the other side has begun to answer the call."""
        while self.next_frame()[:3] != (HEADERS, END_HEADERS, stream):
            pass

    def stay_alive(self) -> None:
        """Answers every PING from here on, in a thread, and drops everything else that comes."""
        threading.Thread(target=self._answer_pings, daemon=True).start()

    def _answer_pings(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                kind, flags, _, payload = self.next_frame()
                if kind == PING and not flags & ACK:
                    self.send(frame(PING, ACK, 0, payload))

    def until_closed(self) -> None:
        """Returns when the other side has closed the connection."""
        try:
            while self._socket.recv(65_536):
                pass
        except ConnectionError:
            return

    def is_closed_within(self, seconds: float) -> bool:
        """Whether the other side closes the connection in this time; what it sends is dropped."""
        self._socket.settimeout(seconds)
        try:
            self.until_closed()
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(TIMEOUT_SECONDS)
        return True

    def reset(self) -> None:
        """Ends the connection without a word, as a client that crashes, or a firewall."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._socket.close()

    def next_frame(self) -> tuple[int, int, int, bytes]:
        """Kind, flags, stream and payload of the next frame; raises `ConnectionError` if the connection ends."""
        header = self._take(HEADER_BYTES)
        payload = self._take(int.from_bytes(header[:3], "big"))
        return header[3], header[4], int.from_bytes(header[5:], "big"), payload

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionResetError("the connection was closed")
            self._received += data
        taken, self._received = self._received[:count], self._received[count:]
        return taken


def _text(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) < 0x7F, "longer ones need a number of several bytes"
    return bytes([len(encoded)]) + encoded
