"""Pods that nodes have refused because of other pods: what can lift that, and that they are asked for again then."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.objects.node import Node
from tests.kubernetes.builders import JSON, bound, containers, node, terminating
from tests.kubernetes.cluster.play import Play, of, own

WEB = {"app": "web"}
SELECTOR = {"matchLabels": WEB}
APART: JSON = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": SELECTOR}]
    }
}
SPREAD = [
    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR},
]


def refused(*things: object, **spec: Any) -> Play:
    """The node n has refused the pod p because of the others."""
    play = Play()
    play.start(*things)
    play.put(own("p", meta={"labels": {"queue": "root.q", **WEB}}, **spec))
    assert play.cluster.predicates("p", "n", allocate=True) is not None
    assert asked(play.wait(100)) == []
    return play


def asked(effects: list[e.Effect]) -> list[str]:
    return [ask.key for ask in of(effects, e.Ask)]


def zone(name: str, zone: str, **more: str) -> Node:
    return node(name, {"zone": zone}, None, False, **more)


def test_a_pod_that_counts_is_being_deleted() -> None:
    other = bound("a", "n", labels=WEB)
    play = refused(zone("n", "a"), zone("m", "b"), other, topologySpreadConstraints=SPREAD)
    play.put(terminating(other))
    assert asked(play.wait(1)) == ["p"]
    assert play.cluster.predicates("p", "n", allocate=True) is None
    play.put(terminating(other))
    assert asked(play.wait(100)) == [], "nothing refuses it"


def test_a_pod_has_other_labels() -> None:
    play = refused(zone("n", "a"), bound("a", "n", labels=WEB), affinity=APART)
    play.put(bound("a", "n", labels=WEB, containers=containers({"cpu": "1"})))
    play.put(bound("a", "n", labels={"app": "db"}))
    assert asked(play.wait(1)) == ["p"]


def test_another_node_has_other_labels() -> None:
    play = refused(zone("n", "a"), zone("m", "a"), bound("a", "m", labels=WEB), affinity=APART)
    play.put(zone("m", "a", cpu="7"))
    assert asked(play.wait(1)) == [], "nothing that matters for pods elsewhere"
    play.put(zone("m", "b"))
    assert asked(play.wait(1)) == ["p"]


def test_another_node_is_gone() -> None:
    play = refused(zone("n", "a"), zone("m", "b"), bound("a", "n", labels=WEB), topologySpreadConstraints=SPREAD)
    play.gone(zone("m", "b"))
    assert asked(play.wait(1)) == ["p"]
    assert play.cluster.predicates("p", "n", allocate=True) is None


def test_a_pod_that_comes_or_waits_lifts_nothing() -> None:
    play = refused(zone("n", "a"), bound("a", "n", labels=WEB), affinity=APART)
    play.put(bound("b", "n"), own("q"))
    play.put(own("q", meta={"labels": {"queue": "root.r"}}))
    assert "p" not in asked(play.wait(100))
