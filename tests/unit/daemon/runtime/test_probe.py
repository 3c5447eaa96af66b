"""Ticks of the loop, and how late they were."""

from __future__ import annotations

import asyncio

from schedulerd.daemon.runtime.probe import INTERVAL_SECONDS, LoopProbe
from tests.unit import virtual_loop
from tests.unit.virtual_loop import VirtualLoop

HALF_SECONDS = INTERVAL_SECONDS / 2


def test_it_ticks_again_and_again_and_knows_how_late_it_was_and_how_long_ago() -> None:
    async def story() -> None:
        late: list[float] = []
        probe = LoopProbe(late.append)
        running = asyncio.create_task(probe.run())
        await asyncio.sleep(3 * INTERVAL_SECONDS + HALF_SECONDS)
        assert late == [0.0, 0.0, 0.0]
        assert probe.age_seconds() == HALF_SECONDS
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.hold(HALF_SECONDS + 5.0)
        assert probe.age_seconds() == INTERVAL_SECONDS + 5.0
        await asyncio.sleep(HALF_SECONDS)
        assert late[3:] == [5.0]
        assert probe.age_seconds() == HALF_SECONDS
        running.cancel()

    virtual_loop.run(story())
