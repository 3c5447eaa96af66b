"""Of each policy group, the last valid text stays in force, and what cannot be used is named."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine

import pytest
from structlog.testing import capture_logs

from schedulerd.config import (
    SHIPPED,
    PolicyGroupUnknown,
    QueueFile,
    QueueFileInvalid,
    QueueFileText,
    QueueFileUnreadable,
)
from schedulerd.daemon.files import files_in_force, queue_files
from schedulerd.daemon.files.queue_files import FILE_SECONDS_MAX, NO_PARTITIONS, QueueFiles
from tests.unit import virtual_loop
from tests.unit.daemon.files.test_reloads import a_file
from tests.unit.daemon.recording import load_here


class Files:
    """Queue files in memory. A value that is an error is raised for the group."""

    def __init__(self) -> None:
        self.texts: dict[str, str | PolicyGroupUnknown] = {"queues": a_file("a")}
        self.sources: dict[str, str] = {}
        self.parsed = 0
        self.files = QueueFiles(self._read, self._load, groups_with_file=lambda: [*self.texts])

    def _read(self, group: str) -> QueueFileText:
        found = self.texts.get(group, PolicyGroupUnknown(f"policyGroup {group!r} has no queue file"))
        if isinstance(found, PolicyGroupUnknown):
            raise found
        return QueueFileText(found, self.sources.get(group, f"{group}.yaml"))

    async def _load(self, text: str, source: str) -> QueueFile:
        self.parsed += 1
        return await load_here(text, source)

    async def registers(self, text: str = "", group: str = "") -> str:
        """The text that a registration gets."""
        return (await self.files.for_registration("rm", text, group, "rm")).configuration.text


def play(story: Callable[[Files], Coroutine[None, None, None]]) -> None:
    async def all_of_it() -> None:
        async with asyncio.timeout(10):
            await story(Files())

    asyncio.run(all_of_it())


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("partitions: [secret]", "line 1: "),
        ("", NO_PARTITIONS),
        (QueueFileUnreadable("queues", "queues.yaml", "is a directory"), "the queue file queues.yaml of"),
        (PolicyGroupUnknown("no such file"), "no such file"),
    ],
)
def test_a_registration_gets_the_last_valid_text(fault: str | PolicyGroupUnknown, problem: str) -> None:
    async def story(world: Files) -> None:
        valid = world.texts["queues"]
        assert await world.registers() == valid
        assert not world.files.in_force.broken
        world.texts["queues"] = fault
        assert await world.registers() == valid
        (broken,) = world.files.in_force.broken
        assert (broken.policy_group, broken.has_text_in_force) == ("queues", True)
        assert broken.problem_without_text.startswith(problem)
        assert "secret" not in broken.problem_without_text
        with pytest.raises((QueueFileInvalid, PolicyGroupUnknown)):
            await world.files.wanted("rm", "", "queues", "rm")
        world.texts["queues"] = a_file("b")
        assert await world.registers() == a_file("b")
        assert not world.files.in_force.broken

    play(story)


def test_a_text_that_is_sent_has_no_other_in_force() -> None:
    async def story(world: Files) -> None:
        await world.registers()
        with pytest.raises(QueueFileInvalid):
            await world.registers("partitions: 3")
        assert not world.files.in_force.broken, "what a client sends is no file"

    play(story)


def test_the_shipped_file_takes_no_place_of_a_file_that_was_removed() -> None:
    async def story(world: Files) -> None:
        valid = await world.registers()
        world.texts["queues"], world.sources["queues"] = a_file("shipped"), SHIPPED
        assert await world.registers() == valid
        (broken,) = world.files.in_force.broken
        assert "is not there any longer" in broken.problem

    play(story)


def test_names_that_clients_make_up_are_not_remembered() -> None:
    async def story(world: Files) -> None:
        for name in ("x", "y"):
            with pytest.raises(PolicyGroupUnknown):
                await world.registers(group=name)
        assert not world.files.in_force.broken
        assert not world.files.in_force.validity
        world.texts["bad"] = "partitions: 3"
        with pytest.raises(QueueFileInvalid):
            await world.registers(group="bad")
        assert [one.has_text_in_force for one in world.files.in_force.broken] == [False]

    play(story)


def test_a_text_that_is_known_is_not_parsed_again() -> None:
    async def story(world: Files) -> None:
        for _ in range(3):
            await world.registers()
            await world.files.of_group("")
            await world.files.read_ahead([])
        assert world.parsed == 1

    play(story)


def test_files_are_read_ahead_for_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_files, "GROUPS_MAX", 2)

    async def story(world: Files) -> None:
        world.texts = {name: a_file(name) for name in ("one", "two", "three")}
        await world.files.read_ahead([])
        assert world.files.in_force.validity == {"one": True, "two": True}
        world.texts["one"] = "partitions: 3"
        await world.files.read_ahead(["two"])
        assert world.files.in_force.validity == {"one": False, "two": True}

    play(story)


class DeadDisk:
    """Its reads never end, until the test does."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.files = QueueFiles(self._read, load_here, 1_000, self._list, lambda group: f"/nfs/{group}.yaml")

    def _read(self, group: str) -> QueueFileText:
        self.end.wait()
        raise PolicyGroupUnknown(group)

    def _list(self) -> list[str]:
        self.end.wait()
        return []

    async def registers(self, group: str) -> str:
        """Why it is refused."""
        with pytest.raises(QueueFileUnreadable) as refused:
            await self.files.for_registration("rm", "", group, "rm")
        return str(refused.value)

    def play(self, story: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            virtual_loop.run(story())
        finally:
            self.end.set()


def test_a_file_whose_read_never_ends_is_named_with_its_path_and_the_time() -> None:
    disk = DeadDisk()

    async def story() -> None:
        reason = "cannot be read: took longer than 10 s"
        sentence = f"the queue file /nfs/gpu.yaml of policyGroup 'gpu' {reason}"
        assert await disk.registers("gpu") == sentence
        (broken,) = disk.files.in_force.broken
        assert (broken.policy_group, broken.source, broken.has_text_in_force) == ("gpu", "/nfs/gpu.yaml", False)
        assert broken.problem == broken.problem_without_text == sentence
        assert disk.files.in_force.validity == {"gpu": False}

    disk.play(story)


def test_files_that_are_read_ahead_end_when_every_thread_hangs() -> None:
    disk = DeadDisk()

    async def story() -> None:
        groups = [f"group-{number}" for number in range(10)]
        for group in groups:
            await disk.registers(group)
        assert [one.policy_group for one in disk.files.in_force.broken] == groups
        loop = asyncio.get_running_loop()
        began = loop.time()
        with capture_logs() as lines:
            for _ in range(2):
                await disk.files.read_ahead([])
        assert loop.time() - began == 2 * (1 + 4) * FILE_SECONDS_MAX
        told = [line["reason"] for line in lines if line["event"] != "work given up"]
        assert told == ["took longer than 10 s"], "that nothing can be listed is told once"

    disk.play(story)


def test_so_many_names_are_remembered_while_a_disk_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_in_force, "GROUPS_MAX", 2)
    disk = DeadDisk()

    async def story() -> None:
        for group in ("x", "y", "x", "z", ""):
            await disk.registers(group)
        assert disk.files.in_force.validity == {"x": False, "y": False, "queues": False}

    disk.play(story)


def test_a_name_that_was_made_up_meanwhile_is_forgotten_when_the_disk_answers() -> None:
    async def story(world: Files) -> None:
        world.texts["x"] = QueueFileUnreadable("x", "/nfs/x.yaml", "cannot be read: took longer than 10 s")
        with pytest.raises(QueueFileUnreadable):
            await world.registers(group="x")
        assert world.files.in_force.validity == {"x": False}
        del world.texts["x"]
        await world.files.read_ahead([])
        assert world.files.in_force.validity == {"queues": True}

    play(story)


def test_files_that_cannot_be_listed_are_still_read_if_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> list[str]:
        raise OSError(5, "Input/output error")

    async def story(world: Files) -> None:
        await world.registers()
        monkeypatch.setattr(world.files, "_groups_with_file", fails)
        world.texts["queues"] = "partitions: 3"
        with capture_logs() as lines:
            await world.files.read_ahead([])
        assert world.files.in_force.validity == {"queues": False}
        assert [line["event"] for line in lines] == [
            "queue files of policy groups cannot be listed",
            "queue file cannot be used",
        ]

    play(story)
