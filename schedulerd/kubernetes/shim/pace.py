"""Long work in steps, so that the loop is never held: answers to questions take their turns with all else.

What a question costs depends on the pod and on the cluster, and the daemon asks up to a thousand together. So work is
counted, not questions: as much as `WORK_MAX` is done in one turn of the loop, and the rest in the next turns, one step
of each question after the other. A pod whose questions cost much does not delay those of others by more than a step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")

WORK_MAX = 500
"""In one turn of the loop, in judgements of pods that say nothing of nodes: some milliseconds."""


class Pace:
    def __init__(self, spent: Callable[[], int], call_soon: Callable[[Callable[[], None]], Any]) -> None:
        """`spent` is the work that was done so far, `call_soon` that of the running loop."""
        self._spent = spent
        self._call_soon = call_soon
        self._waiting: deque[tuple[Generator[None, None, Any], asyncio.Future[Any]]] = deque()
        self._until: int | None = None
        """How much may be spent in this turn of the loop; None before anything was done in it."""

    def __len__(self) -> int:
        """Questions that wait for their turn."""
        return len(self._waiting)

    def run(self, steps: Generator[None, None, T]) -> T | Awaitable[T]:
        """What `steps` return, at once if that takes no longer than is left of this turn and nobody waits. They yield
        wherever something else may be done in between."""
        if not self._waiting:
            while self._is_free():
                try:
                    next(steps)
                except StopIteration as done:
                    result: T = done.value
                    return result
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((steps, future))
        return future

    def _is_free(self) -> bool:
        if self._until is None:
            self._until = self._spent() + WORK_MAX
            self._call_soon(self._turn)
        return self._spent() < self._until

    def _turn(self) -> None:
        """The next turn of the loop."""
        self._until = None
        while self._waiting and self._is_free():
            steps, future = self._waiting.popleft()
            if future.cancelled():
                steps.close()
                continue
            try:
                next(steps)
            except StopIteration as done:
                future.set_result(done.value)
            except Exception as error:  # noqa: BLE001 (it is raised where the result is awaited)
                future.set_exception(error)
            else:
                self._waiting.append((steps, future))
