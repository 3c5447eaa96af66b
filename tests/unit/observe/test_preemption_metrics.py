"""What the metrics say about preemption and reservations, in numbers worked out by hand."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.preemption import PreemptionRefusal
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.observe.metrics import Metrics
from schedulerd.observe.tally import STOPPED_KEPT
from tests.instants import at
from tests.unit.observe import build
from tests.unit.observe.build import PARTITION, RM
from tests.unit.observe.scrape import after, samples

SECOND_NS = 10**9
NODE = build.node("n1", None, NodeState.SCHEDULABLE, {"vcore": 10})


def by_queue(metrics: Metrics, name: str) -> dict[str, float]:
    return {queue: value for (_, queue, _), value in samples(metrics, f"schedulerd_{name}_total").items()}


def nonzero(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """By the labels beside partition and resource manager, which are the first of the labels in these families."""
    found = samples(metrics, f"schedulerd_{name}")
    return {tuple(one for one in key if one not in (PARTITION, RM)): value for key, value in found.items() if value}


def test_attempts_are_counted_by_their_outcome() -> None:
    metrics = after(
        build.preempted(("root.c", "uuid-1")),
        build.preempted(),
        *[build.preemption_refused(refusal) for refusal in PreemptionRefusal],
        build.preemption_refused(PreemptionRefusal.QUOTA),
    )
    assert nonzero(metrics, "preemption_attempts_total") == {
        ("decided",): 2,
        ("not_entitled",): 1,
        ("quota",): 2,
        ("no_victims",): 1,
        ("no_node",): 1,
    }


def test_preempted_allocations_are_counted_by_queue_and_in_every_queue_above() -> None:
    victims = [("root.c", "uuid-1"), ("root.d.e", "uuid-2")]
    metrics = after(
        build.preempted(*victims, queue="root.a.b"),
        *[build.victim(queue) for queue, _ in victims],
        build.preempted(("root.c", "uuid-3"), queue="root.a.x"),
        build.victim("root.c"),
    )
    asked_for = {queue: n for queue, n in by_queue(metrics, "preemptions").items() if n}
    assert asked_for == {"root.a.b": 1, "root.a.x": 1, "root.a": 2, "root": 2}
    ended = {queue: n for queue, n in by_queue(metrics, "preemption_victims").items() if n}
    assert ended == {"root.c": 2, "root.d.e": 1, "root.d": 1, "root": 3}


def test_a_decision_without_victims_is_no_preemption() -> None:
    assert by_queue(after(build.preempted()), "preemptions") == {}


def test_only_what_is_ended_for_others_is_a_victim() -> None:
    timed_out = build.release_requested(TerminationType.TIMEOUT)
    assert by_queue(after(timed_out), "preemption_victims") == {}


def test_a_queue_above_its_max_is_counted_with_what_came_of_it() -> None:
    metrics = after(build.quota_preempted(3, "root.a"), build.quota_preempted(0, "root.a"), build.victim("root.a.b"))
    assert nonzero(metrics, "quota_preemptions_total") == {
        (outcome, queue): 1 for outcome in ("decided", "no_victims") for queue in ("root", "root.a")
    }
    assert by_queue(metrics, "preemption_victims") == {"root.a.b": 1, "root.a": 1, "root": 1}


def test_reservations_are_counted_by_kind_from_first_to_last() -> None:
    metrics = after(NODE, build.reserved(), build.reserved(entitled=False), build.reserved(entitled=False))
    assert nonzero(metrics, "reservations") == {("entitled",): 1, ("aging",): 2}
    metrics.observe([build.reservation_ended(ReservationEnd.EXPIRED, entitled=False)], at(0))
    metrics.observe([build.reservation_ended(ReservationEnd.PLACED)], at(0))
    assert nonzero(metrics, "reservations") == {("aging",): 1}
    assert nonzero(metrics, "reservations_made_total") == {("entitled",): 1, ("aging",): 2}
    assert nonzero(metrics, "reservations_ended_total") == {("entitled", "placed"): 1, ("aging", "expired"): 1}


def test_the_time_until_the_room_is_there_is_observed() -> None:
    metrics = after(build.room_made(200_000_000), build.room_made(31 * SECOND_NS))
    buckets = samples(metrics, "schedulerd_preemption_room_made_seconds_bucket")
    assert [buckets[bound,] for bound in ("0.1", "0.25", "30.0", "45.0", "1800.0")] == [0, 1, 1, 2, 2]
    assert samples(metrics, "schedulerd_preemption_room_made_seconds_sum")[()] == pytest.approx(31.2)


def test_with_the_first_node_of_a_partition_the_counts_start_at_zero() -> None:
    metrics = after(NODE)
    assert samples(metrics, "schedulerd_preemption_attempts_total") == {
        (outcome, PARTITION, RM): 0 for outcome in ("decided", "not_entitled", "quota", "no_victims", "no_node")
    }
    assert samples(metrics, "schedulerd_reservations_ended_total")["aging", PARTITION, "expired", RM] == 0
    assert samples(metrics, "schedulerd_reservations") == {(kind, PARTITION, RM): 0 for kind in ("entitled", "aging")}


def test_the_counts_of_a_queue_go_with_it_and_those_of_the_root_stay() -> None:
    leaves = ("root.a.b", "root.a.x", "root.c")
    metrics = after(
        *[build.application(None, ApplicationState.NEW, queue=leaf) for leaf in leaves],
        *[build.victim(leaf) for leaf in leaves],
        build.forgotten(ApplicationState.NEW, queue="root.a.b"),
    )
    assert by_queue(metrics, "preemption_victims") == {"root.a.x": 1, "root.a": 2, "root.c": 1, "root": 3}
    metrics.observe([build.forgotten(ApplicationState.NEW, queue="root.a.x")], at(0))
    assert by_queue(metrics, "preemption_victims") == {"root.c": 1, "root": 3}
    metrics.observe([build.forgotten(ApplicationState.NEW, queue="root.c")], at(0))
    assert by_queue(metrics, "preemption_victims") == {"root": 3}


def test_a_new_start_of_the_resource_manager_leaves_totals_and_no_reservations() -> None:
    metrics = after(NODE, build.reserved(), build.victim("root.c"), build.preempted(("root.c", "uuid-1")))
    metrics.observe([build.resource_manager(ResourceManagerState.INIT)], at(0))
    assert samples(metrics, "schedulerd_reservations") == {}
    assert by_queue(metrics, "preemption_victims") == {"root": 1}
    assert nonzero(metrics, "reservations_made_total") == {("entitled",): 1}
    metrics.observe([NODE], at(0))
    assert samples(metrics, "schedulerd_reservations") == {(kind, PARTITION, RM): 0 for kind in ("entitled", "aging")}
    assert nonzero(metrics, "preemption_attempts_total") == {("decided",): 1}


def test_nothing_is_left_of_one_that_stopped_long_ago() -> None:
    metrics = after(NODE, build.reserved(), build.victim(), build.preempted(("root.c", "uuid-1")))
    for number in range(STOPPED_KEPT + 1):
        rm_id = RM if number == 0 else f"other-{number}"
        metrics.observe([build.resource_manager(ResourceManagerState.STOPPED, rm_id)], at(0))
    names = ("preemption_attempts", "preemptions", "preemption_victims", "quota_preemptions", "reservations_made")
    assert {name: samples(metrics, f"schedulerd_{name}_total") for name in names} == {name: {} for name in names}
