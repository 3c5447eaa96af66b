"""InterPodAffinity, rule by rule; random histories are in `test_counters_property`."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from tests.kubernetes.builders import (
    JSON,
    affinity,
    anti_affinity,
    bound,
    expression,
    namespace,
    node,
    pod,
    selector,
    term,
    terminating,
)
from tests.kubernetes.judging import code, refusal, refused_nodes, view_of
from tests.loops import each_row

NAME = "InterPodAffinity"
WEB, DB = {"app": "web"}, {"app": "db"}


def zones() -> list[Node]:
    return [node("a1", {"zone": "a"}), node("a2", {"zone": "a"}), node("b1", {"zone": "b"}), node("x", {})]


def wants(*terms: JSON, labels: JSON | None = None, ns: str = "ns") -> Pod:
    return pod("q", ns, labels, affinity=affinity(*terms))


def avoids(*terms: JSON, labels: JSON | None = None) -> Pod:
    return pod("q", "ns", labels, affinity=anti_affinity(*terms))


def near(key: str = "zone", chosen: JSON | None = None, **more: Any) -> JSON:
    return term(key, selector(app="db") if chosen is None else chosen, **more)


def test_affinity_needs_a_matching_pod_in_the_value() -> None:
    view = view_of(zones(), [bound("db", "a1", labels=DB)])
    assert refused_nodes(view, wants(near()), NAME) == {"b1", "x"}
    assert refusal(view, wants(near()), "b1", NAME) == Refusal(NAME, Kind.UNRESOLVABLE, Code.POD_AFFINITY, ("zone",))


def test_one_pod_has_to_match_all_terms() -> None:
    tier = near(chosen=selector(tier="1"))
    apart = [bound("one", "a1", labels=DB), bound("two", "a1", labels={"tier": "1"})]
    assert code(view_of(zones(), apart), wants(near(), tier), "a1", NAME) is Code.POD_AFFINITY
    together = [bound("both", "a1", labels={**DB, "tier": "1"})]
    assert code(view_of(zones(), together), wants(near(), tier), "a1", NAME) is None


def test_each_term_has_its_own_topology() -> None:
    nodes = [
        node("1", {"zone": "a", "rack": "r"}),
        node("2", {"zone": "a", "rack": "s"}),
        node("3", {"zone": "b", "rack": "r"}),
    ]
    view = view_of(nodes, [bound("db", "1", labels=DB)])
    assert refused_nodes(view, wants(near(), near("rack")), NAME) == {"2", "3"}


def test_the_first_pod_of_a_group_may_start() -> None:
    own = near()
    view = view_of(zones())
    assert refused_nodes(view, wants(own, labels=DB), NAME) == {"x"}
    assert refused_nodes(view, wants(own, labels=WEB), NAME) == {"a1", "a2", "b1", "x"}
    view.cache.put_pod(bound("db", "x", labels=DB))
    assert refused_nodes(view, wants(own, labels=DB), NAME) == {"x"}
    view.cache.put_pod(bound("db2", "b1", labels=DB))
    assert refused_nodes(view, wants(own, labels=DB), NAME) == {"a1", "a2", "x"}
    assert refused_nodes(view, wants(near("missing"), labels=DB), NAME) == {"a1", "a2", "b1", "x"}


def test_anti_affinity_keeps_away() -> None:
    view = view_of(zones(), [bound("db", "a1", labels=DB), bound("lost", "x", labels=DB)])
    assert refused_nodes(view, avoids(near()), NAME) == {"a1", "a2"}
    assert refusal(view, avoids(near()), "a2", NAME) == Refusal(
        NAME, Kind.UNSCHEDULABLE, Code.POD_ANTI_AFFINITY, ("zone",)
    )


def test_anti_affinity_of_others_keeps_away_too() -> None:
    view = view_of(zones(), [bound("db", "a1", labels=DB, affinity=anti_affinity(near(chosen=selector(app="web"))))])
    assert refused_nodes(view, pod("q", labels=WEB), NAME) == {"a1", "a2"}
    assert refused_nodes(view, pod("q", "other", WEB), NAME) == set()
    assert refused_nodes(view, pod("q", labels=DB), NAME) == set()
    assert refusal(view, pod("q", labels=WEB), "a2", NAME) == Refusal(
        NAME, Kind.UNSCHEDULABLE, Code.EXISTING_ANTI_AFFINITY, ("zone",)
    )
    view.cache.remove_pod("db")
    assert refused_nodes(view, pod("q", labels=WEB), NAME) == set()


def test_affinity_is_told_before_anti_affinity_and_that_before_the_others() -> None:
    other = bound("db", "a1", labels=DB, affinity=anti_affinity(near(chosen=selector(app="web"))))
    view = view_of(zones(), [other])
    both = {**affinity(near(chosen=selector(app="none"))), **anti_affinity(near())}
    assert code(view, pod("q", labels=WEB, affinity=both), "a1", NAME) is Code.POD_AFFINITY
    assert code(view, avoids(near(), labels=WEB), "a1", NAME) is Code.POD_ANTI_AFFINITY


def test_pods_that_are_being_deleted_count_and_pending_ones_do_not() -> None:
    view = view_of(zones(), [terminating(bound("db", "a1", labels=DB)), pod("waiting", labels=DB)])
    assert refused_nodes(view, avoids(near()), NAME) == {"a1", "a2"}


def test_namespaces_of_a_term() -> None:
    nodes, there = zones(), [bound("db", "a1", "other", DB)]
    view = view_of(nodes, there)
    assert code(view, avoids(near()), "a1", NAME) is None
    assert code(view, avoids(near(namespaces=["other"])), "a1", NAME) is Code.POD_ANTI_AFFINITY
    assert code(view, avoids(near(namespaces=["third"])), "a1", NAME) is None
    assert code(view, avoids(near(namespaces=["other", "third"])), "a1", NAME) is Code.POD_ANTI_AFFINITY


def test_namespaces_by_selector() -> None:
    view = view_of(zones(), [bound("db", "a1", "other", DB)])
    everywhere, red = avoids(near(namespaceSelector={})), avoids(near(namespaceSelector=selector(team="red")))
    for question in (everywhere, red):
        view.cache.put_pod(question)
    assert code(view, everywhere, "a1", NAME) is Code.POD_ANTI_AFFINITY
    assert code(view, red, "a1", NAME) is None
    view.cache.put_namespace(namespace("other", team="red"))
    assert code(view, red, "a1", NAME) is Code.POD_ANTI_AFFINITY
    view.cache.put_namespace(namespace("other", team="blue"))
    assert code(view, red, "a1", NAME) is None
    both = avoids(near(namespaceSelector=selector(team="red"), namespaces=["other"]))
    assert code(view, both, "a1", NAME) is Code.POD_ANTI_AFFINITY
    empty = avoids(near(namespaceSelector=None, namespaces=[]))
    assert code(view, empty, "a1", NAME) is None


def test_namespaces_by_selector_in_terms_of_others() -> None:
    one = near(chosen=selector(app="web"), namespaceSelector=selector(team="red"))
    view = view_of(zones(), [bound("db", "a1", "other", DB, affinity=anti_affinity(one))])
    question = pod("q", labels=WEB)
    view.cache.put_pod(question)
    assert code(view, question, "a1", NAME) is None
    view.cache.put_namespace(namespace("ns", team="red"))
    assert code(view, question, "a1", NAME) is Code.EXISTING_ANTI_AFFINITY
    view.cache.remove_namespace("ns")
    assert code(view, question, "a1", NAME) is None


def test_no_selector_matches_no_pod() -> None:
    view = view_of(zones(), [bound("db", "a1", labels=DB)])
    assert refused_nodes(view, avoids(term("zone", None)), NAME) == set()
    assert refused_nodes(view, avoids(term("zone", {})), NAME) == {"a1", "a2"}
    assert refused_nodes(view, wants(term("zone", None), labels=DB), NAME) == {"a1", "a2", "b1", "x"}


def test_victims_are_counted_as_gone() -> None:
    foreign = bound("db", "a1", labels=DB, affinity=anti_affinity(near(chosen=selector(app="web"))))
    view = view_of(zones(), [foreign, bound("db2", "a2", labels=DB)])
    assert code(view, pod("q", labels=WEB), "a1", NAME, gone=["db"]) is None
    assert code(view, avoids(near()), "a1", NAME, gone=["db"]) is Code.POD_ANTI_AFFINITY
    assert code(view, avoids(near()), "a1", NAME, gone=["db", "db2"]) is None
    assert code(view, wants(near()), "a1", NAME, gone=["db"]) is None
    assert code(view, wants(near()), "a1", NAME, gone=["db", "db2"]) is Code.POD_AFFINITY
    assert code(view, wants(near(), labels=DB), "b1", NAME, gone=["db", "db2"]) is None


def test_labels_of_nodes_may_change() -> None:
    view = view_of(zones(), [bound("db", "a1", labels=DB)])
    question = avoids(near())
    view.cache.put_pod(question)
    assert refused_nodes(view, question, NAME) == {"a1", "a2"}
    view.cache.put_node(node("a1", {"zone": "b"}))
    assert refused_nodes(view, question, NAME) == {"a1", "b1"}
    view.cache.put_node(node("a1", {}))
    assert refused_nodes(view, question, NAME) == set()
    view.cache.remove_node("a1")
    view.cache.put_node(node("a1", {"zone": "a"}))
    assert refused_nodes(view, question, NAME) == {"a1", "a2"}


@each_row("unreadable", [expression("app", "In"), expression("app", "Gt", "1")])
def test_a_term_that_cannot_be_read_refuses_its_own_pod_only(unreadable: JSON) -> None:
    bad = near(chosen={"matchExpressions": [unreadable]})
    view = view_of(zones(), [bound("db", "a1", labels=DB, affinity=anti_affinity(bad))])
    assert refused_nodes(view, pod("q", labels=WEB), NAME) == set()
    for question in (avoids(bad), wants(bad)):
        assert [(one.code, one.data[0]) for one in view.judge(question, "b1")] == [(Code.MALFORMED, "spec.affinity")]
