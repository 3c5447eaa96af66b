"""A registration that meets a reload, a bug, or a client that goes; and how a status is cut."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import cast
from urllib.parse import quote

import grpc
import pytest
import structlog

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import QueueFileText
from schedulerd.core.language.commands import CleanQueues, Command, ConnectResourceManager
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.resource_managers.handlers import resource_managers
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.access.methods import DETAILS_BYTES_MAX, UnaryContext, bounded
from schedulerd.daemon.files import queue_files
from schedulerd.daemon.files.queue_files import QueueFiles
from schedulerd.daemon.files.reloads import Reloads
from schedulerd.daemon.runtime.groups import GroupResolver, Groups
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.daemon.transport.scheduler_service import SchedulerService
from schedulerd.wire.encode import ResponseEncoder
from tests.unit.daemon.fake_call import Aborted, FakeContext
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, load_here

BEFORE, AFTER = (
    f"partitions: [{{queues: [{{name: root, queues: [{{name: {leaf}}}]}}]}}]" for leaf in ("before", "after")
)

INBOX_MAX = 10


class ChangingFile:
    """A queue file whose second reader (the first is the daemon at its start) takes long over the text it was."""

    def __init__(self) -> None:
        self._reads = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self.is_read = asyncio.Event()
        self.go_on = threading.Event()

    def read(self, _group: str) -> QueueFileText:
        number = next(self._reads)
        if number == 2:
            self._loop.call_soon_threadsafe(self.is_read.set)
            assert self.go_on.wait(10)
        return QueueFileText(BEFORE if number <= 2 else AFTER, "queues.yaml")


class Daemon:
    """As much of a daemon as registers resource managers; to be made on a loop."""

    def __init__(self, read: Callable[[str], QueueFileText], resource_managers_max: int = 2) -> None:
        self._limits = RequestLimits(1, resource_managers_max)
        self.scheduler = RecordingScheduler()
        self.managers = self.scheduler.cluster.resource_managers
        self.sessions = RmSessions(
            ResponseEncoder(), lambda command: self.owner.post(command), outbox_bytes_max=1_000_000
        )
        self.owner = Owner(
            self.scheduler, [self.sessions.deliver], NoStopwatch(), inbox_max=INBOX_MAX, placements_max=1
        )
        self.queue_files = QueueFiles(read, load_here)

    async def run(self) -> None:
        """Returns when it serves."""
        own = (await self.queue_files.of_group("")).configuration
        self.reloads = Reloads(self.queue_files, own, self.managers, self.owner, lambda *_: None)
        self._service = SchedulerService(
            self.owner,
            GrpcAccess(),
            self.sessions,
            self.queue_files,
            self.reloads,
            self.managers,
            Groups(GroupResolver(lambda: 0), waiting_max=0),
            {},
            self._limits,
        )
        self.running = asyncio.create_task(self.owner.run())

    def register(
        self, context: FakeContext | None = None, rm_id: str = "rm"
    ) -> asyncio.Task[si_pb2.RegisterResourceManagerResponse]:
        request = si_pb2.RegisterResourceManagerRequest(rmID=rm_id)
        return asyncio.create_task(self._service.register(request, cast(UnaryContext, context or FakeContext())))


def test_a_file_that_changes_while_a_registration_reads_it_is_not_missed() -> None:
    async def play() -> None:
        file = ChangingFile()
        daemon = Daemon(file.read)
        await daemon.run()
        registering = daemon.register()
        await file.is_read.wait()
        await daemon.reloads.reload()
        file.go_on.set()
        await registering
        assert set(daemon.managers["rm"].partitions["default"].root.children) == {"before"}
        assert daemon.reloads.is_requested
        await daemon.reloads.reload()
        assert not daemon.managers["rm"].partitions["default"].root.children["after"].draining
        daemon.running.cancel()

    asyncio.run(play())


def test_a_registration_and_a_reload_that_find_as_many_files_waiting_as_may_are_turned_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_files, "FILES_WAITING_MAX", 1)
    go_on = threading.Event()
    go_on.set()

    def read(_group: str) -> QueueFileText:
        assert go_on.wait(20)
        return QueueFileText(BEFORE, "queues.yaml")

    async def play() -> None:
        daemon = Daemon(read, resource_managers_max=100)
        await daemon.run()
        go_on.clear()
        contexts = [FakeContext() for _ in range(6)]
        for context in contexts:
            await context.send_initial_metadata(())
        tasks = [daemon.register(context, f"rm{number}") for number, context in enumerate(contexts)]
        try:
            async with asyncio.timeout(10):
                (refused,), others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            with structlog.testing.capture_logs() as lines:
                async with asyncio.timeout(10):
                    await daemon.reloads.reload()
        finally:
            go_on.set()
        assert isinstance(refused.exception(), Aborted)
        busy = "5 queue files are under way or waiting already; try again later"
        assert contexts[tasks.index(refused)].status == (grpc.StatusCode.RESOURCE_EXHAUSTED, busy)
        assert [line["reasons"] for line in lines if line["log_level"] == "error"] == [[busy]]
        await asyncio.gather(*others)
        assert len(daemon.managers) == 5
        daemon.running.cancel()

    asyncio.run(play())


def raises(*_: object) -> None:
    raise LookupError("a bug")


@pytest.mark.parametrize("is_known", [False, True])
def test_a_registration_that_the_scheduler_cannot_check_is_answered_with_internal(
    monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    async def play() -> None:
        daemon = Daemon(lambda _: QueueFileText(BEFORE, "queues.yaml"))
        await daemon.run()
        if is_known:
            await daemon.register()
            daemon.owner.post(ConnectResourceManager("rm"))
        context = FakeContext()
        await context.send_initial_metadata(())
        with monkeypatch.context() as patch:
            patch.setattr(resource_managers, "ResourceManager", raises)
            with pytest.raises(Aborted):
                await daemon.register(context)
        code, details = context.status
        assert code is grpc.StatusCode.INTERNAL
        assert details.startswith("LookupError while this RegisterResourceManager was checked")
        assert list(daemon.managers) == (["rm"] if is_known else [])
        await asyncio.sleep(0)
        states = [manager.state for manager in daemon.managers.values()]
        assert states == [ResourceManagerState.PAUSED] * is_known, "nothing is placed where streams were ended"
        await daemon.register()
        assert list(daemon.managers) == ["rm"]
        daemon.running.cancel()

    asyncio.run(play())


def test_a_registration_whose_client_goes_while_it_waits_for_the_scheduler_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        waits, taken = asyncio.Event(), asyncio.Event()

        async def submit(command: Command, size_bytes: int = 0) -> asyncio.Future[list[Fact]]:
            waits.set()
            future = await Owner.submit(daemon.owner, command, size_bytes)
            future.add_done_callback(lambda _: taken.set())
            return future

        daemon = Daemon(lambda _: QueueFileText(BEFORE, "queues.yaml"))
        await daemon.run()
        await daemon.register()
        before = daemon.managers["rm"]
        daemon.running.cancel()  # nobody takes what waits
        await asyncio.sleep(0)
        for _ in range(INBOX_MAX):
            await daemon.owner.submit(CleanQueues("rm"))
        monkeypatch.setattr(daemon.owner, "submit", submit)
        registering = daemon.register()
        await waits.wait()
        registering.cancel()
        running = asyncio.create_task(daemon.owner.run())
        async with asyncio.timeout(10):
            await taken.wait()
        assert daemon.managers["rm"] is not before
        assert daemon.sessions.knows("rm")
        running.cancel()

    asyncio.run(play())


@pytest.mark.parametrize(("unit", "travels_as"), [("x", 1), ("%", 3), ("\n", 3), ("ä", 6), ("队", 9)])
def test_a_status_that_travels_as_more_than_so_many_bytes_is_cut(unit: str, travels_as: int) -> None:
    assert len(quote(unit)) == travels_as
    filler = "x" * (DETAILS_BYTES_MAX - travels_as * (DETAILS_BYTES_MAX // travels_as))
    longest = unit * (DETAILS_BYTES_MAX // travels_as) + filler
    assert bounded(longest) == longest
    assert bounded(longest + "x") == longest + "... (shortened; `schedulerd validate` shows everything)"
