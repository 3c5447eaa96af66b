"""What the Admin methods answer; over the wire they are in `tests/contract`."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine
from typing import NoReturn, cast

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import PolicyGroupUnknown, QueueFile, QueueFileText
from schedulerd.core.language.commands import (
    NewApplication,
    RegisterResourceManager,
    StopCause,
    StopResourceManager,
    UpdateApplications,
)
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.access.methods import DETAILS_BYTES_MAX, UnaryContext
from schedulerd.daemon.admin.admin_service import LISTED_MAX, AdminService
from schedulerd.daemon.files.queue_files import Load, QueueFiles
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.runtime.workers import Busy
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, load_here

FILE = """
partitions:
  - queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
"""
WITH_B = FILE + "          - name: b\n"
WITHOUT_A = FILE.replace("- name: a", "- name: b")
A_AS_PARENT = FILE.replace("- name: a", "- name: a\n            parent: true")


class Aborted(Exception):
    """How a call ended that was not answered."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


class AbortingContext:
    """As far as the methods use one."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Aborted(code, details)


CONTEXT = cast(UnaryContext, AbortingContext())


class World:
    """The service with a real scheduler in which `rm` is registered by the file FILE and runs `app-1` in root.a."""

    def __init__(self) -> None:
        self.scheduler = RecordingScheduler()
        self.owner = Owner(self.scheduler, [], NoStopwatch(), inbox_max=10, placements_max=1)
        self.refused: list[tuple[str, str, list[str]]] = []
        self.validator: Load = load_here
        self.before_reading: Callable[[], None] = lambda: None
        managers = self.scheduler.cluster.resource_managers
        self.managers: dict[str, ResourceManager] = managers
        self.files = QueueFiles(self._read, load_here)
        self.service = AdminService(
            self.owner,
            self.files,
            managers,
            lambda rm_id, source, reasons: self.refused.append((rm_id, source, reasons)),
            self._validate,
        )

    async def _validate(self, text: str, source: str) -> QueueFile:
        return await self.validator(text, source)

    def _read(self, group: str) -> QueueFileText:
        self.before_reading()
        if group != "queues":
            raise PolicyGroupUnknown(f"no file {group}")
        return QueueFileText(FILE, "queues.yaml")

    def play(self, play: Callable[[World], Coroutine[None, None, None]]) -> None:
        async def all_of_it() -> None:
            owner = asyncio.create_task(self.owner.run())
            async with asyncio.timeout(10):
                loaded = await self.files.of_group("")
                await self.take(RegisterResourceManager("rm", loaded.partitions, configuration=loaded.configuration))
                await self.take(UpdateApplications("rm", [NewApplication("app-1", "root.a", user="u")]))
                await play(self)
            owner.cancel()

        asyncio.run(all_of_it())

    async def take(self, command: RegisterResourceManager | UpdateApplications | StopResourceManager) -> None:
        await (await self.owner.submit(command))

    async def update(
        self, config: str = "", policy_group: str = "", rm_id: str = "rm"
    ) -> admin_pb2.UpdateConfigurationResponse:
        request = si_pb2.UpdateConfigurationRequest(rmID=rm_id, config=config, policyGroup=policy_group)
        return await self.service.update_configuration(request, CONTEXT)

    async def validate(self, config: str, rm_id: str = "rm") -> admin_pb2.ValidateConfigurationResponse:
        request = admin_pb2.ValidateConfigurationRequest(config=config, rmID=rm_id)
        return await self.service.validate_configuration(request, CONTEXT)

    def policy_group(self) -> str | None:
        return self.managers["rm"].configuration.policy_group

    def queues(self) -> set[str]:
        root = self.managers["rm"].partitions["default"].root
        return {queue.path for queue in root.subtree() if not queue.draining}


def test_an_update_answers_with_the_text_before_and_what_changed() -> None:
    async def play(world: World) -> None:
        first = await world.update(WITHOUT_A)
        assert (first.success, first.reason, first.oldConfig) == (True, "", FILE)
        assert [(one.kind, one.partition, one.queue, one.harms) for one in first.impact] == [
            ("queue_drains", "default", "root.a", True),
            ("queue_added", "default", "root.b", False),
        ]
        assert first.impact[1].message == "queue root.b is new"
        second = await world.update(WITH_B, policy_group="queues")
        assert (second.success, second.oldConfig) == (True, WITHOUT_A)
        assert world.queues() == {"root", "root.a", "root.b"}
        assert world.policy_group() is None, "files do not matter to it any longer"
        back = await world.update(policy_group="queues")
        assert (back.success, back.oldConfig) == (True, WITH_B)
        assert world.policy_group() == "queues"
        assert world.refused == []

    World().play(play)


def test_warnings_come_with_the_answer() -> None:
    async def play(world: World) -> None:
        text = WITH_B + "            properties: {priority.ofset: '1'}\n"
        answer = await world.update(text)
        assert answer.success
        (warning,) = answer.warnings
        assert (warning.line, warning.value) == (9, "1")
        assert "priority.offset" in warning.message
        assert (await world.validate(text)).warnings == answer.warnings

    World().play(play)


def test_a_text_with_problems_is_refused_with_all_of_them() -> None:
    async def play(world: World) -> None:
        answer = await world.update("partitions: [nonsense]\nwrong: " + "x" * 1000)
        assert (answer.success, answer.oldConfig) == (False, "")
        headline, first, second = answer.reason.splitlines()
        assert headline == "config sent for 'rm': 2 problems"
        assert first.startswith("  line 1: partitions[0] = 'nonsense': must be a mapping")
        assert second.startswith("  line 2: wrong = 'xxx")
        assert [(one.path, one.line) for one in answer.problems] == [("partitions[0]", 1), ("wrong", 2)]
        assert answer.problems[0].value == "nonsense"
        assert len(answer.problems[1].value) < 100
        ((rm_id, source, reasons),) = world.refused
        assert (rm_id, source, len(reasons)) == ("rm", "UpdateConfiguration", 2)
        assert "UpdateConfiguration" not in world.scheduler.commands

    World().play(play)


def test_what_the_scheduler_refuses_is_told_and_left_to_its_facts() -> None:
    async def play(world: World) -> None:
        answer = await world.update(A_AS_PARENT)
        assert not answer.success
        assert "root.a has 1 application and cannot become a parent" in answer.reason
        assert world.refused == []
        assert world.managers["rm"].configuration.text == FILE

    World().play(play)


def test_a_policy_group_without_file() -> None:
    async def play(world: World) -> None:
        answer = await world.update(policy_group="gpu")
        assert (answer.success, answer.reason) == (False, "no file gpu")
        assert world.refused == [("rm", "UpdateConfiguration", ["no file gpu"])]

    World().play(play)


@pytest.mark.parametrize(
    ("rm_id", "config", "code", "words"),
    [
        ("", FILE, grpc.StatusCode.INVALID_ARGUMENT, "rmID: is empty"),
        ("rm", "", grpc.StatusCode.INVALID_ARGUMENT, "config: is empty"),
        ("other", FILE, grpc.StatusCode.NOT_FOUND, "rmID: 'other' is not registered; registered are 'rm'"),
    ],
)
def test_an_update_that_cannot_be_meant(rm_id: str, config: str, code: grpc.StatusCode, words: str) -> None:
    async def play(world: World) -> None:
        with pytest.raises(Aborted) as aborted:
            await world.update(config, rm_id=rm_id)
        assert aborted.value.code is code
        assert words in aborted.value.details

    World().play(play)


def test_an_rm_that_leaves_while_its_file_is_read() -> None:
    async def play(world: World) -> None:
        loop, reading, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def hold() -> None:
            loop.call_soon_threadsafe(reading.set)
            assert go_on.wait(10)

        world.before_reading = hold
        update = asyncio.create_task(world.update(policy_group="queues"))
        await reading.wait()
        await world.take(StopResourceManager("rm", StopCause.UNREGISTERED))
        go_on.set()
        with pytest.raises(Aborted) as aborted:
            await update
        assert aborted.value.code is grpc.StatusCode.NOT_FOUND
        assert aborted.value.details.endswith("registered are none")

    World().play(play)


def test_validation_tells_the_impact_and_changes_nothing() -> None:
    async def play(world: World) -> None:
        answer = await world.validate(WITHOUT_A)
        assert (answer.allowed, answer.reason, list(answer.resourceManagers)) == (True, "", ["rm"])
        assert [one.kind for one in answer.impact] == ["queue_drains", "queue_added"]
        assert answer.checksum == hashlib.sha256(WITHOUT_A.encode()).hexdigest().upper()
        assert world.queues() == {"root", "root.a"}
        assert "UpdateConfiguration" not in world.scheduler.commands
        refused = await world.validate(A_AS_PARENT)
        assert not refused.allowed
        assert "cannot become a parent" in refused.reason

    World().play(play)


def test_validation_without_an_rm_looks_at_the_text_alone() -> None:
    async def play(world: World) -> None:
        answer = await world.validate(A_AS_PARENT, rm_id="")
        assert (answer.allowed, list(answer.impact), list(answer.resourceManagers)) == (True, [], ["rm"])
        wrong = await world.validate("partitions: [nonsense]", rm_id="")
        assert (wrong.allowed, wrong.checksum) == (False, "")
        assert wrong.reason.startswith("config: 1 problem\n  line 1: partitions[0] = 'nonsense': must be a mapping")
        assert wrong.problems[0].path == "partitions[0]"

    World().play(play)


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_effects_are_in_an_answer_and_the_others_are_left_out(more: int) -> None:
    async def play(world: World) -> None:
        added = [f"          - name: q{number}\n" for number in range(LISTED_MAX + more)]
        answer = await world.validate(FILE + "".join(added))
        assert len(answer.impact) == LISTED_MAX
        assert answer.allowed

    World().play(play)


def test_an_answer_is_bounded() -> None:
    async def play(world: World) -> None:
        answer = await world.validate(f"partitions: [{', '.join(['x'] * (LISTED_MAX + 5))}]", rm_id="")
        assert answer.reason.startswith(f"config: {LISTED_MAX} problems, the most that are looked for\n")
        assert len(answer.reason) < DETAILS_BYTES_MAX + 100
        assert len(answer.problems) == LISTED_MAX

    World().play(play)


def test_more_texts_than_may_wait_are_turned_away() -> None:
    async def turn_away(text: str, source: str) -> QueueFile:
        raise Busy("5 validations are under way or waiting already; try again later")

    async def play(world: World) -> None:
        world.validator = turn_away
        with pytest.raises(Aborted) as aborted:
            await world.validate(FILE)
        assert aborted.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert aborted.value.details == "5 validations are under way or waiting already; try again later"
        world.files._load_text = turn_away
        with pytest.raises(Aborted) as aborted:
            await world.update(FILE)
        assert aborted.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert world.refused == []

    World().play(play)
