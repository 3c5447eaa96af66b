"""HTTP/2 by hand, for clients that no library would be: conversations that stop anywhere.

Only what a gRPC client has to say (RFC 9113); headers are literals without Huffman code or index (RFC 7541, 6.2.2).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

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

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def until_read(self) -> None:
        """Returns when the other side has read everything that was sent."""
        self.send(frame(PING, 0, 0, b"all read"))
        while self._next_frame()[:2] != (PING, ACK):
            pass

    def until_ended(self, stream: int) -> None:
        """Returns when the other side has ended the call."""
        ends = (HEADERS, END_STREAM | END_HEADERS, stream)
        while self._next_frame() != ends:
            pass

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

    def _next_frame(self) -> tuple[int, int, int]:
        """Kind, flags and stream of the next frame; raises `ConnectionError` if the connection ends instead."""
        header = self._take(HEADER_BYTES)
        self._take(int.from_bytes(header[:3], "big"))
        return header[3], header[4], int.from_bytes(header[5:], "big")

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
