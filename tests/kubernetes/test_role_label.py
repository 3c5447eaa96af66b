"""The pod of a shim says by a label whether it leads, and events say when it began and stopped to."""

from __future__ import annotations

import asyncio

from schedulerd.kubernetes.api import Recorder
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.election import Leadership, LeaseName
from schedulerd.kubernetes.shim.leader_events import tell
from schedulerd.kubernetes.shim.role_label import LABEL, keep_role_label
from tests.kubernetes.api.world import World
from tests.kubernetes.fake import Fault

NAME = LeaseName("default", "l")
LIMIT_SECONDS = 20.0


def role(world: World) -> str | None:
    pod = world.cluster.get(r.PODS, "me")
    assert pod is not None
    found: str | None = (pod["metadata"].get("labels") or {}).get(LABEL)
    return found


class Noting(Leadership):
    """Notes which role the pod had when its election was waited for."""

    def __init__(self, world: World) -> None:
        super().__init__(world.new_transport, NAME, "a")
        self.before: list[str | None] = []
        self._world = world

    async def elected(self) -> None:
        self.before.append(role(self._world))
        await super().elected()


async def test_it_is_a_standby_until_it_is_elected(real_loop: None) -> None:
    async with World() as world, asyncio.timeout(LIMIT_SECONDS), Noting(world) as leads:
        world.cluster.pod("me")
        world.cluster.faults.add(Fault("refuse", code=409), method="PATCH", plural="pods")
        leads.may_lead(True)
        await keep_role_label(world.transport, leads, "me")
        assert (leads.before, role(world)) == (["standby"], "leader")


async def test_a_pod_that_it_may_not_label_is_left_alone(real_loop: None) -> None:
    async with World() as world, asyncio.timeout(LIMIT_SECONDS), Leadership(world.new_transport, NAME, "a") as leads:
        world.cluster.pod("me")
        world.cluster.faults.add(Fault("refuse", code=403), method="PATCH", plural="pods", times=2)
        leads.may_lead(True)
        await keep_role_label(world.transport, leads, "me")
        assert role(world) is None
        assert leads.is_leader, "the lease decides"


async def test_its_lease_has_an_event_of_its_leadership(real_loop: None) -> None:
    async with World() as world, asyncio.timeout(LIMIT_SECONDS), Leadership(world.new_transport, NAME, "a") as leads:
        leads.may_lead(True)
        await leads.elected()
        pool = world.pool()
        tell(Recorder(pool, "schedulerd", "a", lambda: 0), leads, "became leader")
        await pool.close(LIMIT_SECONDS)
        ((_, name),) = world.stored(r.EVENTS)
        event = world.cluster.get(r.EVENTS, name)
        assert event is not None
        assert (event["regarding"]["kind"], event["regarding"]["uid"]) == ("Lease", leads.lease_uid)
        assert event["note"] == "a became leader"
