"""What all clients share and there is only so much of: one client gets a part of it, so that others find some left.

A client is the names of its certificate, where the setting `rm_identities` is set. Without it clients cannot be told
apart but by the rmID that a request names.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

CLIENTS_MIN = 4
"""One client holds at most 1 part of so many of what there is for all, rounded up: a quarter."""


def share_of(total: int) -> int:
    """How many of so many one client may hold."""
    return -(-total // CLIENTS_MIN)


class NoneLeft(Exception):
    """A client may not have one more. The text is for the client."""


class Shared:
    """Things of one kind that clients hold for a while."""

    def __init__(self, total_max: int, what: str) -> None:
        """At most `total_max` are held at a time; `what` they are, in the plural, as a sentence about them begins."""
        self._total_max = total_max
        self._what = what
        self._held: Counter[str] = Counter()

    @property
    def each_max(self) -> int:
        """How many one client may hold."""
        return share_of(self._total_max)

    @contextmanager
    def held(self, client: str | None) -> Iterator[None]:
        """One of them, for as long as the context lasts; None is somebody who has no share. Raises `NoneLeft`."""
        if self._held.total() >= self._total_max:
            raise NoneLeft(f"{self._total_max} {self._what} already, by all clients")
        key = "" if client is None else f"client {client}"
        if client is not None and self._held[key] >= self.each_max:
            raise NoneLeft(f"{self.each_max} {self._what} by this client already, a quarter of what there is for all")
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


class Turns:
    """Work that one client has done one piece after the other, so that those of another wait for one of it at most."""

    def __init__(self, waiting_max: int, what: str) -> None:
        """So many pieces wait or are done at a time, of which one client has its share; `what` is as for `Shared`."""
        self._pieces = Shared(waiting_max, what)
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        """Of clients with work: whose turn it is, and how many pieces there are."""

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """The context is one piece of work, and begins when it is its turn. Raises `NoneLeft` at once."""
        with self._pieces.held(client):
            lock, count = self._turns.get(client, (asyncio.Lock(), 0))
            self._turns[client] = (lock, count + 1)
            try:
                async with lock:
                    yield
            finally:
                lock, count = self._turns.pop(client)
                if count > 1:
                    self._turns[client] = (lock, count - 1)
