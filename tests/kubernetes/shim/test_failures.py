"""A bug must end the shim, wherever it shows: a shim that goes on half working is worse than one that starts anew."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.events import BindEnded
from tests.kubernetes.shim.world import World


async def test_a_failure_after_a_write_ends_the_shim(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Cluster.step

    def fails(cluster: Cluster, now_ns: int, events: Any) -> Any:
        if any(isinstance(event, BindEnded) for event in events):
            raise ZeroDivisionError("a bug")
        return step(cluster, now_ns, events)

    monkeypatch.setattr(Cluster, "step", fails)
    await world.node("n")
    await world.start()
    await world.pod("p")
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await world.ended()
