"""What a look at outstanding asks costs, counted and not timed: by request classes and leaves, not by asks or
applications."""

from __future__ import annotations

import pytest

from schedulerd.core.autoscaling.rules import outstanding as module
from schedulerd.core.autoscaling.rules.outstanding import outstanding, unschedulable_within_quotas
from schedulerd.core.language import commands as c
from schedulerd.core.language.specs import QueueSpec
from schedulerd.core.state.partition import Partition
from tests.unit.core.builders import (
    RM,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_app,
    an_ask,
)
from tests.unit.core.test_work import calls_during

SHAPES = 10


def tried(root: QueueSpec, apps: list[c.NewApplication], pending: list[c.NewAsk]) -> Partition:
    """With a small node, after as many cycles as it takes."""
    scheduler = a_scheduler()
    for command in (
        c.RegisterResourceManager(RM, (a_partition_spec(root),)),
        c.ConnectResourceManager(RM),
        c.UpdateNodes(RM, [a_node("n1", {"memory": 5})]),
        c.UpdateApplications(RM, new=apps),
        c.UpdateAllocations(RM, asks=pending),
    ):
        scheduler.step(0, command)
    while scheduler.wants_cycle():
        scheduler.step(0, c.RunCycle(1_000))
    (partition,) = scheduler.cluster.partitions()
    return partition


def waiting(asks: int, *, applications: int = 1, leaves: int = 1, request_classes: int = SHAPES) -> Partition:
    """Asks that find no node, every application with asks of up to five request classes, in leaves with a large
    quota."""
    root = a_root(*(a_queue_spec(f"q{number}", max={"memory": 10**12}) for number in range(leaves)), max={"gpu": 1})
    apps = [an_app(f"a{number}", f"root.q{number % leaves}") for number in range(applications)]
    pending = [
        an_ask(f"k{number}", 10 + (number // applications + number % applications // leaves) % request_classes, app=app)
        for number, app in ((number, f"a{number % applications}") for number in range(asks))
    ]
    partition = tried(root, apps, pending)
    found = outstanding(partition)
    assert (len(found), sum(one.pending for one in found)) == (request_classes * leaves, asks)
    return partition


@pytest.mark.parametrize("look", [outstanding, unschedulable_within_quotas])
def test_a_count_calls_as_many_functions_however_many_equal_asks_wait(look: object) -> None:
    assert callable(look)
    few, many = waiting(500), waiting(5_000)
    assert calls_during(lambda: look(many)) == calls_during(lambda: look(few)) < 100 * SHAPES


def test_a_count_calls_as_many_functions_however_many_applications_wait() -> None:
    few, many = waiting(200, applications=20), waiting(2_000, applications=200)
    calls = calls_during(lambda: outstanding(few))
    assert calls_during(lambda: outstanding(many)) <= calls < 100 * SHAPES


def test_applications_that_the_quota_keeps_out_are_not_gone_through() -> None:
    def calls(applications: int) -> int:
        root = a_root(a_queue_spec("q", max={"memory": 25}, max_applications=5))
        apps = [an_app(f"a{number}", "root.q") for number in range(applications)]
        partition = tried(root, apps, [an_ask("k", 10, app=app.application_id) for app in apps])
        assert [one.pending for one in outstanding(partition)] == [1, 1]
        return calls_during(lambda: outstanding(partition))

    assert calls(1_000) == calls(10)


def test_a_count_costs_by_pending_classes_and_leaves() -> None:
    def calls(leaves: int, request_classes: int) -> float:
        partition = waiting(2_000, applications=leaves, leaves=leaves, request_classes=request_classes)
        return calls_during(lambda: outstanding(partition)) / (leaves * request_classes)

    once = calls(2, 5)
    assert calls(20, 5) < 1.5 * once
    assert calls(2, 50) < 1.5 * once


def test_no_more_places_are_looked_at_than_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = waiting(500, leaves=2, applications=2, request_classes=50)
    assert len(module.oldest_unschedulable(partition, 7)) == 3
    assert len(outstanding(partition, 7)) == 6
    assert len(module.oldest_unschedulable(partition)) == 50
    assert sum(count for _, _, count in module.outstanding_asks(partition)) == 500
