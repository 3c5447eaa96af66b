"""After the loop was held, what had arrived meanwhile is handled before the alarms that became due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from schedulerd.core.language.commands import (
    AllocationRelease,
    Command,
    NewApplication,
    NewAsk,
    RingAlarms,
    UpdateAllocations,
    UpdateApplications,
)
from schedulerd.core.language.facts.fact import Allocated, ApplicationChanged, AskRejected
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.daemon.runtime.owner import INPUT_FIRST_SECONDS_MAX, QUIET_SECONDS
from tests.unit import virtual_loop
from tests.unit.daemon.recording import RecordingScheduler
from tests.unit.daemon.runtime.owner_world import SETUP, World, asks

COMPLETING_SECONDS = 10
PAUSE_SECONDS = 60.0
TIMEOUTS = Timeouts(completing_ns=COMPLETING_SECONDS * SECOND_NS, early_message_ns=2 * SECOND_NS)


class Client:
    """Has requests in a socket, of which the daemon reads one after the other, each as soon as it has taken the one
    before, as with back-pressure."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.socket: asyncio.Queue[Command] = asyncio.Queue()

    async def read(self, seconds_each: float) -> None:
        while True:
            command = await self.socket.get()
            await asyncio.sleep(seconds_each)  # until the bytes are read and decoded
            await (await self.world.owner.submit(command))


def play(story: Callable[[World], Coroutine[None, None, None]], inbox_max: int = 100) -> World:
    world = World(inbox_max, RecordingScheduler(TIMEOUTS))

    async def whole() -> None:
        loop = asyncio.get_running_loop()
        world.times = lambda: SECOND_NS + int(loop.time() * 1e9)
        owner = asyncio.create_task(world.owner.run())
        player = asyncio.create_task(story(world))
        await asyncio.wait({owner, player}, return_when=asyncio.FIRST_COMPLETED)
        for task in (player, owner):
            task.cancel()
        for ended in await asyncio.gather(owner, player, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    virtual_loop.run(whole())
    return world


def hold(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_loop.VirtualLoop)
    loop.hold(seconds)


async def complete(world: World) -> None:
    """`app-1` is Completing, and has nothing any more."""
    await world.take(*SETUP, asks(0, 1))
    await world.take(UpdateAllocations("rm", releases=[AllocationRelease("app-1")]))


def states(world: World) -> list[ApplicationState]:
    facts = [fact for turn in world.turns for fact in turn]
    return [fact.state for fact in facts if isinstance(fact, ApplicationChanged)]


def rejected(world: World) -> int:
    return sum(isinstance(fact, AskRejected) for turn in world.turns for fact in turn)


def placed(world: World) -> int:
    return sum(isinstance(fact, Allocated) for turn in world.turns for fact in turn)


@pytest.mark.parametrize("seconds_each", [0.0, 0.01, QUIET_SECONDS * 0.9])
def test_requests_that_waited_in_a_socket_come_before_overdue_alarms(seconds_each: float) -> None:
    async def story(world: World) -> None:
        client = Client(world)
        await complete(world)
        reader = asyncio.create_task(client.read(seconds_each))
        await asyncio.sleep(0)
        hold(PAUSE_SECONDS)
        for first in range(1, 100, 5):
            client.socket.put_nowait(asks(first, 5))
        await asyncio.sleep(PAUSE_SECONDS / 2)
        reader.cancel()

    world = play(story, inbox_max=2)
    assert rejected(world) == 0
    assert ApplicationState.COMPLETED not in states(world)
    assert placed(world) == 101


def test_without_input_alarms_ring_a_moment_after_the_loop_was_held() -> None:
    async def story(world: World) -> None:
        await complete(world)
        hold(PAUSE_SECONDS)
        await asyncio.sleep(QUIET_SECONDS * 2)

    world = play(story)
    assert states(world)[-1] is ApplicationState.COMPLETED
    at_ns = next(at_ns for at_ns, command in world.scheduler.stepped if isinstance(command, RingAlarms))
    assert at_ns >= SECOND_NS + int((PAUSE_SECONDS + QUIET_SECONDS) * 1e9)


@pytest.mark.parametrize(("pause_seconds", "most_seconds"), [(20.0, 10.0), (600.0, INPUT_FIRST_SECONDS_MAX)])
def test_a_flood_keeps_them_from_ringing_for_a_bounded_time(pause_seconds: float, most_seconds: float) -> None:
    async def story(world: World) -> None:
        await complete(world)
        client = Client(world)
        flood = asyncio.create_task(client.read(QUIET_SECONDS / 4))
        hold(pause_seconds)
        for number in range(10_000):
            client.socket.put_nowait(
                UpdateApplications("rm", [NewApplication(f"app-{number + 2}", "root.a", user="u")])
            )
        await asyncio.sleep(most_seconds + 1)
        flood.cancel()

    world = play(story)
    rang = [at_ns for at_ns, command in world.scheduler.stepped if isinstance(command, RingAlarms)]
    assert rang[0] == pytest.approx(SECOND_NS + (pause_seconds + most_seconds) * 1e9, abs=SECOND_NS)
    assert ApplicationState.COMPLETED in states(world)


def test_alarms_in_time_ring_at_once_whatever_comes() -> None:
    async def story(world: World) -> None:
        await complete(world)
        client = Client(world)
        flood = asyncio.create_task(client.read(QUIET_SECONDS / 4))
        for number in range(1_000):
            client.socket.put_nowait(
                UpdateApplications("rm", [NewApplication(f"app-{number + 2}", "root.a", user="u")])
            )
        await asyncio.sleep(COMPLETING_SECONDS + 0.1)
        flood.cancel()

    world = play(story)
    rang = [at_ns for at_ns, command in world.scheduler.stepped if isinstance(command, RingAlarms)]
    assert rang == [pytest.approx(SECOND_NS + COMPLETING_SECONDS * 1e9, abs=SECOND_NS / 10)]


def test_alarms_that_become_due_while_that_input_is_read_wait_too() -> None:
    """The loop was held when no alarm was due; the one that is due next comes in the middle of the input."""

    async def story(world: World) -> None:
        await complete(world)
        client = Client(world)
        reader = asyncio.create_task(client.read(QUIET_SECONDS / 2))
        await asyncio.sleep(0)
        hold(COMPLETING_SECONDS - 1)
        world.owner.was_held(COMPLETING_SECONDS - 1)  # as the probe of the loop tells it
        for number in range(20):
            client.socket.put_nowait(
                UpdateApplications("rm", [NewApplication(f"app-{number + 2}", "root.a", user="u")])
            )
        client.socket.put_nowait(UpdateAllocations("rm", asks=[NewAsk("app-1", "late", Resources(vcore=1))]))
        await asyncio.sleep(5)
        reader.cancel()

    world = play(story)
    assert rejected(world) == 0
    assert placed(world) == 2


def test_a_ring_that_was_under_way_when_the_process_stopped_waits_as_well() -> None:
    """It lies in the inbox, where it would ring whatever became due since."""

    async def story(world: World) -> None:
        await complete(world)
        assert world.owner._alarm is not None
        world.owner._ring()
        hold(PAUSE_SECONDS)
        late = asyncio.create_task(world.take(UpdateAllocations("rm", asks=[NewAsk("app-1", "x", Resources(vcore=1))])))
        await asyncio.sleep(0.1)
        await late

    world = play(story)
    assert rejected(world) == 0
    assert placed(world) == 2
