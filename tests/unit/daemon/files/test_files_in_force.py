"""Of each policy group, the last valid text stays in force, and what cannot be used is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from schedulerd.config import (
    SHIPPED,
    PolicyGroupUnknown,
    QueueFile,
    QueueFileInvalid,
    QueueFileText,
    QueueFileUnreadable,
)
from schedulerd.daemon.files import queue_files
from schedulerd.daemon.files.queue_files import NO_PARTITIONS, QueueFiles
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
        (QueueFileUnreadable("it is a directory"), "it is a directory"),
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
