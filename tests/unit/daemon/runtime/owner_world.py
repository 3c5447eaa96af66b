"""An owner that is driven by the real scheduler and a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from schedulerd.core.language.commands import (
    Command,
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.runtime.owner import (
    Owner,
    Recorder,
    Sink,
)
from schedulerd.instant import Instant
from tests.instants import at
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, registration

SETUP: tuple[Command, ...] = (
    registration(),
    ConnectResourceManager("rm"),
    UpdateApplications("rm", [NewApplication("app-1", "root.a", user="u")]),
    UpdateNodes("rm", [NodeUpdate("node-1", NodeAction.CREATE, capacity=Resources(vcore=1000))]),
)


def asks(first: int, count: int) -> UpdateAllocations:
    keys = range(first, first + count)
    return UpdateAllocations("rm", asks=[NewAsk("app-1", f"pod-{key}", Resources(vcore=1)) for key in keys])


class World:
    """An owner with its scheduler, the facts that its sink got turn by turn, and the time."""

    def __init__(
        self,
        inbox_max: int = 100,
        scheduler: RecordingScheduler | None = None,
        sinks: Sequence[Sink] = (),
        recorder: Recorder | None = None,
    ) -> None:
        self.scheduler = scheduler or RecordingScheduler()
        self.turns: list[list[Fact]] = []
        self.times: Callable[[], int] = lambda: SECOND_NS
        """The monotonic clock."""
        self.set_ahead_ns = 0
        """How far the wall clock is set ahead of `tests.instants`."""
        self.owner = Owner(
            self.scheduler,
            [lambda facts, now: self.turns.append(list(facts)), *sinks],
            NoStopwatch(),
            inbox_max=inbox_max,
            placements_max=2,
            recorder=recorder,
            clocks=self._clocks,
        )

    def _clocks(self) -> Instant:
        now = at(self.times())
        return now._replace(wall_ns=now.wall_ns + self.set_ahead_ns)

    async def take(self, *commands: Command) -> None:
        """Submits and waits until all of it was told to the sinks."""
        for done in [await self.owner.submit(command) for command in commands]:
            await done


def run(world: World, play: Callable[[World], Coroutine[None, None, None]]) -> None:
    async def all_of_it() -> None:
        owner = asyncio.create_task(world.owner.run())
        async with asyncio.timeout(10):
            player = asyncio.create_task(play(world))
            await asyncio.wait({owner, player}, return_when=asyncio.FIRST_COMPLETED)
            for task in (player, owner):
                task.cancel()
            for ended in await asyncio.gather(owner, player, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    asyncio.run(all_of_it())
