"""Queries of the state: one after the other, in the order in which they were asked for, and not too many.

A look holds the loop, because what it shows is to be one moment of one state. The paths that give one ask nobody who
they are, and one look right after the other would have every ask meet one. So looks have a share of the loop's time,
all of them together, and who asks for more of them waits longer. After a pause a look is there at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from schedulerd.daemon.debug_state import StateParameters
from schedulerd.daemon.json_pieces import json_pieces
from schedulerd.daemon.shares import Shared
from schedulerd.daemon.slices import GAP_SECONDS, SLICE_SECONDS

LOOP_SHARE_MAX = 0.04
"""Of the loop's time, for looks. About half of it goes into looking, the rest into writing down what was seen, which
others can interrupt: so at most two of a hundred asks that come at any time meet a look. Were it much less, the last of
`LOOKS_MAX` would wait for longer than clients do."""

LOOKS_MAX = 10
"""At a time: one is taken, the others wait. If all are as large as may be, the last of them waits for some seven
seconds."""


class StateQueries:
    """Takes looks for everybody who wants one."""

    def __init__(
        self, look_at: Callable[[StateParameters], object], *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`look_at` gives what can be shown as JSON and does not change any more.

        `clock` tells seconds. It is not the loop's own, which may stand still while the loop is held.
        """
        self._look_at = look_at
        self._clock = clock
        self._turn = asyncio.Lock()
        self._asked_for = Shared(LOOKS_MAX, "looks at the state are asked for")
        self._not_before = clock()

    async def take(self, query: StateParameters, client: str | None = None) -> str:
        """One look as JSON text, when it is its turn. Raises `NoneLeft` at once.

        A `client` may ask for a quarter of them; None is for clients that cannot be told apart. A look that is
        cancelled while it waits has cost nothing.
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
            for piece in json_pieces(self._look_at(query)):
                text.append(piece)
                now = self._clock()
                if now - since >= SLICE_SECONDS:
                    await asyncio.sleep(GAP_SECONDS)
                    since = self._clock()
                    idle += since - now
        finally:
            self._not_before = began + (self._clock() - began - idle) / LOOP_SHARE_MAX
        return "".join(text)
