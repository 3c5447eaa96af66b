"""Victims of preemption: that they count as gone, and that disruption budgets are kept, also by several in a row."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.objects.cluster import PodDisruptionBudget
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.predicates.disruption_budgets import Exceeded
from tests.kubernetes.builders import (
    JSON,
    anti_affinity,
    bound,
    containers,
    node,
    pod,
    ports,
    selector,
    spread,
    term,
    terminating,
)
from tests.kubernetes.judging import view_of
from tests.kubernetes.storage_builders import claim, csi_node, put, uses, volume
from tests.loops import each_row

PORT = ports({"hostPort": 80})


def budget(name: str, chosen: Any, allowed: int, namespace: str = "ns", **disrupted: str) -> PodDisruptionBudget:
    status = {"disruptionsAllowed": allowed, "disruptedPods": disrupted}
    return convert(
        PodDisruptionBudget,
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": chosen}, "status": status},
    )


def test_budgets_that_victims_exceed() -> None:
    view = view_of([node("n")], [bound(f"v{number}", "n", labels={"app": "web"}) for number in range(3)])
    view.cache.budgets.put(budget("web", selector(app="web"), 1, v2="2026-01-01T00:00:00Z"))
    view.cache.budgets.put(budget("all", {}, 2))
    view.cache.budgets.put(budget("none", None, 0))
    view.cache.budgets.put(budget("odd", {"matchExpressions": [{"key": "app", "operator": "Like"}]}, 0))
    view.cache.budgets.put(budget("web", selector(app="web"), 0, "other"))
    assert view.exceeded_budgets(["v0"]) == ()
    assert view.exceeded_budgets(["v0", "v2", "unknown"]) == ()
    assert view.exceeded_budgets(["v0", "v1"]) == (Exceeded("ns", "web", 2, 1),)
    assert view.exceeded_budgets(["v0", "v1", "v2"]) == (Exceeded("ns", "all", 3, 2), Exceeded("ns", "web", 2, 1))
    view.cache.budgets.put(budget("web", selector(app="web"), 2))
    view.cache.budgets.remove("ns", "all")
    view.cache.budgets.remove("ns", "all")
    assert view.exceeded_budgets(["v0", "v1"]) == ()


def test_victims_that_a_status_does_not_know_of_yet_count() -> None:
    view = view_of([node("n")], [bound(f"v{number}", "n", labels={"app": "web"}) for number in range(4)])
    view.cache.budgets.put(budget("web", selector(app="web"), 2))
    view.expect_disruptions(["v0", "unknown"], now_ns=0)
    assert view.exceeded_budgets(["v0", "v1"], SECOND_NS) == ()
    assert view.exceeded_budgets(["v1", "v2"], SECOND_NS) == (Exceeded("ns", "web", 3, 2),)
    view.cache.budgets.put(budget("web", selector(app="web"), 2))
    assert view.exceeded_budgets(["v1", "v2"], SECOND_NS), "the status is from before its deletion"
    view.cache.put_pod(terminating(bound("v0", "n", labels={"app": "web"})))
    assert view.exceeded_budgets(["v1", "v2"], SECOND_NS)
    view.cache.budgets.put(budget("web", selector(app="web"), 1))
    assert view.exceeded_budgets(["v1"], SECOND_NS) == (), "now it counts the deletion itself"
    assert view.exceeded_budgets(["v1", "v2"], SECOND_NS) == (Exceeded("ns", "web", 2, 1),)


def test_a_victim_that_does_not_end_counts_for_a_while_only() -> None:
    view = view_of([node("n")], [bound(f"v{number}", "n", labels={"app": "web"}) for number in range(2)])
    view.cache.budgets.put(budget("web", selector(app="web"), 1))
    view.expect_disruptions(["v0"], now_ns=0)
    assert view.exceeded_budgets(["v1"], 9 * SECOND_NS)
    assert view.exceeded_budgets(["v1"], 10 * SECOND_NS) == ()
    view.expect_disruptions(["v0"], 11 * SECOND_NS)
    view.cache.remove_pod("v0")
    view.cache.budgets.put(budget("web", selector(app="web"), 1))
    assert view.exceeded_budgets(["v1"], 12 * SECOND_NS) == ()


def test_other_budgets_do_not_mind() -> None:
    pods = [bound("v0", "n", labels={"app": "a"}), bound("v1", "n", labels={"app": "b"})]
    view = view_of([node("n")], pods)
    view.cache.budgets.put(budget("a", selector(app="a"), 0))
    view.cache.budgets.put(budget("b", selector(app="b"), 1))
    view.expect_disruptions(["v0"], now_ns=0)
    assert view.exceeded_budgets(["v1"], 0) == ()


@each_row("plugin", ["ports", "room", "disk", "claim", "limit", "spread", "apart", "against"])
def test_victims_count_as_gone_for_every_plugin(plugin: str) -> None:
    web, here = {"app": "web"}, term("zone", selector(app="web"))
    cases: dict[str, tuple[JSON, dict[str, str]]] = {
        "ports": ({"containers": PORT}, {}),
        "room": ({"containers": containers({"cpu": "6"})}, {}),
        "disk": ({"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "d"}}]}, {}),
        "claim": ({"volumes": uses("one")}, {}),
        "limit": ({"volumes": uses("limited")}, {}),
        "spread": ({"topologySpreadConstraints": [spread("zone", selector(app="web"))]}, web),
        "apart": ({"affinity": anti_affinity(here)}, web),
        "against": ({"affinity": anti_affinity(here)}, web),
    }
    spec, labels = cases[plugin]
    view = view_of([node("n", {"zone": "a"}), node("m", {"zone": "b"})])
    put(
        view.cache.storage,
        claim("one", "v1", accessModes=["ReadWriteOncePod"]),
        claim("limited", "v2"),
        claim("other", "v3"),
        volume("v1"),
        volume("v2", csi={"driver": "d", "volumeHandle": "h2"}),
        volume("v3", csi={"driver": "d", "volumeHandle": "h3"}),
        csi_node("n", d=1),
    )
    there = {**spec, "volumes": uses("other")} if plugin == "limit" else spec
    view.cache.put_pod(bound("victim", "n", labels=labels, **there))
    view.cache.put_pod(bound("bystander", "n", labels={"app": "none"}))
    asked = pod("q", labels=labels, **({} if plugin == "against" else spec))
    view.cache.put_pod(asked)
    assert view.judge(asked, "n"), "the victim is in the way"
    assert view.sufficient_victims(asked, "n", ["bystander", "victim"]) == 1
    assert view.sufficient_victims(asked, "n", ["victim"]) == 0
    assert view.sufficient_victims(asked, "n", ["bystander"]) is None
    assert view.judge(asked, "n"), "that was a question only"
