"""A registration that meets a reload."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import cast
from urllib.parse import quote

import grpc
import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import QueueFileText
from schedulerd.core.handlers import resource_managers
from schedulerd.daemon.groups import GroupResolver, Groups
from schedulerd.daemon.links import Links
from schedulerd.daemon.owner import Owner
from schedulerd.daemon.queue_files import QueueFiles
from schedulerd.daemon.reloads import Reloads
from schedulerd.daemon.request_limits import RequestLimits
from schedulerd.daemon.service import DETAILS_BYTES_MAX, SchedulerService, UnaryContext, bounded
from schedulerd.wire.encode import ResponseEncoder
from tests.unit.daemon.fake_call import Aborted, FakeContext
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, load_here

BEFORE, AFTER = (
    f"partitions: [{{queues: [{{name: root, queues: [{{name: {leaf}}}]}}]}}]" for leaf in ("before", "after")
)


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


def test_a_file_that_changes_while_a_registration_reads_it_is_not_missed() -> None:
    async def play() -> None:
        file = ChangingFile()
        scheduler = RecordingScheduler()
        managers = scheduler.cluster.resource_managers
        links = Links(ResponseEncoder(), lambda command: owner.post(command), outbox_bytes_max=1_000_000)
        owner = Owner(scheduler, [links.deliver], NoStopwatch(), inbox_max=10, placements_max=1)
        queue_files = QueueFiles(file.read, load_here)
        own = (await queue_files.of_group("")).configuration
        reloads = Reloads(queue_files, own, managers, owner, lambda *_: None)
        service = SchedulerService(
            owner,
            links,
            queue_files,
            reloads,
            managers,
            Groups(GroupResolver(lambda: 0), waiting_max=0),
            {},
            RequestLimits(1, 1),
        )
        running = asyncio.create_task(owner.run())

        request = si_pb2.RegisterResourceManagerRequest(rmID="rm")
        registering = asyncio.create_task(service.register(request, cast(UnaryContext, FakeContext())))
        await file.is_read.wait()
        await reloads.reload()
        file.go_on.set()
        await registering
        assert set(managers["rm"].partitions["default"].root.children) == {"before"}
        assert reloads.is_requested
        await reloads.reload()
        assert not managers["rm"].partitions["default"].root.children["after"].draining
        running.cancel()

    asyncio.run(play())


def test_a_registration_that_the_scheduler_cannot_check_is_answered_with_internal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raises(*_: object) -> None:
        raise LookupError("a bug")

    async def play() -> None:
        scheduler = RecordingScheduler()
        managers = scheduler.cluster.resource_managers
        links = Links(ResponseEncoder(), lambda command: owner.post(command), outbox_bytes_max=1_000_000)
        owner = Owner(scheduler, [links.deliver], NoStopwatch(), inbox_max=10, placements_max=1)
        queue_files = QueueFiles(lambda _: QueueFileText(BEFORE, "queues.yaml"), load_here)
        own = (await queue_files.of_group("")).configuration
        reloads = Reloads(queue_files, own, managers, owner, lambda *_: None)
        service = SchedulerService(
            owner,
            links,
            queue_files,
            reloads,
            managers,
            Groups(GroupResolver(lambda: 0), waiting_max=0),
            {},
            RequestLimits(1, 2),
        )
        running = asyncio.create_task(owner.run())
        request = si_pb2.RegisterResourceManagerRequest(rmID="rm")
        context = FakeContext()
        await context.send_initial_metadata(())
        with monkeypatch.context() as patch:
            patch.setattr(resource_managers, "ResourceManager", raises)
            with pytest.raises(Aborted):
                await service.register(request, cast(UnaryContext, context))
        code, details = context.status
        assert code is grpc.StatusCode.INTERNAL
        assert details.startswith("LookupError while this RegisterResourceManager was checked")
        assert not managers
        await service.register(request, cast(UnaryContext, FakeContext()))
        assert list(managers) == ["rm"]
        running.cancel()

    asyncio.run(play())


@pytest.mark.parametrize(("unit", "travels_as"), [("x", 1), ("%", 3), ("\n", 3), ("ä", 6), ("队", 9)])
def test_a_status_that_travels_as_more_than_so_many_bytes_is_cut(unit: str, travels_as: int) -> None:
    assert len(quote(unit)) == travels_as
    filler = "x" * (DETAILS_BYTES_MAX - travels_as * (DETAILS_BYTES_MAX // travels_as))
    longest = unit * (DETAILS_BYTES_MAX // travels_as) + filler
    assert bounded(longest) == longest
    assert bounded(longest + "x") == longest + "... (shortened; `schedulerd validate` shows everything)"
