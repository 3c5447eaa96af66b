"""Which contents count as a change, and that a ConfigMap's way of changing a file is seen."""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from schedulerd.config import Settings, queue_file_paths
from schedulerd.daemon.files.file_watch import LOOK_SECONDS_MAX, NO_ANSWER, FileWatch, Settling, contents
from tests.config_map import ConfigMap
from tests.unit import virtual_loop


def looks(settling: Settling, *digests: str) -> list[bool]:
    return [settling.look((("queues.yaml", digest),)) for digest in digests]


def starting_with(digest: str) -> Settling:
    return Settling((("queues.yaml", digest),))


def test_what_stays_the_same_is_no_change() -> None:
    assert looks(starting_with("a"), "a", "a", "a") == [False, False, False]


def test_a_change_is_told_once_when_it_was_seen_twice() -> None:
    assert looks(starting_with("a"), "b", "b", "b", "b") == [False, True, False, False]


def test_a_file_that_is_being_written_is_left_alone_until_it_rests() -> None:
    assert looks(starting_with("a"), "b", "c", "d", "d", "d") == [False, False, False, True, False]


def test_a_change_that_is_taken_back_before_it_rests_is_none() -> None:
    assert looks(starting_with("a"), "b", "a", "a") == [False, False, False]


def test_a_change_back_is_a_change() -> None:
    assert looks(starting_with("a"), "b", "b", "a", "a") == [False, True, False, True]


def test_a_swapped_symbolic_link_is_seen_and_an_equal_one_is_not(tmp_path: Path) -> None:
    config_map = ConfigMap(tmp_path, "first")
    before = contents([config_map.path])
    config_map.swap("first")
    assert contents([config_map.path]) == before
    config_map.swap("other")
    assert contents([config_map.path]) != before


def test_a_file_that_is_gone_or_new_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    assert contents([path]) == ((str(path), "cannot be read: No such file or directory"),)
    path.write_text("")
    assert contents([path]) != ((str(path), "cannot be read: No such file or directory"),)


def test_the_files_are_the_configured_one_and_those_of_all_groups(tmp_path: Path) -> None:
    own, groups = tmp_path / "own.yaml", tmp_path / "groups"
    groups.mkdir()
    for path in (own, groups / "b.yaml", groups / "a.yaml", groups / "note.txt"):
        path.write_text("")
    assert queue_file_paths(Settings()) == []
    assert queue_file_paths(Settings(config=own, policy_groups_dir=groups)) == [
        *(own, groups / "a.yaml", groups / "b.yaml"),
    ]


def test_it_looks_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text("0")

    def versions() -> Iterator[str]:
        yield from ("0", "1", "1", "1", "2")
        while True:
            yield "2"

    async def play() -> None:
        told: list[str] = []
        done = asyncio.Event()
        versions_seen = versions()

        def paths() -> list[Path]:
            path.write_text(next(versions_seen))
            return [path]

        def changed() -> None:
            told.append(path.read_text())
            if len(told) == 2:
                done.set()

        watching = asyncio.create_task(FileWatch(paths, 0.001).run(changed))
        async with asyncio.timeout(10):
            await done.wait()
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        assert told == ["1", "2"]

    asyncio.run(play())


def test_a_look_that_fails_is_made_again_later(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text("before")
    looks = itertools.count()

    def paths() -> list[Path]:
        if next(looks) == 1:
            raise OSError(errno.EIO, "Input/output error")
        path.write_text("after")
        return [path]

    async def play() -> None:
        changed = asyncio.Event()
        watch = FileWatch(lambda: [path], 0.001)
        watch._paths = paths
        watching = asyncio.create_task(watch.run(changed.set))
        async with asyncio.timeout(10):
            await changed.wait()
        watching.cancel()
        assert next(looks) > 2

    asyncio.run(play())


class DeadDisk:
    """Answers the first so many checks; each later check waits for the end of the test."""

    def __init__(self, answers: int) -> None:
        self._checks = itertools.count()
        self._answers = answers
        self.end = threading.Event()

    def paths(self) -> list[Path]:
        if next(self._checks) >= self._answers:
            self.end.wait()
        return []

    def play(self, story: Coroutine[Any, Any, None]) -> None:
        try:
            virtual_loop.run(story)
        finally:
            self.end.set()


def test_a_disk_that_does_not_answer_is_told_once() -> None:
    """The first check is given up; each later one finds its thread occupied."""
    disk = DeadDisk(answers=1)

    async def story() -> None:
        loop, told_at = asyncio.get_running_loop(), list[float]()
        watching = asyncio.create_task(FileWatch(disk.paths, 5).run(lambda: told_at.append(loop.time())))
        with capture_logs() as lines:
            await asyncio.sleep(60)
        watching.cancel()
        assert told_at == [5 + LOOK_SECONDS_MAX + 5]
        assert [line["event"] for line in lines] == ["work given up"]

    disk.play(story())


def test_a_watch_begins_although_the_disk_does_not_answer() -> None:
    disk = DeadDisk(answers=0)

    async def story() -> None:
        watch = await FileWatch.begin(disk.paths, 5)
        assert asyncio.get_running_loop().time() == LOOK_SECONDS_MAX
        assert not watch._settling.look(NO_ANSWER)

    disk.play(story())


def test_the_answer_of_a_disk_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text("text")

    async def story() -> None:
        changed = asyncio.Event()
        watch = FileWatch(lambda: [tmp_path / "queues.yaml"], 0.001, NO_ANSWER)
        watching = asyncio.create_task(watch.run(changed.set))
        async with asyncio.timeout(10):
            await changed.wait()
        watching.cancel()

    asyncio.run(story())
