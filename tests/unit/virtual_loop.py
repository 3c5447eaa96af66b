"""An event loop whose time passes only when everything waits for it, and then at once.

What takes hours by the clock of `asyncio` takes no time, and is exact: nothing else runs in between. It is for code
that waits for nothing but timers and other tasks; sockets and threads know another time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class _Selector(selectors.DefaultSelector):
    """Has nothing to wait for but the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits for somebody else, for ever"
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0 s."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s

    def hold(self, seconds: float) -> None:
        """Somebody keeps it from turning for so long."""
        self._virtual.now_s += seconds


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """As `asyncio.run`, on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
