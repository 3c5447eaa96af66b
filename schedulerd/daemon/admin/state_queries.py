"""State queries: run one after the other in the order of the requests, with a bounded share of the loop's time.

A query holds the loop, because it shows one moment of the state. Clients need not identify themselves, and if one query
ran right after the other, every ask would be delayed by a query. So all queries together have a share of the loop's
time, and a client that sends more of them waits longer. After a pause a query runs at once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import TypeVar

from schedulerd.daemon.admin.debug_state import STATE_JSON, StateParameters
from schedulerd.daemon.runtime.shares import Shared
from schedulerd.daemon.runtime.slices import GAP_SECONDS, SLICE_SECONDS

LOOP_SHARE_MAX = 0.04
"""Share of the loop's time for state queries. About half of it is for reading the state; the rest is for writing the
text, which other work can interrupt. So at most two of a hundred asks that arrive at any time are delayed by a query.
With a much smaller share, the last of `QUERIES_MAX` queries would wait longer than clients do."""

IDLE_SECONDS = 0.1
"""How long the scheduler has had nothing to do when there is nobody whose ask would be delayed."""

IDLE_SHARE_MAX = 0.5
"""Share of the loop's time for work in slices while the scheduler is idle. The first ask after that waits for a slice
at most."""

LATE_SECONDS = 0.1
"""How late a slice may have begun for the next ones to make up for it, as on a busy machine: with the smaller share,
eight slices one after the other at most, with other work in between."""

QUERIES_MAX = 10
"""Maximum number of open queries: one runs, the others wait. If all have the maximum size, the last waits some 7 s."""

PIECE_BYTES_MAX = 65_536
"""Size from which what `StateQueries.pieces` has collected is handed on."""

ResultT = TypeVar("ResultT")


class StateQueries:
    """Runs state queries for all clients."""

    def __init__(
        self,
        look_at: Callable[[StateParameters], object],
        *,
        clock: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] | None = None,
        worked_at: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """`look_at` returns a value that can be shown as JSON and does not change any more.

        `clock` is in seconds. It is not the loop's own, which may stand still while the loop is held. `worked_at` is
        the time by this clock when the scheduler last had something to do. Work in slices is charged by `processor`:
        the seconds for which the loop's thread had a processor, without what other processes take on a busy machine;
        None: by `clock`.
        """
        self._look_at = look_at
        self._clock = clock
        self._processor = processor or clock
        self._worked_at = worked_at
        self._turn = asyncio.Lock()
        self._others = asyncio.Lock()
        """Held by the one of the work that is not `ahead` that waits for the turn, or has it."""
        self._asked_for = Shared(QUERIES_MAX, "state queries are open")
        self._not_before = clock()

    async def take(self, query: StateParameters, client: str | None = None) -> str:
        """Runs one query, in its turn, and returns its result as JSON text. Raises `NoneLeft` at once.

        A `client` may have a quarter of all open queries; None is for clients that cannot be told apart. A query that
        is cancelled while it waits costs nothing.
        """
        with self._asked_for.held(client):
            async with self._turn:
                await asyncio.sleep(self._not_before - self._clock())
                return await self._take(query)

    async def _take(self, query: StateParameters) -> str:
        text: list[str] = []
        began = since = self._clock()
        idle = 0.0
        try:
            for piece in STATE_JSON.pieces(self._look_at(query)):
                text.append(piece)
                now = self._clock()
                if now - since >= SLICE_SECONDS:
                    await asyncio.sleep(GAP_SECONDS)
                    since = self._clock()
                    idle += since - now
        finally:
            self._not_before = began + (self._clock() - began - idle) / LOOP_SHARE_MAX
        return "".join(text)

    async def finish(self, work: Generator[None, None, ResultT], *, ahead: bool = False) -> ResultT:
        """Runs a computation to its end in slices, and returns its result.

        It has to stop (`yield`) every fraction of a millisecond. It shares the time for state queries with all others,
        slice by slice, and may be cancelled between two slices. What is `ahead` shares it with one of the others at a
        time, however many there are.
        """
        while True:
            async with self._slice(ahead=ahead) as began:
                try:
                    while self._clock() - began < SLICE_SECONDS:
                        next(work)
                except StopIteration as end:
                    result: ResultT = end.value
                    return result

    async def pieces(self, work: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The bytes that an iterator gives, joined; run in slices as `finish` does. Empty pieces only mark a stop."""
        collected: list[bytes] = []
        is_over = False
        while not is_over:
            size = sum(map(len, collected))
            async with self._slice() as began:
                try:
                    while self._clock() - began < SLICE_SECONDS and size < PIECE_BYTES_MAX:
                        collected.append(next(work))
                        size += len(collected[-1])
                except StopIteration:
                    is_over = True
            if size >= PIECE_BYTES_MAX or (is_over and size):
                yield b"".join(collected)
                collected = []

    @asynccontextmanager
    async def _slice(self, *, ahead: bool = False) -> AsyncIterator[float]:
        """The turn, when there is time for it; counts the time until it ends. Gives the time when it begins."""
        async with nullcontext() if ahead else self._others, self._turn:
            await asyncio.sleep(max(0.0, self._not_before - self._clock()))
            began, processor = self._clock(), self._processor()
            try:
                yield began
            finally:
                is_idle = began - self._worked_at() >= IDLE_SECONDS
                share = IDLE_SHARE_MAX if is_idle else LOOP_SHARE_MAX
                due = max(self._not_before, began - LATE_SECONDS)
                self._not_before = due + (self._processor() - processor) / share
