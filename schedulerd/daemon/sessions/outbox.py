"""Responses that wait for the writer of one kind of stream, with their size in bytes.

A response leaves the outbox when the transport has taken it, not when the writer has picked it up: what a broken stream
did not send is the first thing that its successor sends. The bound of an outbox is in bytes, because a number of
messages or items is no bound: an allocation carries the tags of its ask, of any size.
"""

from __future__ import annotations

import asyncio
from collections import deque

from schedulerd.daemon.sessions.sent_messages import SentMessages

MESSAGE_BYTES_MAX = 256 * 1024
"""Small responses are joined into messages of up to this size; a larger response is sent as it is."""


class Outbox:
    """First in, first out. One writer at a time calls `head`, then `sent`; without a head it waits for `changed`."""

    def __init__(self, *, joins: bool = True) -> None:
        self._joins = joins
        """Whether small responses are joined. The lists of a message have no order among each other, so what is told in
        several of them may then come as it has not happened."""
        self.size_bytes = 0
        self.changed = asyncio.Event()
        """Set when a response was added, or when the writer should check again for another reason."""
        self._payloads: deque[bytes] = deque()
        self._picked = 0
        self._sent = SentMessages()

    def __len__(self) -> int:
        return len(self._payloads)

    def put(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self.size_bytes += len(payload)
        self.changed.set()

    def head(self) -> bytes | None:
        """The next message to send: the oldest response, or the oldest ones joined into one (see `wire.encode`).

        None if there is none.
        """
        size, self._picked = 0, 0
        for payload in self._payloads:
            if self._picked and (not self._joins or size + len(payload) > MESSAGE_BYTES_MAX):
                break
            size += len(payload)
            self._picked += 1
        if self._picked <= 1:
            return self._payloads[0] if self._payloads else None
        return b"".join(self._payloads[at] for at in range(self._picked))

    def sent(self) -> None:
        """Notes that the transport has taken the message that `head` returned last."""
        if not self._picked:
            return
        taken = [self._payloads.popleft() for _ in range(self._picked)]
        self.size_bytes -= sum(map(len, taken))
        self._picked = 0
        self._sent.add(taken)

    def keep_nothing(self) -> None:
        """Keeps no sent messages: the client takes no part in resumption."""
        self._sent.keep_nothing()

    def resume(self, received: int) -> None:
        """Goes back to a client that has received `received` messages in all: `head` continues after them.

        Raises IndexError if the next message is no longer kept, and ValueError if that many were never sent.
        """
        if received == self._sent.count + 1 and self._picked:
            self.sent()  # it arrived, although its writer ended before it could note that
        again = self._sent.go_back(received)
        self._payloads.extendleft(reversed(again))
        self.size_bytes += sum(map(len, again))
        self._picked = 0

    def clear(self) -> None:
        self._payloads.clear()
        self.size_bytes = self._picked = 0
        self._sent.forget()
