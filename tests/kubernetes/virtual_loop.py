"""An event loop with sockets whose time passes only when nothing else is to be done, and then at once.

Client and fake server run on it together, over Unix sockets: what one side has written is there for the other as soon
as the write returns, so an empty look at the sockets means that everybody waits for a timer. Backoffs of half a minute
and watches of ten cost no time, and happen in the same order in every run.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class DeadlockError(AssertionError):
    """Everybody waits for somebody else, for ever."""


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            # A subprocess or a thread may still have something to say.
            ready = super().select(5.0)
            if not ready:
                raise DeadlockError("everybody waits for somebody else")
            return ready
        self.now_s += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0 s."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """As `asyncio.run`, on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
