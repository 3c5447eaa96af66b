"""Which queue files are read again for which RMs, and what is sent to the scheduler, counted and logged."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from schedulerd.config import PolicyGroupUnknown, Problem, QueueFile, QueueFileText
from schedulerd.core.language.commands import (
    RegisterResourceManager,
    StopCause,
    StopResourceManager,
    UpdateConfiguration,
)
from schedulerd.core.language.facts.configuration import ConfigurationUpdated
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.daemon.files import reloads
from schedulerd.daemon.files.files_in_force import LoadedQueueFile
from schedulerd.daemon.files.queue_files import REASONS_MAX, QueueFiles, log_warnings
from schedulerd.daemon.files.reloads import OWN_FILE, Reloads
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.runtime.workers import Busy, Workers
from schedulerd.observe.tally import ReloadResult
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, load_here

NOW_NS = 7


def a_file(*queues: str) -> str:
    leaves = "".join(f"          - name: {queue}\n" for queue in queues)
    return f"partitions:\n  - queues:\n      - name: root\n        submitacl: '*'\n        queues:\n{leaves}"


class World:
    """Queue files in memory, a scheduler whose resource managers live by them, and all that was counted."""

    def __init__(self) -> None:
        self.files = {"queues": a_file("a")}
        self.reads: list[str] = []
        self.counted: Counter[tuple[str, ReloadResult]] = Counter()
        self._counted_again = asyncio.Event()
        self.scheduler = RecordingScheduler()
        self.owner = Owner(self.scheduler, [], NoStopwatch(), inbox_max=10, placements_max=1)
        self.queue_files = QueueFiles(self._read, load_here)
        self.reloads: Reloads
        self._held: dict[str, tuple[asyncio.Event, threading.Event]] = {}

    def _read(self, group: str) -> QueueFileText:
        self.reads.append(group)
        if group in self._held:
            reading, go_on = self._held[group]
            self._loop.call_soon_threadsafe(reading.set)
            assert go_on.wait(10)
        if group not in self.files:
            raise PolicyGroupUnknown(f"no file {group}")
        return QueueFileText(self.files[group], f"{group}.yaml")

    def hold(self, group: str) -> tuple[asyncio.Event, threading.Event]:
        """Whoever reads the file of the group sets the first event and waits for the second."""
        self._loop = asyncio.get_running_loop()
        self._held[group] = asyncio.Event(), threading.Event()
        return self._held[group]

    async def has_counted(self, times: int) -> None:
        """Waits until so many reloads were counted."""
        while self.counted.total() < times:
            self._counted_again.clear()
            await self._counted_again.wait()

    def _count(self, rm_id: str, result: ReloadResult, now_ns: int) -> None:
        assert now_ns == NOW_NS
        self.counted[rm_id, result] += 1
        self._counted_again.set()

    def play(self, play: Callable[[World], Coroutine[None, None, None]]) -> list[dict[str, Any]]:
        """Runs `play` beside the owner; what was logged."""

        async def all_of_it() -> None:
            own = await self.queue_files.of_group("")
            managers = self.scheduler.cluster.resource_managers
            self.reloads = Reloads(
                self.queue_files, own.configuration, managers, self.owner, self._count, clock_ns=lambda: NOW_NS
            )
            self.counted.clear()
            self.reads.clear()
            owner = asyncio.create_task(self.owner.run())
            async with asyncio.timeout(10):
                await play(self)
            owner.cancel()

        with capture_logs() as logs:
            asyncio.run(all_of_it())
        return [dict(line) for line in logs]

    async def register(self, rm_id: str, text: str = "", policy_group: str = "") -> None:
        loaded = await self.queue_files.wanted(rm_id, text, policy_group, rm_id)
        command = RegisterResourceManager(rm_id, loaded.partitions, configuration=loaded.configuration)
        await (await self.owner.submit(command))
        self.reads.clear()

    def sent(self) -> list[str]:
        """Who was sent a new configuration, in order."""
        return [command.rm_id for _, command in self.scheduler.stepped if isinstance(command, UpdateConfiguration)]

    def queues(self, rm_id: str) -> set[str]:
        root = self.scheduler.cluster.resource_managers[rm_id].partitions["default"].root
        return {queue.path for queue in root.subtree() if not queue.draining}


def test_each_changed_file_is_read_once_and_goes_to_all_rms_that_use_it() -> None:
    async def play(world: World) -> None:
        world.files["gpu"] = a_file("g")
        await world.register("one")
        await world.register("two")
        await world.register("gpu", policy_group="gpu")
        await world.register("own", text=a_file("mine"))
        world.files["queues"] = a_file("a", "b")
        await world.reloads.reload()
        assert sorted(world.reads) == ["gpu", "queues"]
        assert world.sent() == ["one", "two"]
        assert world.queues("one") == world.queues("two") == {"root", "root.a", "root.b"}
        assert world.queues("own") == {"root", "root.mine"}

    world = World()
    logs = world.play(play)
    assert [(line["rm_id"], line["source"]) for line in logs if line["event"] == "queue file unchanged"] == [
        ("gpu", "gpu.yaml")
    ]
    assert world.counted == {(OWN_FILE, ReloadResult.APPLIED): 1, ("gpu", ReloadResult.UNCHANGED): 1}, (
        "what reaches the scheduler is counted by its facts"
    )


def test_the_same_file_is_not_sent_and_its_own_checksum_line_does_not_matter() -> None:
    async def play(world: World) -> None:
        await world.register("rm")
        before = world.scheduler.cluster.resource_managers["rm"].configuration.checksum
        await world.reloads.reload()
        world.files["queues"] += f"checksum: {before}"
        await world.reloads.reload()
        assert world.reloads.checksums() == [(OWN_FILE, before), ("rm", before)]
        assert world.sent() == []

    world = World()
    logs = world.play(play)
    assert [(line["event"], line["rm_id"]) for line in logs] == [("queue file unchanged", "rm")] * 2
    assert world.counted == {(OWN_FILE, ReloadResult.UNCHANGED): 2, ("rm", ReloadResult.UNCHANGED): 2}


def test_a_file_with_mistakes_changes_nothing_and_says_why() -> None:
    async def play(world: World) -> None:
        await world.register("rm")
        world.files["queues"] = "partitions: [nonsense]"
        await world.reloads.reload()
        assert world.queues("rm") == {"root", "root.a"}

    world = World()
    (line,) = world.play(play)
    assert (line["event"], line["rm_id"], line["source"]) == (
        *("queue file not reloaded: nothing changed", "rm", "queues.yaml"),
    )
    assert line["reasons"][0].startswith("line 1: partitions[0] = 'nonsense': ")
    assert world.counted == {(OWN_FILE, ReloadResult.REFUSED): 1, ("rm", ReloadResult.REFUSED): 1}


def test_the_reasons_are_bounded() -> None:
    async def play(world: World) -> None:
        world.files["queues"] = f"partitions: [{', '.join(['nonsense'] * 50)}]"
        await world.reloads.reload()

    (line,) = World().play(play)
    assert len(line["reasons"]) == 21
    assert line["reasons"][-1] == "30 more; `schedulerd validate` shows all"


@pytest.mark.parametrize(("more", "rest"), [(0, []), (1, ["1 more; `schedulerd validate` shows all"])])
def test_the_warnings_are_bounded(more: int, rest: list[str]) -> None:
    warnings = tuple(Problem("", None, None, f"warning {number}") for number in range(REASONS_MAX + more))
    with capture_logs() as lines:
        log_warnings(LoadedQueueFile((), ConfigurationText("", "a file", policy_group="queues"), warnings))
    assert [line["problem"] for line in lines] == [*(f"warning {number}" for number in range(REASONS_MAX)), *rest]


def test_without_any_resource_manager_the_daemons_own_file_is_still_looked_at() -> None:
    async def play(world: World) -> None:
        world.files["queues"] = "partitions: [nonsense]"
        await world.reloads.reload()
        del world.files["queues"]
        await world.reloads.reload()
        world.files["queues"] = a_file("a")
        await world.reloads.reload()
        world.files["queues"] = a_file("b")
        await world.reloads.reload()

    world = World()
    assert [line["event"] for line in world.play(play)] == [
        "queue file not reloaded: nothing changed",
        "queue file not reloaded: nothing changed",
        "queue file unchanged",
        "queue file read for later registrations",
    ]
    assert world.counted == {
        (OWN_FILE, ReloadResult.REFUSED): 2,
        (OWN_FILE, ReloadResult.UNCHANGED): 1,
        (OWN_FILE, ReloadResult.APPLIED): 1,
    }


def test_an_rm_that_is_gone_by_the_time_is_left_out() -> None:
    async def play(world: World) -> None:
        world.files["gpu"] = a_file("g")
        await world.register("rm", policy_group="gpu")
        world.files["gpu"] = a_file("g", "h")
        reload = asyncio.create_task(world.reloads.reload())
        await (await world.owner.submit(StopResourceManager("rm", StopCause.UNREGISTERED)))
        await reload
        assert world.sent() == []

    World().play(play)


def test_an_rm_that_sends_its_own_configuration_while_a_file_is_read_keeps_it() -> None:
    async def play(world: World) -> None:
        world.files["gpu"] = a_file("a")
        await world.register("rm", policy_group="gpu")
        own = await world.queue_files.wanted("rm", a_file("a", "sent"), "", "rm")
        world.files["gpu"] = a_file("a", "from_file")
        reading, go_on = world.hold("gpu")
        reload = asyncio.create_task(world.reloads.reload())
        await reading.wait()
        told = await (await world.owner.submit(UpdateConfiguration("rm", own.partitions, own.configuration)))
        assert isinstance(told[-1], ConfigurationUpdated)
        go_on.set()
        await reload
        assert world.sent() == ["rm", "rm"], "both reach the scheduler, and the one from the file is void"
        assert world.queues("rm") == {"root", "root.a", "root.sent"}

    World().play(play)


def test_requests_before_a_reload_begins_are_one() -> None:
    async def play(world: World) -> None:
        world.reloads.request()
        world.reloads.request()
        running = asyncio.create_task(world.reloads.run())
        await world.has_counted(1)
        world.reloads.request()
        await world.has_counted(2)
        running.cancel()
        assert world.reloads.started == 2

    World().play(play)


def test_a_daemon_without_a_valid_file_tries_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloads, "RETRY_SECONDS", 0.0)

    async def play(world: World) -> None:
        world.files["queues"] = "partitions: 3"
        managers = world.scheduler.cluster.resource_managers
        files = QueueFiles(world._read, load_here)
        waiting = Reloads(files, None, managers, world.owner, world._count, clock_ns=lambda: NOW_NS)
        running = asyncio.create_task(waiting.run())
        while len(world.reads) < 3:  # noqa: ASYNC110 - the reads are in a thread
            await asyncio.sleep(0)
        assert not waiting.has_own.is_set()
        assert waiting.checksums() == []
        world.files["queues"] = a_file("b")
        await waiting.until_valid([])
        assert [rm_id for rm_id, _ in waiting.checksums()] == [OWN_FILE]
        running.cancel()

    told = [line for line in World().play(play) if line["event"] == "no valid queue file: waiting for one"]
    assert len(told) == 1, "what does not change is said once"


def test_a_file_that_is_not_read_in_time_cannot_be_read() -> None:
    async def play(world: World) -> None:
        await world.register("rm")
        world.files["queues"] = a_file("b")
        _, go_on = world.hold("queues")
        world.queue_files._files = Workers("queue files", threads=1, waiting_max=10, seconds_max=0.01)
        await world.reloads.reload()
        go_on.set()
        assert world.counted["rm", ReloadResult.REFUSED] == 1
        assert world.queues("rm") == {"root", "root.a"}
        assert await world.queue_files._files.close(10)

    lines = World().play(play)
    (line,) = [line for line in lines if line["event"] == "queue file not reloaded: nothing changed"]
    assert line["reasons"] == ["the queue file queues of policyGroup 'queues' cannot be read: took longer than 0.01 s"]


def test_a_reload_that_is_turned_away_is_told() -> None:
    async def turn_away(text: str, source: str) -> QueueFile:
        raise Busy("too many")

    async def play(world: World) -> None:
        await world.register("rm")
        world.queue_files._load_text = turn_away
        world.files["queues"] = a_file("a", "b")
        await world.reloads.reload()
        assert world.counted["rm", ReloadResult.REFUSED] == 1

    lines = World().play(play)
    assert [line["reasons"] for line in lines if line["log_level"] == "error"] == [["too many"]]
