"""What resource managers say about asks and nodes, in numbers."""

from __future__ import annotations

from schedulerd.core.callback_facts import VerdictNotWanted, VerdictOutcome
from schedulerd.core.specs import MILLISECOND_NS
from tests.unit.observe import build
from tests.unit.observe.build import PARTITION, RM
from tests.unit.observe.scrape import after, samples


def test_every_call_counts_once_by_what_came_of_it_and_the_others_start_at_0() -> None:
    metrics = after(
        build.verdict_wanted(),
        build.verdict_reached(VerdictOutcome.REFUSED),
        build.verdict_reached(VerdictOutcome.VOID),
        VerdictNotWanted(RM, 1),
        build.verdict_wanted(),
    )
    assert samples(metrics, "schedulerd_verdicts_total") == {
        ("agreed", PARTITION, RM): 0,
        ("refused", PARTITION, RM): 1,
        ("timed_out", PARTITION, RM): 0,
        ("void", PARTITION, RM): 1,
    }


def test_the_wait_is_that_for_the_answers_that_came() -> None:
    waited_ns = 20 * MILLISECOND_NS
    metrics = after(*(build.verdict_reached(outcome, waited_ns) for outcome in VerdictOutcome))
    assert samples(metrics, "schedulerd_verdict_wait_seconds_count") == {(): 2}
    assert samples(metrics, "schedulerd_verdict_wait_seconds_sum") == {(): 0.04}
