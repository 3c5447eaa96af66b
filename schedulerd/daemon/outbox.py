"""Responses that wait for one stream's writer, bounded by their true size in bytes.

A response leaves the outbox when the transport has taken it, not when the writer has picked it up: what a broken stream
did not take is the first thing its successor sends. Bytes are what is bounded, because a bound on messages or on items
would be none: an allocation carries the tags of its ask, of any size.
"""

from __future__ import annotations

import asyncio
from collections import deque

MESSAGE_BYTES_MAX = 256 * 1024
"""Small responses are joined up to this size before they are sent; one that is larger by itself is sent as it is."""


class Outbox:
    """First in, first out. One writer at a time: `head`, then `sent`, and `changed` to wait on if there is no head."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.changed = asyncio.Event()
        """Set when something was put, or when the writer should look up for another reason."""
        self._payloads: deque[bytes] = deque()
        self._picked = 0

    def __len__(self) -> int:
        return len(self._payloads)

    def put(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self.size_bytes += len(payload)
        self.changed.set()

    def head(self) -> bytes | None:
        """The next message to send: the oldest responses joined into one (see `wire.encode`), or None."""
        size, self._picked = 0, 0
        for payload in self._payloads:
            if self._picked and size + len(payload) > MESSAGE_BYTES_MAX:
                break
            size += len(payload)
            self._picked += 1
        if self._picked <= 1:
            return self._payloads[0] if self._payloads else None
        return b"".join(self._payloads[at] for at in range(self._picked))

    def sent(self) -> None:
        """The transport has taken what `head` gave last."""
        for _ in range(self._picked):
            self.size_bytes -= len(self._payloads.popleft())
        self._picked = 0

    def clear(self) -> None:
        self._payloads.clear()
        self.size_bytes = self._picked = 0
