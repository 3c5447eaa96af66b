"""Bounded resources that clients share: each client gets a part at most, so that some is left for others.

Clients are told apart by the names in their certificates if the setting `rm_identities` is set. Without it they can
only be told apart by the rmID that a request names.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

CLIENTS_MIN = 4
"""A client gets at most 1 / `CLIENTS_MIN` of a shared resource, rounded up: a quarter."""


def share_of(total: int) -> int:
    """How many of `total` one client may hold."""
    return -(-total // CLIENTS_MIN)


class NoneLeft(Exception):
    """The bound for a client, or for all clients, is reached. The text is for the client."""


class Shared:
    """A bounded number of things of one kind, which clients hold for a while."""

    def __init__(self, total_max: int, what: str) -> None:
        """At most `total_max` are held at a time. `what` continues "100 ...", as in "streams are open"."""
        self._total_max = total_max
        self._what = what
        self._held: Counter[str] = Counter()

    @property
    def each_max(self) -> int:
        """How many one client may hold."""
        return share_of(self._total_max)

    @contextmanager
    def held(self, client: str | None) -> Iterator[None]:
        """Holds one while the context lasts; for `client` None only the total is bounded. Raises `NoneLeft`."""
        if self._held.total() >= self._total_max:
            raise NoneLeft(f"{self._total_max} {self._what} already, by all clients")
        key = "" if client is None else f"client {client}"
        if client is not None and self._held[key] >= self.each_max:
            raise NoneLeft(
                f"{self.each_max} {self._what} by this client already, a quarter of the limit for all clients"
            )
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


class Turns:
    """Runs the work of each client one piece after the other, so that others wait for at most one piece of a client."""

    def __init__(self, waiting_max: int, what: str) -> None:
        """At most `waiting_max` pieces wait or run; a client has its share of them. `what` is as for `Shared`."""
        self._pieces = Shared(waiting_max, what)
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        """By client with work: its lock, and the number of its pieces."""

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """One piece of work, which begins when the client's earlier pieces are done. Raises `NoneLeft` at once."""
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
