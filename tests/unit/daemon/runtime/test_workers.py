"""Work in threads: how much at a time, how much waits, and what happens to work that does not end."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest

import schedulerd
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers


class Held:
    """Work that runs until it is let go."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.go_on = threading.Event()

    def __call__(self, answer: str = "done") -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.go_on.wait(10)
        return answer


def test_what_the_function_gives_or_raises_is_the_callers() -> None:
    async def play() -> None:
        workers = Workers("sums", threads=1, waiting_max=0)
        assert await workers.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await workers.run(divmod, 7, 0)
        assert await workers.run(threading.current_thread) is not threading.main_thread()

    asyncio.run(play())


def test_a_system_without_threads_is_busy_and_does_not_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def play() -> None:
        workers = Workers("reads", threads=1, waiting_max=0)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            for _ in range(3):
                with pytest.raises(Busy, match=r"^no thread can be started for reads: can't start new"):
                    await workers.run(divmod, 7, 2)
        assert await workers.run(divmod, 7, 2) == (3, 1)

    asyncio.run(play())


def test_a_function_that_raises_timeout_error_is_not_too_slow() -> None:
    def fail() -> None:
        raise TimeoutError("the disk")

    async def play() -> None:
        with pytest.raises(TimeoutError, match="the disk"):
            await Workers("reads", threads=1, waiting_max=0, seconds_max=60).run(fail)

    asyncio.run(play())


def test_so_many_run_so_many_wait_and_the_next_is_refused() -> None:
    async def play() -> None:
        workers = Workers("reads", threads=2, waiting_max=1)
        held = [Held() for _ in range(4)]
        calls = [asyncio.create_task(workers.run(one, str(number))) for number, one in enumerate(held[:3])]
        await held[0].begun.wait()
        await held[1].begun.wait()
        assert not held[2].begun.is_set()
        with pytest.raises(Busy, match=r"^3 reads are under way or waiting already; try again later$"):
            await workers.run(held[3])
        held[0].go_on.set()
        await held[2].begun.wait()
        for one in held:
            one.go_on.set()
        assert await asyncio.gather(*calls) == ["0", "1", "2"]
        assert await workers.run(held[3]) == "done"

    asyncio.run(play())


def test_threads_begin_as_work_comes_and_are_used_again() -> None:
    async def play() -> None:
        workers = Workers("lone reads", threads=5, waiting_max=0)
        threads = {await workers.run(threading.get_ident) for _ in range(10)}
        assert len(threads) == 1

    asyncio.run(play())


def test_a_caller_that_goes_while_it_waits_makes_room() -> None:
    async def play() -> None:
        workers = Workers("reads", threads=1, waiting_max=1)
        held, never = Held(), Held()
        running = asyncio.create_task(workers.run(held))
        await held.begun.wait()
        waiting = asyncio.create_task(workers.run(never))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        next_one = asyncio.create_task(workers.run(int))
        held.go_on.set()
        assert await running == "done"
        assert await next_one == 0
        assert not never.begun.is_set()

    asyncio.run(play())


def test_a_caller_that_goes_while_its_work_runs_leaves_the_thread_occupied() -> None:
    async def play() -> None:
        workers = Workers("reads", threads=1, waiting_max=0)
        held = Held()
        running = asyncio.create_task(workers.run(held))
        await held.begun.wait()
        running.cancel()
        await asyncio.wait([running])
        with pytest.raises(Busy):
            await workers.run(int)
        held.go_on.set()
        assert await workers.close(10)

    asyncio.run(play())


def test_work_that_takes_too_long_is_given_up_and_its_thread_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    async def play() -> None:
        workers = Workers("reads", threads=1, waiting_max=1, seconds_max=0.01)
        held, never = Held(), Held()
        with pytest.raises(TooSlow, match=r"^took longer than 0\.01 s$"):
            await workers.run(held)
        with pytest.raises(TooSlow):
            await workers.run(never)
        held.go_on.set()
        assert await workers.close(10)
        assert not never.begun.is_set()

    asyncio.run(play())
    assert "work given up" in capsys.readouterr().out


def test_the_end_waits_for_work_but_not_for_ever() -> None:
    async def play() -> None:
        workers = Workers("reads", threads=2, waiting_max=0)
        assert await workers.close(10)
        held = Held()
        workers = Workers("reads", threads=2, waiting_max=0)
        running = asyncio.create_task(workers.run(held))
        await held.begun.wait()
        assert not await workers.close(0.001)
        held.go_on.set()
        await running

    asyncio.run(play())


def test_nothing_uses_the_default_executor() -> None:
    """It is shared by all purposes, without a bound, and the end of the process waits for its threads.

    The webhooks are a process of their own, where it has two purposes: large reviews, which a semaphore bounds, and the
    end of a reading process.
    """
    webhooks = {"admission.py", "kubernetes/admission/server.py"}
    package = Path(schedulerd.__file__).parent
    banned = re.compile(r"to_thread\(|run_in_executor\(|\bThreadPoolExecutor\b")
    files = {file.relative_to(package).as_posix(): file.read_text(encoding="utf-8") for file in package.rglob("*.py")}
    assert {name for name, text in files.items() if banned.search(text)} == webhooks
