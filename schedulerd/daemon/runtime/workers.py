"""Threads for work that would block the loop: a fixed number per purpose, with a short queue.

Every purpose (metrics, queue files, TLS files, ...) has its own `Workers`, so that one purpose never waits for another.
The default executor of asyncio is not used: all purposes share its threads, its queue has no bound, and the end of the
process waits for its threads even if they are stuck.

    workers = Workers("metrics", threads=1, waiting_max=10)
    body = await workers.run(encode, registry)     # Busy: answer 503 or RESOURCE_EXHAUSTED with str(error)
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import structlog

ResultT = TypeVar("ResultT")

log = structlog.stdlib.get_logger(__name__)


class Busy(Exception):
    """All threads of a purpose are busy and its queue is full. The text is for the client."""


class TooSlow(Exception):
    """The work took longer than the purpose allows. The text is for the client or the log."""


class Workers:
    """Runs functions in its own threads. Use it on one loop only."""

    def __init__(self, purpose: str, *, threads: int, waiting_max: int, seconds_max: float | None = None) -> None:
        """`purpose` names the work in messages, as a plural: "9 queue files are under way or waiting already".

        `waiting_max` pieces of work may wait while `threads` others run. `seconds_max` is how long a caller waits at
        most, for a free thread and for the work; None is no limit.
        """
        self._purpose = purpose
        self._threads_max = threads
        self._wanted_max = threads + waiting_max
        self._seconds_max = seconds_max
        self._wanted = 0
        """Number of pieces of work that wait or run, also of those that were given up while their thread still runs."""
        self._threads = 0
        self._free = asyncio.Semaphore(threads)
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    async def run(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Returns or raises what the function does. Raises `Busy` at once, and `TooSlow` after `seconds_max`.

        A call that is cancelled or too slow does not stop the thread. The function counts as running until it returns;
        then the thread takes the next work.
        """
        if self._wanted >= self._wanted_max:
            raise Busy(f"{self._wanted} {self._purpose} are under way or waiting already; try again later")
        try:
            async with asyncio.timeout(self._seconds_max) as limit:
                return await self._run(function, arguments)
        except TimeoutError:
            if not limit.expired():  # the function itself raised it
                raise
            log.warning("work given up", work=self._purpose, after_seconds=self._seconds_max)
            raise TooSlow(f"took longer than {self._seconds_max:g} s") from None

    async def _run(self, function: Callable[..., ResultT], arguments: tuple[object, ...]) -> ResultT:
        self._wanted += 1
        try:
            await self._free.acquire()
        except asyncio.CancelledError:
            self._wanted -= 1
            raise
        loop = asyncio.get_running_loop()
        result: asyncio.Future[ResultT] = loop.create_future()
        try:
            self._ensure_thread()
        except RuntimeError as error:  # the system cannot start another thread
            self._wanted -= 1
            self._free.release()
            raise Busy(f"no thread can be started for {self._purpose}: {error}; try again later") from error
        self._jobs.put(partial(self._work, loop, result, function, arguments))
        return await result

    async def close(self, seconds: float) -> bool:
        """Waits until no work runs any more, `seconds` at most; returns False if some still runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for _ in range(self._threads_max):
                    await self._free.acquire()
                return True
        log.warning("work still runs: the end does not wait for it", work=self._purpose, waited_seconds=seconds)
        return False

    def _ensure_thread(self) -> None:
        """Starts threads on demand: never more than pieces of work that were there at the same time."""
        if self._threads < self._wanted and self._threads < self._threads_max:
            # A daemon thread: the end of the process does not wait for it.
            threading.Thread(target=self._serve, name=self._purpose, daemon=True).start()
            self._threads += 1

    def _serve(self) -> None:
        while True:
            self._jobs.get()()

    def _work(
        self,
        loop: asyncio.AbstractEventLoop,
        result: asyncio.Future[Any],
        function: Callable[..., Any],
        arguments: tuple[object, ...],
    ) -> None:
        """In the thread: calls the function and passes the result to the loop."""
        try:
            value = function(*arguments)
        except BaseException as error:  # noqa: BLE001 the caller gets whatever the function raises
            tell = partial(self._end, result, None, error)
        else:
            tell = partial(self._end, result, value, None)
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(tell)

    def _end(self, result: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
        """On the loop: frees the thread, and gives the result to the caller if the caller still waits."""
        self._wanted -= 1
        self._free.release()
        if result.done():
            return
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)
