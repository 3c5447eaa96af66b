"""NodeUnschedulable, NodeName and TaintToleration."""

from __future__ import annotations

from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from tests.kubernetes.builders import JSON, node, pod
from tests.kubernetes.judging import code, refusal, view_of
from tests.loops import each_row

TAINTS, CORDON, NAME = "TaintToleration", "NodeUnschedulable", "NodeName"


def tolerates(toleration: JSON, taint: JSON) -> bool:
    view = view_of([node("n", taints=[taint])])
    return refusal(view, pod(tolerations=[toleration]), "n", TAINTS) is None


@each_row(
    ("toleration", "is_tolerated"),
    [
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "k"}, False),
        ({"key": "j", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Exists", "value": "ignored"}, True),
        ({"key": "k", "operator": "In", "value": "v"}, False),
    ],
)
def test_tolerations(toleration: JSON, is_tolerated: bool) -> None:
    assert tolerates(toleration, {"key": "k", "value": "v", "effect": "NoSchedule"}) == is_tolerated


@each_row(
    ("operator", "of_taint", "of_toleration", "is_tolerated"),
    [
        ("Lt", "5", "6", True),
        ("Lt", "6", "6", False),
        ("Gt", "7", "6", True),
        ("Gt", "-7", "-8", True),
        ("Gt", "6", "6", False),
        ("Gt", "007", "6", False),
        ("Gt", "+7", "6", False),
        ("Lt", "five", "6", False),
        ("Lt", "5", "", False),
        ("Gt", "9223372036854775808", "1", False),
        ("Gt", "9223372036854775807", "1", True),
        ("Lt", "-9223372036854775808", "1", True),
        ("Lt", "-9223372036854775809", "1", False),
    ],
)
def test_comparing_tolerations(operator: str, of_taint: str, of_toleration: str, is_tolerated: bool) -> None:
    toleration = {"key": "k", "operator": operator, "value": of_toleration}
    assert tolerates(toleration, {"key": "k", "value": of_taint, "effect": "NoExecute"}) == is_tolerated


def test_the_first_taint_that_refuses_is_named() -> None:
    taints = [
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": "ok", "effect": "NoSchedule"},
        {"key": "bad", "value": "1", "effect": "NoExecute"},
        {"key": "worse", "effect": "NoSchedule"},
    ]
    view = view_of([node("n", taints=taints)])
    found = refusal(view, pod(tolerations=[{"key": "ok", "operator": "Exists"}]), "n", TAINTS)
    assert found == Refusal(TAINTS, Kind.UNRESOLVABLE, Code.TAINT, ("bad", "1", "NoExecute"))


def test_a_cordoned_node_takes_pods_that_tolerate_it() -> None:
    view = view_of([node("n", unschedulable=True), node("m")])
    key = "node.kubernetes.io/unschedulable"
    assert refusal(view, pod(), "n", CORDON) == Refusal(CORDON, Kind.UNRESOLVABLE, Code.NODE_UNSCHEDULABLE)
    assert code(view, pod(), "m", CORDON) is None
    assert (
        code(view, pod(tolerations=[{"key": key, "operator": "Exists", "effect": "NoSchedule"}]), "n", CORDON) is None
    )
    assert code(view, pod(tolerations=[{"key": key, "operator": "Exists", "effect": "NoExecute"}]), "n", CORDON)


def test_a_pod_that_names_its_node() -> None:
    view = view_of([node("n"), node("m")])
    assert refusal(view, pod(nodeName="m"), "n", NAME) == Refusal(NAME, Kind.UNRESOLVABLE, Code.NODE_NAME)
    assert code(view, pod(nodeName="n"), "n", NAME) is None
    assert code(view, pod(), "n", NAME) is None
