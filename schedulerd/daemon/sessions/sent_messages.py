"""The last messages that were sent on streams of one kind, kept for a client that may need them again."""

from __future__ import annotations

from collections import deque

KEPT_BYTES_MAX = 8 << 20
"""Maximum size of the messages kept for a client that takes part in resumption. Less than this can be under way."""


class SentMessages:
    """Counts all sent messages. Keeps the last ones, from the first call of `go_back` until `keep_nothing`."""

    def __init__(self) -> None:
        self.count = 0
        """Number of messages sent since the registration."""
        self._keeps = False
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0

    def add(self, payloads: list[bytes]) -> None:
        """Adds one sent message, made of `payloads`."""
        self.count += 1
        if self._keeps:
            message = payloads[0] if len(payloads) == 1 else b"".join(payloads)
            self._kept.append(message)
            self._kept_bytes += len(message)
            while self._kept_bytes > KEPT_BYTES_MAX:
                self._kept_bytes -= len(self._kept.popleft())

    def keep_nothing(self) -> None:
        """Stops keeping messages: the client takes no part in resumption."""
        self._keeps = False
        self.forget()

    def go_back(self, received: int) -> list[bytes]:
        """The messages after the first `received`, in order; they count as not sent.

        Raises IndexError if they are no longer kept, and ValueError if that many were never sent.
        """
        missing = self.count - received
        if missing < 0:
            raise ValueError(received)
        if missing > len(self._kept):
            raise IndexError(received)
        again = list(self._kept)[len(self._kept) - missing :]
        self.count = received
        self._keeps = True
        self.forget()
        return again

    def forget(self) -> None:
        """Drops the kept messages."""
        self._kept.clear()
        self._kept_bytes = 0
