"""In which order queue files are read, whoever wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from schedulerd.config import PolicyGroupUnknown, QueueFile, QueueFileText, load_queue_file
from schedulerd.daemon.files.files_in_force import LoadedQueueFile
from schedulerd.daemon.files.queue_files import QueueFiles
from schedulerd.daemon.runtime.workers import Busy


class Reader:
    """One text is read at a time, first come first served, as the daemon's process does; the test says when it ends."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = asyncio.Semaphore(0)
        self._turn = asyncio.Lock()

    async def load(self, text: str, source: str) -> QueueFile:
        async with self._turn:
            self.begun.append(text)
            await self.may_end.acquire()
            return load_queue_file(text, source)


def _no_group(group: str) -> QueueFileText:
    raise PolicyGroupUnknown(group)


def play(waiting_max: int, story: Callable[[QueueFiles, Reader], Coroutine[None, None, None]]) -> None:
    async def all_of_it() -> None:
        reader = Reader()
        async with asyncio.timeout(10):
            await story(QueueFiles(_no_group, reader.load, waiting_max), reader)

    asyncio.run(all_of_it())


def wants(files: QueueFiles, client: str, text: str) -> asyncio.Task[LoadedQueueFile]:
    return asyncio.create_task(files.wanted("rm", f"# {text}", "", client))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_client_waits_for_one_file_of_another_at_most() -> None:
    async def story(files: QueueFiles, reader: Reader) -> None:
        tasks = [wants(files, "greedy", f"greedy {number}") for number in range(3)]
        await settled()
        tasks.append(wants(files, "modest", "modest"))
        await settled()
        for _ in tasks:
            reader.may_end.release()
            await settled()
        await asyncio.gather(*tasks)
        assert reader.begun == ["# greedy 0", "# modest", "# greedy 1", "# greedy 2"]

    play(12, story)


def test_one_client_wants_a_quarter_of_them() -> None:
    async def story(files: QueueFiles, reader: Reader) -> None:
        tasks = [wants(files, "greedy", str(number)) for number in range(2)]
        await settled()
        with pytest.raises(Busy, match=r"^2 queue files are wanted by this client already, .*; try again later$"):
            await files.wanted("rm", "# more", "", "greedy")
        tasks.append(wants(files, "modest", "modest"))
        for _ in range(5):
            reader.may_end.release()
        await asyncio.gather(*tasks)
        await files.wanted("rm", "# more", "", "greedy")

    play(8, story)


def test_a_client_that_gives_up_waiting_leaves_its_turn_to_the_next() -> None:
    async def story(files: QueueFiles, reader: Reader) -> None:
        first, second, third = (wants(files, "one", str(number)) for number in range(3))
        await settled()
        second.cancel()
        first.cancel()
        reader.may_end.release()
        await third
        assert reader.begun == ["# 0", "# 2"]
        assert not files._turns._turns, "nothing is remembered of clients without work"

    play(12, story)
