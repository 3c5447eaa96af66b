"""PodTopologySpread, rule by rule; random histories are in `test_counters_property`."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from tests.kubernetes.builders import JSON, bound, expression, node, pod, selector, spread, terminating
from tests.kubernetes.judging import code, refusal, refused_nodes, view_of

NAME = "PodTopologySpread"
WEB = {"app": "web"}
TAINT = [{"key": "t", "effect": "NoSchedule"}]


def zones() -> list[Node]:
    return [node("a1", {"zone": "a"}), node("a2", {"zone": "a"}), node("b1", {"zone": "b"}), node("x", {})]


def there(*names: str, labels: JSON | None = None, namespace: str = "ns") -> list[Pod]:
    return [bound(f"{number}", name, namespace, labels or WEB) for number, name in enumerate(names)]


def asked(*constraints: JSON, labels: JSON | None = None, **spec: Any) -> Pod:
    mine = WEB if labels is None else labels
    return pod("q", "ns", mine, topologySpreadConstraints=list(constraints), **spec)


def zonal(skew: int = 1, **more: Any) -> JSON:
    return spread("zone", selector(app="web"), skew, **more)


def test_a_value_may_have_so_many_more_than_the_minimum() -> None:
    view = view_of(zones(), there("a1", "a2", "b1"))
    found = refusal(view, asked(zonal()), "a2", NAME)
    assert found == Refusal(NAME, Kind.UNSCHEDULABLE, Code.SPREAD_SKEW, ("zone", 3, 1, 1))
    assert code(view, asked(zonal()), "b1", NAME) is None
    assert code(view, asked(zonal(2)), "a1", NAME) is None


def test_a_node_without_the_label_is_refused() -> None:
    found = refusal(view_of(zones()), asked(zonal()), "x", NAME)
    assert found == Refusal(NAME, Kind.UNRESOLVABLE, Code.SPREAD_LABEL_MISSING, ("zone",))


def test_a_pod_that_does_not_match_itself_is_not_counted() -> None:
    view = view_of(zones(), there("a1"))
    assert code(view, asked(zonal()), "a1", NAME) is Code.SPREAD_SKEW
    assert code(view, asked(zonal(), labels={"app": "other"}), "a1", NAME) is None


def test_only_matching_pods_of_the_namespace_that_stay_are_counted() -> None:
    for others in (
        there("a1", labels={"app": "db"}),
        there("a1", namespace="other"),
        [terminating(one) for one in there("a1")],
    ):
        assert code(view_of(zones(), others), asked(zonal()), "a1", NAME) is None


def test_preferences_refuse_nothing() -> None:
    view = view_of(zones(), there("a1", "a1"))
    assert refused_nodes(view, asked(zonal(whenUnsatisfiable="ScheduleAnyway")), NAME) == set()


@pytest.mark.parametrize(("chosen", "is_refused"), [(None, False), ({}, True), (selector(app="db"), False)])
def test_no_selector_matches_nothing_and_an_empty_one_everything(chosen: JSON | None, is_refused: bool) -> None:
    view = view_of(zones(), there("a1"))
    assert bool(refused_nodes(view, asked(spread("zone", chosen)), NAME) - {"x"}) == is_refused


def test_all_constraints_are_to_be_met() -> None:
    nodes = [
        node("a1", {"zone": "a", "host": "a1"}),
        node("a2", {"zone": "a", "host": "a2"}),
        node("b", {"zone": "b", "host": "b"}),
    ]
    view = view_of(nodes, there("a1"))
    both = asked(zonal(), spread("host", selector(app="web"), 1))
    assert refused_nodes(view, both, NAME) == {"a1", "a2"}
    assert refused_nodes(view, asked(spread("host", selector(app="web"), 1)), NAME) == {"a1"}


def test_nodes_count_only_with_all_topology_keys() -> None:
    nodes = [node("a", {"zone": "a", "rack": "r"}), node("b", {"zone": "b"})]
    view = view_of(nodes, there("a"))
    assert code(view, asked(zonal()), "a", NAME) is Code.SPREAD_SKEW
    assert code(view, asked(zonal(), spread("rack", selector(app="db"))), "a", NAME) is None


def test_too_few_domains_make_the_minimum_zero() -> None:
    view = view_of(zones(), there("a1", "b1"))
    assert refused_nodes(view, asked(zonal(minDomains=2)), NAME) == {"x"}
    assert refused_nodes(view, asked(zonal(minDomains=3)), NAME) == {"a1", "a2", "b1", "x"}
    view.cache.put_node(node("c", {"zone": "c"}))
    assert refused_nodes(view, asked(zonal(minDomains=3)), NAME) == {"a1", "a2", "b1", "x"}
    view.cache.put_pod(bound("c", "c", "ns", WEB))
    assert refused_nodes(view, asked(zonal(minDomains=3)), NAME) == {"x"}


def test_nodes_that_the_pod_cannot_use_do_not_count_unless_it_says_so() -> None:
    nodes = [node("a", {"zone": "a", "kind": "x"}), node("b", {"zone": "b"})]
    view = view_of(nodes, there("a"))
    spec = {"nodeSelector": {"kind": "x"}}
    assert code(view, asked(zonal(), **spec), "a", NAME) is None
    assert code(view, asked(zonal(nodeAffinityPolicy="Honor"), **spec), "a", NAME) is None
    assert code(view, asked(zonal(nodeAffinityPolicy="Ignore"), **spec), "a", NAME) is Code.SPREAD_SKEW


def test_pods_on_nodes_that_do_not_count_are_not_counted() -> None:
    nodes = [node("a1", {"zone": "a", "kind": "x"}), node("a2", {"zone": "a"}), node("b", {"zone": "b", "kind": "x"})]
    view = view_of(nodes, there("a2", "a2"))
    assert code(view, asked(zonal(), nodeSelector={"kind": "x"}), "a1", NAME) is None
    assert code(view, asked(zonal()), "a1", NAME) is Code.SPREAD_SKEW


def test_tainted_nodes_count_unless_taints_are_honoured() -> None:
    nodes = [node("a", {"zone": "a"}), node("b", {"zone": "b"}, taints=TAINT)]
    view = view_of(nodes, there("a"))
    tolerant: JSON = {"tolerations": [{"key": "t", "operator": "Exists"}]}
    assert code(view, asked(zonal()), "a", NAME) is Code.SPREAD_SKEW
    assert code(view, asked(zonal(nodeTaintsPolicy="Ignore")), "a", NAME) is Code.SPREAD_SKEW
    assert code(view, asked(zonal(nodeTaintsPolicy="Honor")), "a", NAME) is None
    assert code(view, asked(zonal(nodeTaintsPolicy="Honor"), **tolerant), "a", NAME) is Code.SPREAD_SKEW
    view.cache.put_node(node("b", {"zone": "b"}))
    assert code(view, asked(zonal(nodeTaintsPolicy="Honor")), "a", NAME) is Code.SPREAD_SKEW


def test_match_label_keys_select_by_the_own_value() -> None:
    one = zonal(matchLabelKeys=["version", "absent"])
    view = view_of(zones(), there("a1", labels={**WEB, "version": "1"}))
    assert code(view, asked(one, labels={**WEB, "version": "1"}), "a1", NAME) is Code.SPREAD_SKEW
    assert code(view, asked(one, labels={**WEB, "version": "2"}), "a1", NAME) is None
    assert code(view, asked(one), "a1", NAME) is Code.SPREAD_SKEW


def test_a_constraint_for_which_no_node_counts_refuses_nothing() -> None:
    view = view_of(zones(), there("a1", "a1", "a2"))
    assert refused_nodes(view, asked(zonal(), nodeSelector={"kind": "none"}), NAME) == {"x"}


def test_victims_lower_the_count_and_the_minimum() -> None:
    view = view_of(zones(), there("a1", "a2", "b1"))
    question = asked(zonal())
    view.cache.put_pod(question)
    assert code(view, question, "a1", NAME, gone=["0"]) is None
    assert code(view, question, "a1", NAME, gone=["2"]) is Code.SPREAD_SKEW
    assert code(view, question, "b1", NAME, gone=["2"]) is None
    assert refusal(view, question, "a1", NAME, gone=["0", "2"]) == Refusal(
        NAME, Kind.UNSCHEDULABLE, Code.SPREAD_SKEW, ("zone", 2, 0, 1)
    )


def test_a_selector_that_cannot_be_read_refuses_everything_and_says_so() -> None:
    one = spread("zone", {"matchExpressions": [expression("app", "Like", "w*")]})
    found = view_of(zones()).judge(asked(one), "a1")
    assert [one.code for one in found] == [Code.MALFORMED]
    assert found[0].data[0] == "spec.topologySpreadConstraints"
