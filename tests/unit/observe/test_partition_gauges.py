"""What a scrape reads from the state: outstanding asks, and what is really used."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import ReportUtilization, Utilization
from schedulerd.core.language.resources import Resources
from schedulerd.observe.metrics import Metrics
from tests.instants import at
from tests.unit.core.builders import RM, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask
from tests.unit.observe.scrape import samples


def test_outstanding_asks_are_added_up_over_queues_and_sizes() -> None:
    root = a_root(a_queue_spec("a", max={"memory": 100}), a_queue_spec("b"))
    talk = a_conversation(a_node("n1", {"memory": 5, "vcore": 1}), root=root)
    talk.apps(an_app("other", "root.b"))
    talk.asks(an_ask("k", 30, count=9), an_ask("k", 7, count=2, app="other"))
    talk.schedule()
    metrics = Metrics()
    assert samples(metrics, "schedulerd_outstanding_requests") == {}
    metrics.watch_state(talk.scheduler.cluster.resource_managers.values)
    assert samples(metrics, "schedulerd_outstanding_requests") == {("default", RM): 5}
    resources = samples(metrics, "schedulerd_outstanding_resources")
    assert resources == {("default", "memory", RM): 104, ("default", "vcore", RM): 0}
    talk.nodes(a_node("n2", {"memory": 1_000}))
    talk.schedule()
    assert samples(metrics, "schedulerd_outstanding_requests") == {("default", RM): 0}
    assert samples(metrics, "schedulerd_outstanding_resources")["default", "memory", RM] == 0


def test_what_nodes_really_use_is_added_up() -> None:
    talk = a_conversation(a_node("n1", {"memory": 50}), a_node("n2", {"memory": 50}), a_node("n3", {"memory": 50}))
    metrics = Metrics()
    metrics.watch_state(talk.scheduler.cluster.resource_managers.values)
    assert samples(metrics, "schedulerd_used_resources") == {}
    reports = [Utilization("n1", Resources(memory=20)), Utilization("n2", Resources(memory=7))]
    metrics.observe(talk.step(ReportUtilization(RM, reports)), at(0))
    assert samples(metrics, "schedulerd_used_resources") == {("default", "memory", RM): 27}
    assert samples(metrics, "schedulerd_allocations_used_resources") == {}
    assert samples(metrics, "schedulerd_node_recommendations_total") == {("default", RM): 2}


def test_what_allocations_really_use_is_added_up() -> None:
    talk = a_conversation(a_node("n1", {"memory": 50}))
    talk.asks(an_ask("k", 10, count=3))
    talk.schedule()
    metrics = Metrics()
    metrics.watch_state(talk.scheduler.cluster.resource_managers.values)
    assert samples(metrics, "schedulerd_allocations_used_resources") == {}
    first, second, _ = talk.model().allocations
    reports = [Utilization(first, Resources(memory=4)), Utilization(second, Resources(memory=9))]
    talk.step(ReportUtilization(RM, reports))
    assert samples(metrics, "schedulerd_allocations_used_resources") == {("default", "memory", RM): 13}
    assert samples(metrics, "schedulerd_used_resources") == {}
    talk.release(uuid=second)
    assert samples(metrics, "schedulerd_allocations_used_resources") == {("default", "memory", RM): 4}


def pending_of(metrics: Metrics) -> dict[str, float]:
    found = samples(metrics, "schedulerd_pending_asks")
    return {state: count for (_, _, state), count in found.items() if count}


def test_pending_asks_are_counted_by_what_they_wait_for() -> None:
    root = a_root(a_queue_spec("a", max={"memory": 50}), a_queue_spec("b"))
    talk = a_conversation(a_node("n1", {"memory": 40}), root=root)
    metrics = Metrics()
    metrics.watch_state(talk.scheduler.cluster.resource_managers.values)
    assert set(samples(metrics, "schedulerd_pending_asks").values()) == {0}, "every state has its series"
    talk.apps(an_app("other", "root.b"))
    talk.asks(an_ask("k", 30, count=3), an_ask("k", 100, count=2, app="other"))
    assert pending_of(metrics) == {"ready": 5}
    talk.schedule()
    assert pending_of(metrics) == {"quota_blocked": 2, "unschedulable": 2}
    assert samples(metrics, "schedulerd_leaf_pending_asks") == {
        ("default", "root.a", RM, "quota_blocked"): 2,
        ("default", "root.b", RM, "unschedulable"): 2,
    }
    talk.disconnect()
    assert pending_of(metrics) == {"application_inactive": 4}


def test_pending_asks_are_counted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.observe.metrics.APPLICATIONS_COUNTED_MAX", 3)
    talk = a_conversation(a_node("n1", {"memory": 40}))
    metrics = Metrics()
    before = len(list(metrics.parts(lambda items: items)))
    metrics.watch_state(talk.scheduler.cluster.resource_managers.values)
    talk.apps(*(an_app(f"app-{number}") for number in range(9)))
    assert len(list(metrics.parts(lambda items: items))) - before == 3, "ten applications, three at a time"
