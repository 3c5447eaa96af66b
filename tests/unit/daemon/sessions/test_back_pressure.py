"""Two marks for an RM that reads slowly, and a stream that may have only so much in the inbox."""

from __future__ import annotations

import asyncio

from schedulerd.core.language.commands import RunCycle
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.back_pressure import COMMANDS_UNDER_WAY_MAX, Backlog, CommandsUnderWay
from schedulerd.daemon.sessions.outbox import Outbox
from tests.instants import at
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler


def waiting(outbox: Outbox, size_bytes: int) -> None:
    outbox.clear()
    outbox.put(b"x" * size_bytes)


def test_an_rm_falls_behind_at_a_half_and_keeps_up_again_at_a_quarter() -> None:
    outboxes = [Outbox(), Outbox()]
    backlog = Backlog(outboxes, 1000)
    seen = []
    for size_bytes in (500, 501, 500, 251, 250, 500):
        waiting(outboxes[1], size_bytes)
        seen.append((backlog.regulate(), backlog.keeps_up))
    assert seen == [(False, True), (True, False), (False, False), (False, False), (True, True), (False, True)]


def test_the_fullest_outbox_counts() -> None:
    outboxes = [Outbox(), Outbox()]
    backlog = Backlog(outboxes, 1000)
    waiting(outboxes[0], 501)
    backlog.regulate()
    waiting(outboxes[1], 501)
    waiting(outboxes[0], 1)
    assert not backlog.regulate()
    assert not backlog.keeps_up


def test_only_a_client_that_does_not_keep_up_can_have_too_much() -> None:
    outbox = Outbox()
    backlog = Backlog([outbox], 1000)
    seen = []
    for size_bytes, regulated in ((1001, False), (1001, True), (1000, True)):
        waiting(outbox, size_bytes)
        if regulated:
            backlog.regulate()
        seen.append(backlog.is_too_large)
    assert seen == [False, True, False]


def test_a_stream_waits_when_so_many_of_its_commands_are_in_the_inbox() -> None:
    async def play() -> None:
        scheduler = RecordingScheduler()
        owner = Owner(scheduler, [], NoStopwatch(), inbox_max=100, placements_max=1, clocks=lambda: at(SECOND_NS))
        under_way = CommandsUnderWay(owner)
        for _ in range(COMMANDS_UNDER_WAY_MAX):
            await under_way.submit(RunCycle(1), 1)
        one_more = asyncio.create_task(under_way.submit(RunCycle(1), 1))
        await turns()
        assert not one_more.done()
        running = asyncio.create_task(owner.run())
        await one_more
        await under_way.taken()
        assert scheduler.commands.count("RunCycle") >= COMMANDS_UNDER_WAY_MAX + 1
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(play())
