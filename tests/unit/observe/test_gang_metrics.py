"""What the metrics say about gangs, in numbers worked out by hand."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import ReleaseCause, WithdrawCause
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.observe.metrics import Metrics
from tests.instants import at
from tests.unit.observe.build import (
    PARTITION,
    QUEUE,
    RM,
    allocated,
    application,
    ask,
    forgotten,
    gang_completed,
    gang_gave_way,
    gang_timed_out,
    release_requested,
    released,
    withdrawn,
)
from tests.unit.observe.scrape import after, samples

SECOND_NS = 10**9


def gauges_of_gangs(metrics: Metrics) -> tuple[float, float, float, float]:
    """Of the queue: pending asks and placeholders, allocated placeholders, and asks that await placeholders."""
    names = ("pending_allocations", "pending_placeholders", "allocated_placeholders", "asks_awaiting_placeholder")
    pending, waiting, there, awaiting = (samples(metrics, f"schedulerd_{name}")[PARTITION, QUEUE, RM] for name in names)
    return pending, waiting, there, awaiting


def counted(metrics: Metrics, family: str) -> dict[str, float]:
    """By event, what was counted at all."""
    found = samples(metrics, family)
    return {event: value for (event, partition, rm_id), value in found.items() if value}


def test_a_placeholder_from_ask_to_swap() -> None:
    metrics = after(
        application(None, ApplicationState.NEW), ask(count=2, placeholder=True, vcore=10), ask(count=1, vcore=10)
    )
    assert gauges_of_gangs(metrics) == (3, 2, 0, 0)
    metrics.observe([allocated(placeholder=True, vcore=10)], at(0))
    assert gauges_of_gangs(metrics) == (2, 1, 1, 0)
    metrics.observe([withdrawn(WithdrawCause.AWAITING_PLACEHOLDER, vcore=10)], at(0))
    metrics.observe(
        [release_requested(TerminationType.PLACEHOLDER_REPLACED, ReleaseCause.REPLACED, placeholder=True)], at(0)
    )
    assert gauges_of_gangs(metrics) == (1, 1, 1, 1)
    replaced = released(TerminationType.PLACEHOLDER_REPLACED, placeholder=True, vcore=10)
    metrics.observe([replaced, allocated("uuid-2", replaces="uuid-1", vcore=10)], at(0))
    assert gauges_of_gangs(metrics) == (1, 1, 0, 0)
    assert counted(metrics, "schedulerd_placeholders_total") == {"asked": 2, "placed": 1, "replaced": 1, "released": 1}
    assert samples(metrics, "schedulerd_asks_withdrawn_total") == {}, (
        "an ask that awaits a placeholder is not withdrawn"
    )


def test_an_ask_that_loses_its_placeholder_was_added_once() -> None:
    metrics = after(
        application(None, ApplicationState.NEW),
        allocated(placeholder=True, recovered=True, vcore=10),
        ask(vcore=10),
        withdrawn(WithdrawCause.AWAITING_PLACEHOLDER, vcore=10),
        ask(awaited_placeholder=True, vcore=10),
    )
    assert gauges_of_gangs(metrics) == (1, 0, 1, 0)
    assert samples(metrics, "schedulerd_asks_added_total") == {(PARTITION, RM): 1}
    assert samples(metrics, "schedulerd_pending_resources")[PARTITION, QUEUE, "vcore", RM] == 10
    assert counted(metrics, "schedulerd_placeholders_total") == {"recovered": 1}


def test_placeholders_that_are_not_replaced_are_counted_by_the_reason() -> None:
    timeout = TerminationType.TIMEOUT
    metrics = after(
        application(None, ApplicationState.NEW),
        ask(count=9, placeholder=True, vcore=10),
        withdrawn(WithdrawCause.UPDATED, count=1, placeholder=True, vcore=10),
        withdrawn(WithdrawCause.TIMEOUT, count=3, placeholder=True, vcore=10),
        withdrawn(WithdrawCause.TIMEOUT, count=0, vcore=10),
        release_requested(timeout, ReleaseCause.TIMED_OUT, placeholder=True),
        release_requested(timeout, ReleaseCause.TIMED_OUT),
        release_requested(timeout, ReleaseCause.TOO_SMALL, placeholder=True),
        release_requested(timeout, ReleaseCause.UNUSED, placeholder=True),
        release_requested(timeout, ReleaseCause.GAVE_WAY, placeholder=True),
    )
    assert counted(metrics, "schedulerd_placeholders_total") == (
        {"asked": 9, "withdrawn": 4, "timed_out": 4, "too_small": 1, "unused": 1, "gave_way": 1}
    )


def test_gangs_are_counted_and_the_time_they_took_is_observed() -> None:
    metrics = after(
        ask(placeholder=True, vcore=10),
        gang_completed(waited_ns=20_000_000),
        gang_completed(waited_ns=700 * SECOND_NS),
        gang_timed_out(),
        gang_gave_way(),
    )
    assert counted(metrics, "schedulerd_gangs_total") == {"complete": 2, "timed_out": 1, "gave_way": 1}
    buckets = samples(metrics, "schedulerd_gang_complete_seconds_bucket")
    assert [buckets[bound,] for bound in ("0.01", "0.025", "600.0", "900.0", "3600.0")] == [0, 1, 1, 2, 2]
    assert samples(metrics, "schedulerd_gang_complete_seconds_sum")[()] == pytest.approx(700.02)


def test_with_the_first_placeholder_all_events_start_at_zero_and_without_gangs_there_are_none() -> None:
    without = after(application(None, ApplicationState.NEW), ask(vcore=10))
    assert (
        samples(without, "schedulerd_placeholders_total")
        == samples(without, "schedulerd_asks_awaiting_placeholder")
        == {}
    )
    metrics = after(ask(placeholder=True, vcore=10))
    assert samples(metrics, "schedulerd_gangs_total") == {
        (event, PARTITION, RM): 0 for event in ("complete", "timed_out", "gave_way", "short", "requeued")
    }
    assert samples(metrics, "schedulerd_placeholders_total")["timed_out", PARTITION, RM] == 0


def test_a_queue_with_nothing_but_an_ask_that_awaits_a_placeholder_is_not_forgotten() -> None:
    metrics = after(
        application(None, ApplicationState.NEW),
        ask(vcore=10),
        withdrawn(WithdrawCause.AWAITING_PLACEHOLDER, vcore=10),
        forgotten(ApplicationState.NEW),
    )
    assert set(metrics._tally.queues) == {(RM, PARTITION, QUEUE)}
    metrics.observe(
        [ask(awaited_placeholder=True, vcore=10), withdrawn(WithdrawCause.APPLICATION_REMOVED, vcore=10)], at(0)
    )
    assert metrics._tally.queues == {}
