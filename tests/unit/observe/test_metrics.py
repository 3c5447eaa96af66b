"""Each metric says what the facts said, in numbers worked out by hand."""

from __future__ import annotations

from typing import get_args

import pytest

from schedulerd import __version__
from schedulerd.build import core_build
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import configuration as configuration_facts
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.fact import RejectCode, WithdrawCause
from schedulerd.core.language.facts.queues import TagIgnored
from schedulerd.core.language.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.state.step_context import Item
from schedulerd.observe import tally
from schedulerd.observe.metrics import Metrics
from schedulerd.observe.tally import ReloadResult
from tests.instants import EPOCH_NS, at
from tests.unit.observe.build import (
    PARTITION,
    QUEUE,
    RM,
    allocated,
    application,
    ask,
    ask_rejected,
    forgotten,
    node,
    release_requested,
    released,
    resource_manager,
    withdrawn,
)
from tests.unit.observe.scrape import after, samples

SECOND_NS = 10**9

EPOCH_S = EPOCH_NS // SECOND_NS


def test_every_kind_of_fact_is_known() -> None:
    assert set(tally.Tally()._handlers) == set(get_args(facts.Fact))


def test_pending_and_allocated_roll_up_to_the_root() -> None:
    metrics = after(
        ask(count=3, queue="root.a.b", vcore=100, memory=10),
        ask(count=1, queue="root.a.c", vcore=50),
        allocated(queue="root.a.b", vcore=100, memory=10),
    )
    assert samples(metrics, "schedulerd_pending_allocations") == {
        (PARTITION, "root", RM): 3,
        (PARTITION, "root.a", RM): 3,
        (PARTITION, "root.a.b", RM): 2,
        (PARTITION, "root.a.c", RM): 1,
    }
    pending = samples(metrics, "schedulerd_pending_resources")
    assert pending[PARTITION, "root", "vcore", RM] == 250
    assert pending[PARTITION, "root.a", "memory", RM] == 20
    assert pending[PARTITION, "root.a.c", "vcore", RM] == 50
    allocations = samples(metrics, "schedulerd_allocated_resources")
    assert allocations[PARTITION, "root", "vcore", RM] == 100
    assert allocations[PARTITION, "root.a.b", "memory", RM] == 10
    assert samples(metrics, "schedulerd_asks_added_total") == {(PARTITION, RM): 4}
    assert samples(metrics, "schedulerd_placements_total") == {(PARTITION, RM): 1}


def test_a_withdrawn_ask_is_pending_no_longer() -> None:
    metrics = after(
        application(None, ApplicationState.NEW),
        ask(count=5, vcore=10),
        withdrawn(WithdrawCause.UPDATED, count=2, vcore=10),
        withdrawn(WithdrawCause.TIMEOUT, count=3, vcore=10),
    )
    assert samples(metrics, "schedulerd_pending_allocations")[PARTITION, QUEUE, RM] == 0
    assert samples(metrics, "schedulerd_pending_resources")[PARTITION, QUEUE, "vcore", RM] == 0
    assert samples(metrics, "schedulerd_asks_withdrawn_total") == {
        ("updated", PARTITION, RM): 2,
        ("timeout", PARTITION, RM): 3,
    }


def test_a_recovered_allocation_is_no_placement_and_was_never_pending() -> None:
    metrics = after(allocated(recovered=True, vcore=10), now_ns=SECOND_NS)
    assert samples(metrics, "schedulerd_allocated_resources")[PARTITION, QUEUE, "vcore", RM] == 10
    assert samples(metrics, "schedulerd_allocations_recovered_total") == {(PARTITION, RM): 1}
    assert samples(metrics, "schedulerd_placements_total") == {}
    assert samples(metrics, "schedulerd_pending_resources") == {}
    assert samples(metrics, "schedulerd_placement_latency_seconds_count") == {(): 0}


def test_releases_are_counted_by_termination_and_free_what_was_used() -> None:
    metrics = after(
        application(None, ApplicationState.NEW),
        ask(count=2, vcore=10),
        allocated("uuid-1", vcore=10),
        allocated("uuid-2", vcore=10),
        release_requested(TerminationType.TIMEOUT),
        released(TerminationType.TIMEOUT, vcore=10),
        released(TerminationType.STOPPED_BY_RM, vcore=10),
    )
    assert samples(metrics, "schedulerd_release_requests_total") == {(PARTITION, RM, "timeout"): 1}
    assert samples(metrics, "schedulerd_releases_total") == {
        (PARTITION, RM, "timeout"): 1,
        (PARTITION, RM, "stopped_by_rm"): 1,
    }
    assert samples(metrics, "schedulerd_allocated_resources")[PARTITION, QUEUE, "vcore", RM] == 0


def test_mistakes_are_counted_by_object_and_code_and_never_by_names_an_rm_made_up() -> None:
    metrics = after(
        resource_manager(ResourceManagerState.RUNNING),
        ask_rejected(RejectCode.INVALID_RESOURCES),
        ask_rejected(RejectCode.INVALID_RESOURCES),
        facts.ApplicationRejected(RM, "made-up", "app-9", RejectCode.UNKNOWN_PARTITION, "no such partition"),
        facts.NodeRejected(RM, "made-up", "node-9", RejectCode.DUPLICATE_ID, "known already"),
        facts.ReleaseIgnored(RM, "made-up", "app-9", "", "", "no such application"),
        facts.ItemIgnored(RM, "made-up", "app-9", RejectCode.UNKNOWN_APPLICATION, "no such application"),
        facts.ItemIgnored("made-up", "", "made-up", RejectCode.INVALID_STATE, "not registered"),
        facts.CheckFailed(RM, "NewAsk", "made-up", RejectCode.CHECK_FAILED, "ValueError"),
        facts.CheckFailed("made-up", "NewAsk", "made-up", RejectCode.CHECK_FAILED, "ValueError"),
        TagIgnored(RM, "default", "root.a", "app-9", "made-up", "unreadable"),
        configuration_facts.ConfigurationUpdated(RM),
        configuration_facts.ConfigurationRejected(RM, ("queue root.a has applications",)),
        configuration_facts.ConfigurationUpdated(RM),
    )
    assert samples(metrics, "schedulerd_rejections_total") == {
        ("invalid_resources", "ask", RM): 2,
        ("unknown_partition", "application", RM): 1,
        ("duplicate_id", "node", RM): 1,
    }
    assert samples(metrics, "schedulerd_releases_ignored_total") == {(RM,): 1}
    assert samples(metrics, "schedulerd_tags_ignored_total") == {(RM,): 1}
    failed = samples(metrics, "schedulerd_checks_failed_total")
    assert {labels: count for labels, count in failed.items() if count} == {("NewAsk", RM): 1, ("NewAsk", ""): 1}
    assert samples(metrics, "schedulerd_reloads_total") == {("applied", RM): 2, ("refused", RM): 1}
    assert samples(metrics, "schedulerd_items_ignored_total") == {
        ("unknown_application", RM): 1,
        ("invalid_state", ""): 1,
    }


def test_what_alerts_count_starts_at_zero_so_that_the_first_event_is_an_increase() -> None:
    metrics = after(resource_manager(ResourceManagerState.INIT), node("n", None, NodeState.SCHEDULABLE))
    assert samples(metrics, "schedulerd_rejections_total") == {
        (code, rejected, RM): 0 for code in RejectCode for rejected in ("node", "application", "ask")
    }
    checked = {one.__name__ for one in get_args(Item)}
    assert samples(metrics, "schedulerd_checks_failed_total") == {(item, rm): 0 for item in checked for rm in ("", RM)}
    assert samples(metrics, "schedulerd_gangs_total")["timed_out", PARTITION, RM] == 0
    assert samples(metrics, "schedulerd_placeholders_total")["too_small", PARTITION, RM] == 0
    assert samples(metrics, "schedulerd_events_failed_total") == {(): 0}


def test_when_a_queue_file_was_last_read_and_whether_it_could_be_used() -> None:
    metrics = after(resource_manager(ResourceManagerState.INIT), now_ns=5 * SECOND_NS)
    metrics.reload("", ReloadResult.APPLIED, 1 * SECOND_NS)

    def last() -> list[tuple[str, float, float]]:
        times = samples(metrics, "schedulerd_config_last_reload_timestamp_seconds")
        successes = samples(metrics, "schedulerd_config_last_reload_successful")
        assert times.keys() == successes.keys()
        return sorted((rm_id, times[rm_id,], successes[rm_id,]) for (rm_id,) in times)

    assert last() == [("", 1, 1), (RM, EPOCH_S + 5, 1)], "a registration reads one too"
    metrics.reload(RM, ReloadResult.REFUSED, 6 * SECOND_NS)
    assert last() == [("", 1, 1), (RM, 6, 0)]
    metrics.observe([configuration_facts.ConfigurationUpdated(RM, changed=False)], at(7 * SECOND_NS))
    assert last() == [("", 1, 1), (RM, EPOCH_S + 7, 1)]
    metrics.observe([configuration_facts.ConfigurationRejected(RM, ("no",))], at(8 * SECOND_NS))
    assert last() == [("", 1, 1), (RM, EPOCH_S + 8, 0)]
    assert samples(metrics, "schedulerd_reloads_total") == {
        ("applied", ""): 1,
        ("refused", RM): 2,
        ("unchanged", RM): 1,
    }
    metrics.observe([resource_manager(ResourceManagerState.STOPPED)], at(9 * SECOND_NS))
    metrics.reload(RM, ReloadResult.REFUSED, 10 * SECOND_NS)
    assert last() == [("", 1, 1)], "whoever is gone has no queue file"


def test_the_checksum_of_what_holds() -> None:
    metrics = Metrics()
    held = [("", "A"), (RM, "B")]
    metrics.watch_checksums(lambda: held)
    assert samples(metrics, "schedulerd_config_info") == {("A", ""): 1, ("B", RM): 1}
    held.pop()
    assert samples(metrics, "schedulerd_config_info") == {("A", ""): 1}


def test_nodes_by_state_with_the_sums_over_them() -> None:
    metrics = after(
        node("n1", None, NodeState.SCHEDULABLE, {"vcore": 100, "gpu": 1}, {"vcore": 5}),
        node("n2", None, NodeState.DRAINING, {"vcore": 200}),
        node("n1", NodeState.SCHEDULABLE, NodeState.SCHEDULABLE, {"vcore": 150}, {"vcore": 7}),
        node("n3", None, NodeState.SCHEDULABLE, {"vcore": 1000}, {"vcore": 1000}),
        node("n3", NodeState.SCHEDULABLE, NodeState.REMOVED, {"vcore": 1000}, {"vcore": 1000}),
    )
    assert samples(metrics, "schedulerd_nodes") == {
        (PARTITION, RM, "schedulable"): 1,
        (PARTITION, RM, "draining"): 1,
        (PARTITION, RM, "not_ready"): 0,
    }
    assert samples(metrics, "schedulerd_capacity_resources") == {
        (PARTITION, "vcore", RM): 350,
        (PARTITION, "gpu", RM): 0,
    }
    assert samples(metrics, "schedulerd_occupied_resources") == {(PARTITION, "vcore", RM): 7}


def test_what_the_nodes_offer_is_zero_at_the_root_before_anything_runs() -> None:
    metrics = after(node("n1", None, NodeState.SCHEDULABLE, {"vcore": 100}))
    assert samples(metrics, "schedulerd_allocated_resources") == {(PARTITION, "root", "vcore", RM): 0}
    assert samples(metrics, "schedulerd_pending_resources") == {(PARTITION, "root", "vcore", RM): 0}


def test_a_capacity_that_the_scheduler_changes_later_in_place_does_no_harm() -> None:
    changed = node("n1", None, NodeState.SCHEDULABLE, {"vcore": 100})
    metrics = after(changed)
    changed.capacity["vcore"] = 40
    metrics.observe([node("n1", NodeState.SCHEDULABLE, NodeState.REMOVED)], at(0))
    assert samples(metrics, "schedulerd_capacity_resources") == {(PARTITION, "vcore", RM): 0}


def test_applications_by_state_and_queue() -> None:
    metrics = after(
        application(None, ApplicationState.NEW, "app-1", "root.a"),
        application(ApplicationState.NEW, ApplicationState.ACCEPTED, "app-1", "root.a"),
        application(None, ApplicationState.NEW, "app-2", "root.b"),
        application(None, ApplicationState.REJECTED, "app-3", ""),
    )
    known = {key: n for key, n in samples(metrics, "schedulerd_applications").items() if n}
    assert known == {
        (PARTITION, "root", RM, "accepted"): 1,
        (PARTITION, "root.a", RM, "accepted"): 1,
        (PARTITION, "root", RM, "new"): 1,
        (PARTITION, "root.b", RM, "new"): 1,
        (PARTITION, "", RM, "rejected"): 1,
    }
    assert samples(metrics, "schedulerd_application_transitions_total") == {
        (PARTITION, RM, "new"): 2,
        (PARTITION, RM, "accepted"): 1,
        (PARTITION, RM, "rejected"): 1,
    }


def test_a_queue_shows_zeros_while_an_application_lives_in_it_and_nothing_afterwards() -> None:
    metrics = after(
        application(None, ApplicationState.NEW),
        application(ApplicationState.NEW, ApplicationState.RUNNING),
        ask(vcore=10),
        allocated(vcore=10),
        released(vcore=10),
    )
    allocations = "schedulerd_allocated_resources"
    assert samples(metrics, allocations)[PARTITION, QUEUE, "vcore", RM] == 0
    metrics.observe([application(ApplicationState.RUNNING, ApplicationState.COMPLETED)], at(0))
    assert samples(metrics, allocations) == {}
    assert samples(metrics, "schedulerd_pending_allocations") == {}
    assert samples(metrics, "schedulerd_applications")[PARTITION, QUEUE, RM, "completed"] == 1
    metrics.observe([forgotten(ApplicationState.COMPLETED)], at(0))
    assert samples(metrics, "schedulerd_applications") == {}


def test_what_is_released_or_withdrawn_after_its_application_is_gone_leaves_nothing_behind() -> None:
    metrics = after(
        application(None, ApplicationState.NEW),
        ask(count=2, vcore=10),
        allocated(vcore=10),
        forgotten(ApplicationState.NEW),
    )
    metrics.observe([withdrawn(WithdrawCause.APPLICATION_REMOVED, vcore=10)], at(0))
    assert samples(metrics, "schedulerd_allocated_resources")[PARTITION, "root", "vcore", RM] == 10
    metrics.observe([released(vcore=10)], at(0))
    assert metrics._tally.queues == {}


def test_a_thousand_queues_that_come_and_go_take_no_memory() -> None:
    metrics = Metrics()
    for number in range(1000):
        queue = f"root.dynamic.q{number}"
        metrics.observe(
            [
                application(None, ApplicationState.NEW, f"app-{number}", queue),
                ask(queue=queue, vcore=1),
                allocated(queue=queue, vcore=1),
                released(queue=queue, vcore=1),
                forgotten(ApplicationState.NEW, f"app-{number}", queue),
            ],
            at(0),
        )
    assert metrics._tally.queues == {}


@pytest.mark.parametrize("state", [ResourceManagerState.INIT, ResourceManagerState.STOPPED])
def test_a_resource_manager_that_starts_over_or_stops_takes_its_gauges_along_and_leaves_its_counters(
    state: ResourceManagerState,
) -> None:
    metrics = after(
        resource_manager(ResourceManagerState.RUNNING, RM),
        resource_manager(ResourceManagerState.RUNNING, "rm-2"),
        node("n1", None, NodeState.SCHEDULABLE, {"vcore": 100}),
        node("n1", None, NodeState.SCHEDULABLE, {"vcore": 7}, rm_id="rm-2"),
        ask(count=2, vcore=10),
        ask(count=2, vcore=3, rm_id="rm-2"),
        allocated(vcore=10),
        resource_manager(state, RM),
    )
    assert samples(metrics, "schedulerd_capacity_resources") == {(PARTITION, "vcore", "rm-2"): 7}
    assert samples(metrics, "schedulerd_pending_allocations") == {
        (PARTITION, "root", "rm-2"): 2,
        (PARTITION, "root.a", "rm-2"): 2,
        (PARTITION, "root.a.b", "rm-2"): 2,
    }
    assert samples(metrics, "schedulerd_placements_total") == {(PARTITION, RM): 1}
    by_state = samples(metrics, "schedulerd_resource_managers")
    assert by_state == {("init",): 0, ("running",): 1, ("paused",): 0, ("stopped",): 0} | {(state,): 1}


def test_only_so_many_stopped_resource_managers_are_remembered() -> None:
    metrics = after(resource_manager(ResourceManagerState.RUNNING, "alive"))
    for number in range(tally.STOPPED_KEPT + 10):
        rm_id = f"rm-{number:03}"
        metrics.observe(
            [ask_rejected(RejectCode.EMPTY_ID, rm_id), resource_manager(ResourceManagerState.STOPPED, rm_id)], at(0)
        )
    assert samples(metrics, "schedulerd_resource_managers")["stopped",] == tally.STOPPED_KEPT
    assert samples(metrics, "schedulerd_resource_managers")["running",] == 1
    rejections = samples(metrics, "schedulerd_rejections_total")
    assert len(rejections) == tally.STOPPED_KEPT
    assert ("empty_id", "ask", "rm-009") not in rejections
    assert ("empty_id", "ask", "rm-010") in rejections


def test_placement_latency_runs_from_the_ask_to_the_sender() -> None:
    metrics = after(
        allocated("uuid-1", asked_at_ns=9 * SECOND_NS, vcore=1),
        allocated("uuid-2", asked_at_ns=10 * SECOND_NS - 2_000_000, vcore=1),
        now_ns=10 * SECOND_NS,
    )
    buckets = samples(metrics, "schedulerd_placement_latency_seconds_bucket")
    assert (buckets["0.001",], buckets["0.0025",], buckets["0.5",], buckets["1.0",], buckets["+Inf",]) == (
        *(0, 1, 1, 2, 2),
    )
    assert samples(metrics, "schedulerd_placement_latency_seconds_sum")[()] == pytest.approx(1.002)


def test_cycles_are_summed_up() -> None:
    metrics = after(facts.CycleRan(400, 2, True), facts.CycleRan(3, 1, False))
    assert samples(metrics, "schedulerd_unschedulable_request_classes_total") == {(): 3}
    assert samples(metrics, "schedulerd_cycles_cut_total") == {(): 1}


def test_what_the_shell_measures() -> None:
    metrics = Metrics()
    metrics.step_seconds("UpdateNodes", 0.002)
    metrics.step_seconds("UpdateNodes", 0.2)
    metrics.step_seconds("RunCycle", 0.0001)
    metrics.cycle_seconds(0.005)
    metrics.loop_lag_seconds(0.5)
    assert samples(metrics, "schedulerd_step_duration_seconds_count") == {("UpdateNodes",): 2, ("RunCycle",): 1}
    assert samples(metrics, "schedulerd_step_duration_seconds_bucket")["UpdateNodes", "0.0025"] == 1
    assert samples(metrics, "schedulerd_cycle_duration_seconds_sum") == {(): 0.005}
    assert samples(metrics, "schedulerd_loop_lag_seconds_count") == {(): 1}


def test_depths_are_asked_at_every_scrape() -> None:
    metrics = Metrics()
    assert samples(metrics, "schedulerd_inbox_depth") == {}
    waiting = ["command"]
    metrics.watch_depth("inbox", lambda: len(waiting))
    metrics.watch_depth("outbox", lambda: 7)
    assert samples(metrics, "schedulerd_inbox_depth") == {(): 1}
    waiting.clear()
    assert samples(metrics, "schedulerd_inbox_depth") == {(): 0}
    assert samples(metrics, "schedulerd_outbox_depth") == {(): 7}


def test_an_unknown_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="no buffer 'mailbox'; allowed are inbox, outbox"):
        Metrics().watch_depth("mailbox", lambda: 0)  # type: ignore[arg-type]  # what a caller without mypy may do


def test_the_build_and_the_process_are_there_too() -> None:
    metrics = Metrics()
    assert samples(metrics, "schedulerd_build_info") == {(core_build(), __version__): 1}
    assert samples(metrics, "process_resident_memory_bytes")[()] > 0
    assert len(samples(metrics, "python_gc_collections_total")) == 3
