"""Threads for work that would hold the loop: so many per purpose, with a short queue in front of them.

Every purpose (metrics, queue files, TLS files, ...) has `Workers` of its own, so that one purpose never waits for
another. The default executor of asyncio is not used: all purposes share its threads, its queue has no bound, and the
end of the process waits for its threads, whatever holds them.

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
    """All threads of a purpose work and its queue is full. The text is for the client."""


class TooSlow(Exception):
    """The work took longer than the purpose allows. The text is for the client or the log."""


class Workers:
    """Runs functions in threads of its own. To be used on one loop only."""

    def __init__(self, purpose: str, *, threads: int, waiting_max: int, seconds_max: float | None = None) -> None:
        """`purpose` names the work in messages, as a plural: "looks at the state are waiting ...".

        `waiting_max` pieces of work wait while `threads` others run. `seconds_max` is how long a caller waits at
        most, for its turn and for the work; None: as long as that takes.
        """
        self._purpose = purpose
        self._threads_max = threads
        self._wanted_max = threads + waiting_max
        self._seconds_max = seconds_max
        self._wanted = 0
        """Pieces of work that wait or run; those given up but not ended by their thread are among them."""
        self._threads = 0
        self._free = asyncio.Semaphore(threads)
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    async def run(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        """What the function returns or raises. Raises `Busy` at once, and `TooSlow` after `seconds_max`.

        A caller that is cancelled or was told `TooSlow` leaves the thread to itself: the thread takes the next work
        when the function returns. Until then the function counts as running.
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
        except RuntimeError as error:  # the system has no thread left
            self._wanted -= 1
            self._free.release()
            raise Busy(f"no thread can be started for {self._purpose}: {error}; try again later") from error
        self._jobs.put(partial(self._work, loop, result, function, arguments))
        return await result

    async def close(self, seconds: float) -> bool:
        """Waits until nothing runs any more, for so long at most; False if something still runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for _ in range(self._threads_max):
                    await self._free.acquire()
                return True
        log.warning("work still runs: the end does not wait for it", work=self._purpose, waited_seconds=seconds)
        return False

    def _ensure_thread(self) -> None:
        """Threads begin as work comes: as many as pieces of work that ran at the same time."""
        if self._threads < self._wanted and self._threads < self._threads_max:
            # A daemon thread: nothing waits for it when the process ends.
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
        """In a thread: calls the function and tells the loop."""
        try:
            value = function(*arguments)
        except BaseException as error:  # noqa: BLE001 whatever the function raises belongs to its caller
            tell = partial(self._end, result, None, error)
        else:
            tell = partial(self._end, result, value, None)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
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
