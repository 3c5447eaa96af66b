"""The workload: the same seed tells the same story, and the story fills the cluster and ends in time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from schedulerd.simulate.workload import (
    KINDS,
    NODE_MEMORY_BYTES,
    NODE_VCORE_MILLI,
    PlannedApplication,
    Start,
    Workload,
    queues_for_kinds,
)
from tests.loops import each_seed


def total_work(applications: list[PlannedApplication]) -> float:
    """Node-seconds."""
    return sum(wave.size.node_share() * sum(wave.run_s) for each in applications for wave in each.waves)


def test_same_seed_same_story() -> None:
    first, second = Workload(50, 20.0, seed=7), Workload(50, 20.0, seed=7)
    assert list(first.applications()) == list(second.applications())
    assert list(first.nodes()) == list(second.nodes())


def test_another_seed_another_story() -> None:
    assert list(Workload(50, 20.0, seed=7).applications()) != list(Workload(50, 20.0, seed=8).applications())


def test_the_story_is_pinned() -> None:
    """A change of the generator makes runs of different versions incomparable: it should be meant."""
    applications = list(Workload(200, 30.0, seed=1).applications())
    first = applications[0]
    pods = sum(len(wave.run_s) for each in applications for wave in each.waves)
    assert (len(applications), pods, first.application_id) == (1163, 15065, "service-00001")


def test_applications_arrive_in_order_with_ids_of_their_own() -> None:
    applications = list(Workload(20, 30.0, seed=3).applications())
    assert all(one.arrives_s <= other.arrives_s for one, other in pairwise(applications))
    assert max(Counter(each.application_id for each in applications).values()) == 1
    assert {each.kind for each in applications} == {kind.name for kind in KINDS}


@each_seed(range(5))
def test_more_is_asked_for_than_fits_but_not_more_than_can_drain(seed: int) -> None:
    workload = Workload(200, 30.0, seed=seed)
    work = total_work(list(workload.applications()))
    assert work > 1.05 * workload.nodes_count * workload.arrivals_end_s
    assert work < 0.95 * workload.nodes_count * workload.duration_s


def test_a_short_run_tells_the_same_story_faster() -> None:
    short, long = Workload(40, 3.0, seed=1), Workload(40, 30.0, seed=1)
    ratio = total_work(list(short.applications())) / total_work(list(long.applications()))
    assert ratio == pytest.approx(0.1, rel=0.01)
    assert max(each.arrives_s for each in short.applications()) < short.arrivals_end_s < 3.0


def test_rate_sets_the_number_of_applications() -> None:
    workload = Workload(20, 60.0, seed=1, applications_per_s=10.0)
    count = len(list(workload.applications()))
    assert count == pytest.approx(10.0 * workload.arrivals_end_s, rel=0.15)


def test_every_pod_fits_on_an_empty_node() -> None:
    for kind in KINDS:
        for wave in kind.waves:
            assert wave.size.memory_bytes <= NODE_MEMORY_BYTES
            assert wave.size.vcore_milli <= NODE_VCORE_MILLI
        assert kind.waves[0].start is Start.AT_ONCE


def test_nodes_are_spread_over_racks_and_zones() -> None:
    nodes = list(Workload(60, 1.0, seed=1).nodes())
    assert len({node.node_id for node in nodes}) == 60
    assert len({node.attributes["si/rackname"] for node in nodes}) == 3
    assert len({node.attributes["si/zone"] for node in nodes}) == 3


def test_kinds_use_their_queue_or_the_leaves_there_are() -> None:
    assert queues_for_kinds([])["spark"] == ("root.batch",)
    mixed = queues_for_kinds(["root.batch", "root.x"])
    assert (mixed["spark"], mixed["etl"], mixed["training"]) == (("root.batch",), ("root.batch",), ("root.x",))
    assert set(queues_for_kinds(["root.x", "root.y"]).values()) == {("root.x", "root.y")}


def test_every_queue_is_loaded() -> None:
    leaves = [f"root.team-{number}" for number in range(280)]
    workload = Workload(2_000, 30.0, seed=1, queues_of_kind=queues_for_kinds(leaves))
    used = Counter(each.queue for each in workload.applications())
    assert used.keys() == set(leaves)
    assert max(used.values()) - min(used.values()) <= 1
