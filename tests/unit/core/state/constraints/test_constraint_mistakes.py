"""Placement constraints that make no sense: the ask is rejected, and the reason names the field."""

from __future__ import annotations

from schedulerd.core.language.commands import NewAsk, PlacementConstraint
from schedulerd.core.language.facts.fact import Allocated, AskRejected, RejectCode
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, an_ask, an_existing, of, only
from tests.unit.core.constraint_builders import IS_WEB, has, none_of, on, one_of, together

AFFINITY = "placementConstraint.allocationAffinityAttribute"
NODE = "placementConstraint.nodeAffinityConstraint"


@each_row(
    ("constraint", "reason"),
    [
        (together("", IS_WEB), f"{AFFINITY}.scope is empty; it must be the node attribute that makes nodes a group"),
        (together("zone", IS_WEB, least=-1), f"{AFFINITY}.minCardinality is -1; it must be 0 or more"),
        (together("zone", IS_WEB, most=-2), f"{AFFINITY}.maxCardinality is -2; it must be 0 or more"),
        (
            together("zone", IS_WEB, least=3, most=2),
            f"{AFFINITY}.minCardinality is 3; it must not be above maxCardinality, which is 2",
        ),
        (together("zone", IS_WEB, has("")), f"{AFFINITY}.tragetExpressions[1].targetKey is empty"),
        (together("zone", one_of("app")), f"{AFFINITY}.tragetExpressions[0].targetValues is empty; IN needs"),
        (on(has("gpu"), none_of("zone")), f"{NODE}.targetExpressions[1].targetValues is empty; NOT_IN needs"),
        (on(one_of("", "a")), f"{NODE}.targetExpressions[0].targetKey is empty"),
    ],
)
def test_a_constraint_that_makes_no_sense_rejects_its_ask(constraint: PlacementConstraint, reason: str) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    facts = talk.asks(an_ask("bad", constraint=constraint), an_ask("good"))
    rejected = only(AskRejected, facts)
    assert (rejected.allocation_key, rejected.code) == ("bad", RejectCode.INVALID_FIELD)
    assert rejected.reason.startswith(reason)
    assert [fact.allocation_key for fact in of(Allocated, talk.schedule())] == ["good"]


def with_selector(text: str) -> NewAsk:
    return an_ask(tags={NODE_SELECTOR_TAG: text})


def test_a_selector_that_cannot_be_read_rejects_its_ask() -> None:
    talk = a_conversation()
    rejected = only(AskRejected, talk.asks(with_selector("zone in eu-1")))
    assert rejected.code is RejectCode.INVALID_FIELD
    assert rejected.reason.startswith(
        "tags[schedulerd.io/node-selector] is 'zone in eu-1': 'zone in eu-1' is no requirement; write key, !key, key="
    )


def test_what_runs_already_is_taken_over_with_a_selector_that_cannot_be_read() -> None:
    talk = a_conversation()
    facts = talk.nodes(a_node("n1", {"memory": 100}, an_existing(tags={NODE_SELECTOR_TAG: "zone in eu-1"})))
    assert only(Allocated, facts).recovered


def test_bounds_that_are_equal_and_an_unbounded_maximum_make_sense() -> None:
    talk = a_conversation()
    facts = talk.asks(
        an_ask("a", constraint=together("zone", IS_WEB, least=2, most=2)),
        an_ask("b", constraint=together("zone", IS_WEB, least=2)),
        an_ask("c", constraint=together("zone")),
    )
    assert of(AskRejected, facts) == []
