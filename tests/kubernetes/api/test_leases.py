"""Leases: of two who want one, one gets it, and a lost answer is looked up."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.api import Result
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.pool import PoolCaller
from schedulerd.kubernetes.api.writes import CreateLease, LeaseRecord, Outcome, Retry, UpdateLease, Write
from schedulerd.kubernetes.api.writes.leases import lease_of
from schedulerd.kubernetes.objects.meta import micro_time
from tests.kubernetes.api.test_writes import PERFORMED, title
from tests.kubernetes.api.world import World
from tests.kubernetes.fake import Fault

RECORD = LeaseRecord("a", 15, micro_time(1.0), micro_time(1.0), 0)


async def sent(world: World, write: Write) -> Outcome | Retry:
    """What comes of it, as the keeper of a lease sends it."""
    return await write.attempt_once(PoolCaller(world.transport, None, 10.0))


async def submit(world: World, write: Write) -> Outcome:
    outcome = await sent(world, write)
    assert isinstance(outcome, Outcome)
    return outcome


async def lease(world: World) -> str:
    outcome = await submit(world, CreateLease("default", "l", RECORD))
    assert outcome.result is Result.DONE
    made = lease_of(outcome.object)
    assert made.spec == RECORD
    return made.metadata.resource_version


async def test_of_two_who_want_a_lease_one_gets_it() -> None:
    async with World() as world:
        version = await lease(world)
        other = LeaseRecord("b", 15, micro_time(2.0), micro_time(2.0), 1)
        lost = await submit(world, CreateLease("default", "l", other))
        assert (lost.result, lease_of(lost.object).spec) == (Result.CONFLICT, RECORD)
        renewed = LeaseRecord("a", 15, micro_time(1.0), micro_time(3.0), 0)
        done = await submit(world, UpdateLease("default", "l", renewed, version))
        assert (done.result, lease_of(done.object).spec) == (Result.DONE, renewed)
        late = await submit(world, UpdateLease("default", "l", other, version))
        assert (late.result, lease_of(late.object).spec) == (Result.CONFLICT, renewed)


@pytest.mark.parametrize("fault", PERFORMED[:3], ids=title)
async def test_a_renewal_whose_answer_is_lost_is_found(fault: Fault) -> None:
    async with World() as world:
        version = await lease(world)
        renewed = LeaseRecord("a", 15, micro_time(1.0), micro_time(3.0), 0)
        world.cluster.faults.add(fault, method="PUT")
        assert isinstance(await sent(world, UpdateLease("default", "l", renewed, version)), Retry)
        outcome = await submit(world, UpdateLease("default", "l", renewed, version))
        assert (outcome.result, lease_of(outcome.object).spec) == (Result.DONE, renewed)


@pytest.mark.parametrize("fault", PERFORMED[:3], ids=title)
async def test_a_lease_created_without_an_answer_is_found(fault: Fault) -> None:
    async with World() as world:
        world.cluster.faults.add(fault, method="POST")
        assert isinstance(await sent(world, CreateLease("default", "l", RECORD)), Retry)
        outcome = await submit(world, CreateLease("default", "l", RECORD))
        assert (outcome.result, lease_of(outcome.object).spec) == (Result.DONE, RECORD)


async def test_a_lease_that_was_deleted_is_gone() -> None:
    async with World() as world:
        version = await lease(world)
        world.cluster.delete(r.LEASES, "l")
        assert (await submit(world, UpdateLease("default", "l", RECORD, version))).result is Result.GONE


def test_times_have_six_digits() -> None:
    assert micro_time(1_800_000_000.25) == "2027-01-15T08:00:00.250000Z"
