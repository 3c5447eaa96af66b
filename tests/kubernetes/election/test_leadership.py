"""The thread that keeps the lease, beside the loop of the shim; here that loop is also the API server's."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from schedulerd.kubernetes.api import Transport
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.auth import AccessUnusable
from schedulerd.kubernetes.election import Leadership, LeaseLost, LeaseName, LeaseTimes, identity
from tests.kubernetes.api.world import World

NAME = LeaseName("default", "l")
LIMIT_SECONDS = 20.0


def holder(world: World) -> str:
    lease = world.cluster.get(r.LEASES, "l")
    return "" if lease is None else str(lease["spec"]["holderIdentity"])


def test_no_two_identities_are_the_same() -> None:
    assert identity("pod-a").startswith("pod-a_")
    assert identity("pod-a") != identity("pod-a")
    assert len(identity("x" * 300)) == 253


async def test_it_leads_and_gives_the_lease_back(real_loop: None) -> None:
    async with World() as world, asyncio.timeout(LIMIT_SECONDS):
        async with Leadership(world.new_transport, NAME, "a") as one:
            one.may_lead(True)
            await one.elected()
            assert (one.is_leader, one.leader, holder(world)) == (True, "a", "a")
            assert 0 < one.seconds_left() <= 10
            assert one.lease_uid
            async with Leadership(world.new_transport, NAME, "b") as two:
                two.may_lead(True)
                elected = asyncio.create_task(two.elected())
                await one.release()
                assert (one.is_leader, one.seconds_left()) == (False, 0)
                await one.lost()
                await elected
                assert two.leader == "b"
                assert two.transitions == 1
        assert holder(world) == ""


async def test_what_it_has_lost_it_says(real_loop: None) -> None:
    async with World() as world, asyncio.timeout(LIMIT_SECONDS):
        async with Leadership(world.new_transport, NAME, "a", LeaseTimes(15, 10.0, 0.1)) as one:
            one.may_lead(True)
            await one.elected()
            body = {"spec": {"holderIdentity": "somebody"}}
            kind = world.cluster.kind(r.LEASES)
            world.cluster.operations.patch(kind, "default", "l", body, "", "application/merge-patch+json")
            with pytest.raises(LeaseLost, match="somebody has taken it"):
                await one.lost()
            assert not one.is_leader
        assert holder(world) == "somebody"


async def test_a_thread_that_cannot_begin_says_why(real_loop: None) -> None:
    def open_transport() -> Transport:
        raise AccessUnusable("no token")

    async with asyncio.timeout(LIMIT_SECONDS):
        async with Leadership(open_transport, NAME, "a") as one:
            one.may_lead(True)
            with pytest.raises(AccessUnusable, match="no token"):
                await one.elected()


async def test_a_thread_that_hangs_ends_the_leader(real_loop: None) -> None:
    """The loop of the shim notices; the thread cannot."""
    hangs, goes_on, moved = threading.Event(), threading.Event(), [0.0]

    def clock() -> float:
        if hangs.is_set() and threading.current_thread().name == "lease":
            goes_on.wait(LIMIT_SECONDS)
        return time.monotonic() + moved[0]

    async with (
        World() as world,
        asyncio.timeout(LIMIT_SECONDS),
        Leadership(world.new_transport, NAME, "a", LeaseTimes(15, 10.0, 0.1), clock=clock) as one,
    ):
        one.may_lead(True)
        await one.elected()
        hangs.set()
        moved[0] = 11.0
        with pytest.raises(LeaseLost, match="no renewal for 10 s"):
            await one.lost()
        hangs.clear()
        goes_on.set()
