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

KEPT_BYTES_MAX = 8 << 20
"""Of messages sent to a client that takes part in resumption. Connection and client have less between them."""


class Outbox:
    """First in, first out. One writer at a time: `head`, then `sent`, and `changed` to wait on if there is no head."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.changed = asyncio.Event()
        """Set when something was put, or when the writer should look up for another reason."""
        self._payloads: deque[bytes] = deque()
        self._picked = 0
        self._messages_sent = 0
        self._keeps = False
        self._kept: deque[bytes] = deque()
        """The last messages that were sent, as long as the client takes part in resumption."""
        self._kept_bytes = 0

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
        if not self._picked:
            return
        taken = [self._payloads.popleft() for _ in range(self._picked)]
        size = sum(map(len, taken))
        self.size_bytes -= size
        self._picked = 0
        self._messages_sent += 1
        if self._keeps:
            self._kept.append(taken[0] if len(taken) == 1 else b"".join(taken))
            self._kept_bytes += size
            while self._kept_bytes > KEPT_BYTES_MAX:
                self._kept_bytes -= len(self._kept.popleft())

    def keep_nothing(self) -> None:
        """The client takes no part in resumption."""
        self._keeps = False
        self._forget_kept()

    def resume(self, received: int) -> None:
        """The client has got so many messages in all: `head` goes on after them.

        Raises IndexError if what comes next is not kept any longer, and ValueError if that many were never sent.
        """
        if received == self._messages_sent + 1 and self._picked:
            self.sent()  # it came, although its writer did not live to hear of it
        missing = self._messages_sent - received
        if missing < 0:
            raise ValueError(received)
        if missing > len(self._kept):
            raise IndexError(received)
        for _ in range(missing):
            message = self._kept.pop()
            self._payloads.appendleft(message)
            self.size_bytes += len(message)
        self._messages_sent = received
        self._keeps = True
        self._picked = 0
        self._forget_kept()

    def clear(self) -> None:
        self._payloads.clear()
        self.size_bytes = self._picked = 0
        self._forget_kept()

    def _forget_kept(self) -> None:
        self._kept.clear()
        self._kept_bytes = 0
