"""NodeAffinity: `nodeSelector` and the terms of required node affinity."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from tests.kubernetes.builders import JSON, expression, node, node_affinity, pod
from tests.kubernetes.judging import code, refusal, view_of
from tests.loops import each_row

NAME = "NodeAffinity"
VIEW = view_of([node("n", {"zone": "a", "size": "5", "empty": "", "text": "x"})])


def admits(*terms: JSON, **spec: Any) -> bool:
    return code(VIEW, pod(affinity=node_affinity(*terms), **spec), "n", NAME) is None


def labels(*expressions: JSON) -> JSON:
    return {"matchExpressions": list(expressions)}


def fields(*expressions: JSON) -> JSON:
    return {"matchFields": list(expressions)}


NAMED = expression("metadata.name", "In", "n")
OTHER = expression("metadata.name", "In", "m")


@each_row(
    ("one", "holds"),
    [
        (expression("zone", "In", "b", "a"), True),
        (expression("zone", "In", "b"), False),
        (expression("missing", "In", "a"), False),
        (expression("empty", "In", ""), True),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("missing", "NotIn", "a"), True),
        (expression("zone", "Exists"), True),
        (expression("missing", "Exists"), False),
        (expression("zone", "DoesNotExist"), False),
        (expression("missing", "DoesNotExist"), True),
        (expression("size", "Gt", "4"), True),
        (expression("size", "Gt", "5"), False),
        (expression("size", "Lt", "6"), True),
        (expression("size", "Lt", "5"), False),
        (expression("text", "Gt", "1"), False),
        (expression("text", "Lt", "1"), False),
        (expression("missing", "Lt", "1"), False),
    ],
)
def test_operators(one: JSON, holds: bool) -> None:
    assert admits(labels(one)) == holds


@each_row(
    "one",
    [
        expression("zone", "In"),
        expression("zone", "NotIn"),
        expression("missing", "DoesNotExist", "x"),
        expression("zone", "Exists", "x"),
        expression("size", "Gt", "1", "2"),
        expression("size", "Gt", "one"),
        expression("size", "Gt"),
        expression("size", "Gt", "-1"),
        expression("zone", "in", "a"),
        expression("", "Exists"),
        expression("a b", "DoesNotExist"),
        expression("zone", "NotIn", "no value!"),
    ],
)
def test_a_term_that_cannot_be_read_matches_nothing_and_others_still_may(one: JSON) -> None:
    assert not admits(labels(one))
    assert admits(labels(one), labels(expression("zone", "Exists")))


def test_terms_are_alternatives_and_their_parts_are_not() -> None:
    good, bad = expression("zone", "Exists"), expression("missing", "Exists")
    assert admits(labels(bad), labels(good))
    assert not admits(labels(good, bad))
    assert not admits({**labels(good), **fields(OTHER)})
    assert admits({**labels(good), **fields(NAMED)})


def test_empty_terms_match_nothing() -> None:
    assert not admits()
    assert not admits({})
    assert not admits({"matchExpressions": None, "matchFields": []})
    assert admits({}, labels(expression("zone", "Exists")))


def test_the_node_selector_counts_as_well() -> None:
    assert admits(labels(expression("zone", "Exists")), nodeSelector={"zone": "a"})
    assert not admits(labels(expression("zone", "Exists")), nodeSelector={"zone": "b"})
    assert code(VIEW, pod(nodeSelector={"zone": "a", "missing": ""}), "n", NAME) is Code.NODE_AFFINITY
    assert code(VIEW, pod(nodeSelector={"empty": ""}), "n", NAME) is None
    assert code(VIEW, pod(), "n", NAME) is None


def test_fields() -> None:
    assert admits(fields(NAMED))
    assert not admits(fields(expression("metadata.name", "NotIn", "n")))
    assert admits(fields(expression("metadata.name", "NotIn", "m")))
    assert not admits(fields(expression("metadata.name", "In", "n", "m")))
    assert not admits(fields(expression("metadata.name", "Exists")))
    assert not admits(fields(expression("metadata.uid", "In", "n")))


def test_refusals_tell_contradictions_apart() -> None:
    wanted = pod(affinity=node_affinity(fields(OTHER)))
    assert refusal(VIEW, wanted, "n", NAME) == Refusal(NAME, Kind.UNRESOLVABLE, Code.NODE_AFFINITY)
    both = pod(affinity=node_affinity(fields(NAMED, OTHER)))
    assert refusal(VIEW, both, "n", NAME) == Refusal(NAME, Kind.UNRESOLVABLE, Code.NODE_AFFINITY_CONFLICT)
    neither = expression("metadata.name", "NotIn", "n"), expression("metadata.name", "NotIn", "m")
    assert code(VIEW, pod(affinity=node_affinity(fields(*neither))), "n", NAME) is Code.NODE_AFFINITY
    either = pod(affinity=node_affinity(fields(NAMED, OTHER), labels(expression("missing", "Exists"))))
    assert code(VIEW, either, "n", NAME) is Code.NODE_AFFINITY
