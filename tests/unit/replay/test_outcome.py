"""What is counted of a history that is played by hand."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import (
    Command,
    RingAlarms,
    RunCycle,
    StopCause,
    StopResourceManager,
    TerminationType,
    UpdateConfiguration,
)
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.replay.names import QueueName
from schedulerd.replay.outcome import Measure, Outcome, QueueOutcome, Share, Waits
from tests.unit.replay.commands import CONNECT, CYCLE, ask, node, queue_file, release, release_ask, remove, submit
from tests.unit.replay.recorded import RM, START_NS, new_scheduler, played, registration, timed


def outcome(*moves: tuple[float, Command], text: str = "", end_s: float | None = None) -> Outcome:
    end_ns = None if end_s is None else START_NS + round(end_s * SECOND_NS)
    measure = Measure(end_ns)
    beginning: list[tuple[float, Command]] = [
        (0, registration(text or queue_file(4))),
        (0, CONNECT),
        (0, node()),
        (0, submit()),
    ]
    for step in played(timed(*beginning, *moves), new_scheduler()):
        measure.observe(step)
    return measure.outcome()


def of(found: Outcome, path: str = "root.a") -> QueueOutcome:
    return found.queues[QueueName(RM, "default", path)]


def test_waits_are_from_the_ask_to_its_placement() -> None:
    found = of(outcome((1, ask("k1", "k2")), (2, ask("k3")), (4, CYCLE)))
    assert found.waits == Waits(3, 3 * SECOND_NS, 3 * SECOND_NS, 3 * SECOND_NS)
    one_late = of(outcome((1, ask("k1", "k2", "k3", "k4")), (1, CYCLE), (2, ask("k5")), (3, release("k1")), (9, CYCLE)))
    assert one_late.waits == Waits(5, 0, 7 * SECOND_NS, 7 * SECOND_NS)


@pytest.mark.parametrize(
    ("count", "median", "p95"), [(1, 1, 1), (2, 1, 2), (20, 10, 19), (21, 11, 20), (100, 50, 95), (101, 51, 96)]
)
def test_a_percentile_is_the_least_that_so_many_in_a_hundred_do_not_exceed(count: int, median: int, p95: int) -> None:
    """One ask a second, and all are placed at the end: they wait for 1 to `count` seconds."""
    asks = [(at_s, ask(f"k{at_s}")) for at_s in range(count)]
    found = of(outcome((0, node(1_000, "big")), *asks, (count, RunCycle(1_000)), text=queue_file(1_000)))
    assert found.waits == Waits(count, median * SECOND_NS, p95 * SECOND_NS, count * SECOND_NS)


def test_slots_of_a_gang_do_not_wait_and_use_what_they_hold() -> None:
    tags = {TASK_GROUPS_TAG: '[{"name": "g", "min": 2, "resources": {"vcore": 1000}}]'}
    member = ask("m", application_id="gang", task_group="g")
    found = of(outcome((1, submit("gang", tags=tags)), (1, CYCLE), (5, member), (5, CYCLE), end_s=5))
    assert found.waits == Waits(1, 0, 0, 0)
    assert found.never_placed == 0
    assert found.of_max is not None
    assert found.of_max.mean == pytest.approx(0.5 * 4 / 5)


def test_what_is_never_placed_was_pending_to_the_end_or_taken_back() -> None:
    few = outcome((1, ask("k1", "k2", "k3", "k4", "k5", "k6")), (1, CYCLE), (5, release_ask("k6")))
    assert of(few).never_placed == 2
    assert of(outcome((1, ask("k1", max_allocations=6)), (1, CYCLE), (5, remove()))).never_placed == 2
    stopped = StopResourceManager(RM, StopCause.UNREGISTERED)
    assert of(outcome((1, ask("k1")), (5, stopped))).never_placed == 1


def test_what_is_asked_for_otherwise_or_by_an_rm_that_registers_anew_counts_once() -> None:
    assert of(outcome((1, ask("k1")), (2, ask("k1", priority=3)), (3, CYCLE))).never_placed == 0
    again = ((2, registration(queue_file(4))), (2, CONNECT), (2, node()), (2, submit()), (3, ask("k1")), (3, CYCLE))
    found = of(outcome((1, ask("k1")), *again))
    assert (found.never_placed, found.waits) == (0, Waits(1, 0, 0, 0))


def test_use_is_the_mean_over_time_and_the_peak_of_the_resource_that_is_used_most() -> None:
    text = queue_file(4, guaranteed_cores=1)
    found = outcome((0, ask("k1", "k2")), (0, CYCLE), (4, release("k1")), (8, release("k2")), (10, CYCLE), text=text)
    assert of(found).of_max == Share((0.5 * 4 + 0.25 * 4) / 10, 0.5)
    assert of(found).of_guaranteed == Share((2 * 4 + 1 * 4) / 10, 2.0)
    assert of(found, "root").of_max is None
    assert of(found, "root.b").of_guaranteed is None


def test_means_are_taken_until_the_end_that_is_given() -> None:
    found = outcome((0, ask("k1", "k2")), (0, CYCLE), (20, release()), end_s=10)
    assert of(found).of_max == Share(0.5, 0.5)
    assert found.last_ns == START_NS + 20 * SECOND_NS


def test_use_is_of_the_rules_that_hold_at_the_time() -> None:
    new = registration(queue_file(2))
    reload = UpdateConfiguration(RM, new.partitions, new.configuration)
    found = outcome((0, ask("k1", "k2")), (0, CYCLE), (5, reload), (10, CYCLE))
    assert of(found).of_max == Share(0.75, 0.5)
    assert of(outcome((0, ask("k1")), (0, CYCLE), (5, registration(queue_file(2))), (10, CONNECT))).of_max == Share(
        0.125, 0.25
    )


def test_what_is_preempted_is_counted_where_it_ran_with_the_time_that_is_lost() -> None:
    text = queue_file(8, guaranteed_cores=4)
    full: list[tuple[float, Command]] = [
        (1, submit("big", "root.b")),
        (1, ask("v", application_id="big", max_allocations=8)),
        (1, CYCLE),
    ]
    preempting: list[tuple[float, Command]] = [(2, ask("k", allow_preempt_other=True)), (4, RingAlarms()), (4, CYCLE)]
    asked = outcome(*full, *preempting, text=text)
    assert (of(asked, "root.b").preempted, of(asked, "root.b").lost_ns) == (1, 0)
    ended = release(uuid="uuid-8", application_id="big", termination=TerminationType.PREEMPTED_BY_SCHEDULER)
    gone = outcome(*full, *preempting, (11, ended), text=text)
    assert (of(gone, "root.b").preempted, of(gone, "root.b").lost_ns) == (1, 10 * SECOND_NS)
    assert (of(gone).preempted, of(gone).lost_ns) == (0, 0)


def test_a_rejected_application_is_kept_with_the_reason() -> None:
    found = outcome(
        (1, submit("lost", "root.nosuch")), (1, submit()), (2, ask("k", application_id="app")), (2, ask(""))
    )
    assert list(found.rejected) == [(RM, "lost")]
    assert "root.nosuch" in found.rejected[RM, "lost"]
    assert found.rejected_asks == 1
