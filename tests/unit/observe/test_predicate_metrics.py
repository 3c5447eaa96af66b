"""What resource managers say about asks and nodes, in numbers."""

from __future__ import annotations

from schedulerd.core.language.facts.predicates import PredicateNotWanted, PredicateOutcome
from schedulerd.core.language.specs import MILLISECOND_NS
from tests.unit.observe import build
from tests.unit.observe.build import PARTITION, RM
from tests.unit.observe.scrape import after, samples


def test_every_call_counts_once_by_what_came_of_it_and_the_others_start_at_0() -> None:
    metrics = after(
        build.predicate_wanted(),
        build.result_reached(PredicateOutcome.REFUSED),
        build.result_reached(PredicateOutcome.VOID),
        PredicateNotWanted(RM, 1),
        build.predicate_wanted(),
    )
    assert samples(metrics, "schedulerd_predicate_checks_total") == {
        ("agreed", PARTITION, RM): 0,
        ("refused", PARTITION, RM): 1,
        ("timed_out", PARTITION, RM): 0,
        ("void", PARTITION, RM): 1,
    }


def test_the_wait_is_that_for_the_answers_that_came() -> None:
    waited_ns = 20 * MILLISECOND_NS
    metrics = after(*(build.result_reached(outcome, waited_ns) for outcome in PredicateOutcome))
    assert samples(metrics, "schedulerd_predicate_wait_seconds_count") == {(): 2}
    assert samples(metrics, "schedulerd_predicate_wait_seconds_sum") == {(): 0.04}
