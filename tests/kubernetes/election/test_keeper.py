"""The keeper on a virtual loop, with the fake API server: requests, watches, faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.election import Elector, LeaseKeeper, LeaseName, LeaseTimes, Standing
from tests.kubernetes.api.world import World, pause
from tests.kubernetes.fake import Fault

NAME = LeaseName("default", "l")
TIMES = LeaseTimes(15, 10.0, 2.0)


class Candidate:
    """A keeper that runs, with the loop's time as its clock."""

    def __init__(self, world: World, name: str, *, wall: Callable[[], float] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.elector = Elector(name, TIMES)
        self.stuck = False
        self.keeper = LeaseKeeper(
            world.transport,
            NAME,
            self.elector,
            clock=loop.time,
            wall=wall or (lambda: 1_800_000_000.0 + loop.time()),
            stuck=lambda now_s: self.stuck,
        )
        self.keeper.may_lead(True)
        self.task = asyncio.create_task(self.keeper.run())

    def leads(self) -> bool:
        return self.elector.seconds_left(asyncio.get_running_loop().time()) > 0

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def end(self) -> None:
        self.keeper.release()
        await self.task


def holder(world: World) -> str:
    lease = world.cluster.get(r.LEASES, "l")
    return "" if lease is None else str(lease["spec"]["holderIdentity"])


async def test_the_first_one_leads_and_renews() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(0.1)
        assert one.leads()
        assert holder(world) == "a"
        await pause(21.0)
        assert one.leads()
        assert one.keeper.renewals["done"] == 11
        assert one.keeper.metadata is not None
        assert one.keeper.metadata.uid
        await one.end()


async def test_a_standby_takes_over_when_the_leader_is_gone_and_not_before() -> None:
    async with World() as world:
        one, two = Candidate(world, "a"), Candidate(world, "b")
        await pause(30.0)
        assert (one.leads(), two.leads()) == (True, False)
        assert two.elector.leader == "a"
        await one.die()  # it has renewed at 30 s
        await pause(14.8)
        assert not two.leads()
        await pause(0.4)
        assert two.leads()
        lease = world.cluster.get(r.LEASES, "l")
        assert lease is not None
        assert lease["spec"]["leaseTransitions"] == 1
        await two.end()


async def test_a_released_lease_is_taken_at_once() -> None:
    async with World() as world:
        one, two = Candidate(world, "a"), Candidate(world, "b")
        await pause(5.0)
        await one.end()
        assert one.elector.standing is Standing.OVER
        await pause(0.1)
        assert two.leads()
        await two.end()
        assert holder(world) == ""


async def test_a_leader_without_an_api_server_ends_before_its_lease() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(1.0)
        await world.cluster.stop()
        await pause(8.5)
        assert one.leads()
        await pause(1.0)
        assert not one.leads()
        await one.task
        assert one.elector.why_over == "no renewal for 10 s"
        assert one.keeper.renewals["failed"] >= 3


async def test_a_server_that_does_not_answer_is_asked_again_in_time() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(1.0)
        world.cluster.faults.add(Fault("hang"), method="PUT")
        await pause(12.0)
        assert one.leads()
        assert one.keeper.renewals["failed"] == 1
        await one.end()


async def test_a_renewal_whose_answer_is_lost_does_not_end_the_leader() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(1.0)
        world.cluster.faults.add(Fault("lose"), method="PUT", times=2)
        await pause(12.0)
        assert one.leads()
        assert one.keeper.renewals["conflict"] >= 1
        await one.end()


async def test_a_lease_that_is_deleted_is_made_again_by_its_leader() -> None:
    async with World() as world:
        one, two = Candidate(world, "a"), Candidate(world, "b")
        await pause(5.0)
        world.cluster.delete(r.LEASES, "l")
        await pause(2.5)
        assert (one.leads(), two.leads(), holder(world)) == (True, False, "a")
        await one.end()
        await two.end()


async def test_what_other_people_write_into_the_lease_is_kept() -> None:
    async with World() as world:
        labels, notes = {"app": "schedulerd"}, {"note": "touched"}
        world.cluster.create(r.LEASES, "l", metadata={"name": "l", "labels": labels})
        one = Candidate(world, "a")
        await pause(5.0)
        body = {"metadata": {"annotations": notes}}
        kind = world.cluster.kind(r.LEASES)
        world.cluster.operations.patch(kind, "default", "l", body, "", "application/merge-patch+json")
        await pause(5.0)
        assert one.leads()
        await one.end()
        lease = world.cluster.get(r.LEASES, "l")
        assert lease is not None
        assert (lease["metadata"]["labels"], lease["metadata"]["annotations"]) == (labels, notes)


async def test_a_lease_that_other_people_have_just_written_into_is_given_back() -> None:
    """The watch has not told yet; whose it is has not changed."""
    async with World() as world:
        one = Candidate(world, "a")
        await pause(1.0)
        body = {"metadata": {"annotations": {"note": "touched"}}}
        kind = world.cluster.kind(r.LEASES)
        world.cluster.operations.patch(kind, "default", "l", body, "", "application/merge-patch+json")
        await one.end()
        assert holder(world) == ""


async def test_a_lease_that_somebody_has_just_taken_is_not_given_back() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(1.0)
        body = {"spec": {"holderIdentity": "somebody"}}
        kind = world.cluster.kind(r.LEASES)
        world.cluster.operations.patch(kind, "default", "l", body, "", "application/merge-patch+json")
        await one.end()
        assert holder(world) == "somebody"


async def test_who_finds_the_lease_taken_ends() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(1.0)
        kind = world.cluster.kind(r.LEASES)
        body = {"spec": {"holderIdentity": "somebody"}}
        world.cluster.operations.patch(kind, "default", "l", body, "", "application/merge-patch+json")
        await one.task
        assert one.elector.why_over == "somebody has taken it"


async def test_a_process_that_is_stuck_lets_its_lease_expire() -> None:
    async with World() as world:
        one, two = Candidate(world, "a"), Candidate(world, "b")
        await pause(4.5)
        one.stuck = True
        await pause(10.0)
        assert not one.leads()
        await pause(6.0)
        assert two.leads()
        await one.end()
        await two.end()
        assert holder(world) == ""


async def test_who_is_stuck_for_a_moment_goes_on() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(4.5)
        one.stuck = True
        await pause(6.0)
        one.stuck = False
        await pause(6.0)
        assert one.leads()
        await one.end()


async def test_a_standby_without_a_watch_still_takes_over_and_never_too_early() -> None:
    async with World() as world:
        one = Candidate(world, "a")
        await pause(1.0)
        two = Candidate(world, "b")
        await pause(1.0)
        world.cluster.faults.add(Fault("hang"), method="WATCH", plural="leases", times=1000)
        world.cluster.server.watches_end()
        await pause(20.0)  # what it knows of has expired: its claim finds that the lease has changed
        assert (one.leads(), two.leads()) == (True, False)
        await one.die()
        await pause(31.0)
        assert two.leads()
        await two.end()


async def test_wall_clocks_that_jump_change_nothing() -> None:
    random = Random(1)

    def jumping() -> float:
        return 1_800_000_000.0 + random.uniform(-1e6, 1e6)

    async with World() as world:
        one, two = Candidate(world, "a", wall=jumping), Candidate(world, "b", wall=jumping)
        for _ in range(20):
            await pause(3.0)
            assert (one.leads(), two.leads()) == (True, False)
        await one.die()
        await pause(13.0)
        assert not two.leads()
        await pause(3.0)
        assert two.leads()
        await two.end()


async def test_without_the_right_to_it_there_is_no_leader_and_a_reason() -> None:
    async with World() as world:
        world.cluster.server.forbidden.add(("POST", "leases"))
        one = Candidate(world, "a")
        await pause(7.0)
        assert not one.leads()
        assert one.keeper.renewals["failed"] == 4
        world.cluster.server.forbidden.clear()
        await pause(2.0)
        assert one.leads()
        await one.end()
