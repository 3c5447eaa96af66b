"""What the resource manager of the benchmarks makes of releases: the decisions that the core made, and nothing else."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks import full_clusters
from benchmarks.decisions import Talk, prepare
from benchmarks.decisions_check import Decided, check_outcome
from benchmarks.decisions_over_grpc import ClaimingRM
from benchmarks.full_clusters import LARGE_AND_ODD, FullCluster
from benchmarks.measurement import WrongResult
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.facts.fact import Allocated, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted

several = partial(full_clusters.p, nodes=60, leaves=12, rich=4, dense=True, mixed=True, ask_size=LARGE_AND_ODD, asks=8)


def decide_all(cluster: FullCluster) -> Talk:
    talk = Talk(prepare(cluster))
    talk.ask(cluster.asks)
    talk.wait_for_decisions(len(cluster.asks))
    return talk


def rm_of(cluster: FullCluster) -> ClaimingRM:
    return ClaimingRM({one.uuid: one.node_id for one in cluster.running})


def told(talk: Talk) -> si_pb2.AllocationResponse:
    """The releases as a message."""
    response = si_pb2.AllocationResponse()
    for fact in talk.facts:
        if isinstance(fact, ReleaseRequested):
            response.released.add(UUID=fact.uuid, message=fact.message, terminationType=si_pb2.PREEMPTED_BY_SCHEDULER)
    return response


def test_it_knows_each_decision_from_the_releases_alone() -> None:
    talk, rm = decide_all(several()), rm_of(several())
    rm.take_allocations(told(talk))
    assert rm.decisions() == [
        Decided(fact.allocation_key, fact.node_id, tuple(uuid for _, uuid in fact.victims))
        for fact in talk.facts
        if isinstance(fact, Preempted)
    ]
    assert sum(count for _, count in rm.told) == 8


def test_what_it_was_told_is_checked() -> None:
    cluster = several()
    talk, rm = decide_all(cluster), rm_of(cluster)
    rm.take_allocations(told(talk))
    talk.confirm()
    placed = {fact.allocation_key: fact.node_id for fact in talk.facts if isinstance(fact, Allocated)}
    check_outcome(cluster, rm.decisions(), set(), placed, ())
    del placed[cluster.asks[0].key]
    with pytest.raises(WrongResult, match="7 asks were placed"):
        check_outcome(cluster, rm.decisions(), set(), placed, ())


def test_nothing_is_preempted_twice() -> None:
    talk, rm = decide_all(several()), rm_of(several())
    rm.take_allocations(told(talk))
    with pytest.raises(WrongResult, match="was released"):
        rm.take_allocations(told(talk))


def test_the_release_names_the_ask_that_it_is_for() -> None:
    response = told(decide_all(several()))
    response.released[0].message = "no reason"
    with pytest.raises(WrongResult, match="not said for whom: no reason"):
        rm_of(several()).take_allocations(response)
