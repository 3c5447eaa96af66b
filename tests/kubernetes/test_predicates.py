"""Predicates with their cache: assumed pods, orphans, victims, and that an answer does not cost the pods there are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec import to_builtins

from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import cluster_cache, predicates
from schedulerd.kubernetes.predicates.plugins import ALL, DELEGATED, RESERVE
from schedulerd.kubernetes.predicates.pod_info import PodInfo, read_info
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code
from tests.kubernetes.builders import (
    affinity,
    anti_affinity,
    bound,
    containers,
    node,
    placed,
    pod,
    ports,
    selector,
    spread,
    term,
    terminating,
)
from tests.kubernetes.judging import view_of
from tests.kubernetes.storage_builders import claim, put, uses

PORT = ports({"hostPort": 80})


def codes(view: Predicates, asked: Pod, node_name: str = "n", **more: Any) -> list[Code]:
    return [one.code for one in view.judge(asked, node_name, **more)]


def test_two_pods_with_one_host_port_in_one_batch() -> None:
    view = view_of([node("n")])
    first, second = pod("a", containers=PORT), pod("b", containers=PORT)
    for one in (first, second):
        view.cache.put_pod(one)
        assert codes(view, one) == []
    view.cache.assume(first, "n")
    assert codes(view, second) == [Code.HOST_PORT]
    assert codes(view, first) == []
    view.cache.forget_assumed("a")
    assert codes(view, second) == []


def test_an_event_that_names_the_node_takes_the_place_of_the_assumption() -> None:
    view = view_of([node("n"), node("m")])
    asked, waiting = pod("q", containers=PORT), pod("p", containers=PORT)
    view.cache.put_pod(waiting)
    view.cache.assume(waiting, "n")
    view.cache.put_pod(pod("p", labels={"new": "label"}, containers=PORT))
    assert codes(view, asked, "n") == [Code.HOST_PORT]
    view.cache.put_pod(placed(waiting, "m"))
    assert codes(view, asked, "n") == []
    assert codes(view, asked, "m") == [Code.HOST_PORT]


def test_a_pod_ends_when_it_is_terminal_or_deleted() -> None:
    view = view_of([node("n")])
    asked, there = pod("q", containers=PORT), bound("p", "n", containers=PORT)
    view.cache.put_pod(there)
    view.cache.put_pod(terminating(there))
    assert codes(view, asked) == [Code.HOST_PORT]
    view.cache.put_pod(
        convert(Pod, {"metadata": {"uid": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}})
    )
    assert codes(view, asked) == []
    view.cache.remove_pod("p")
    view.cache.forget_assumed("p")


def test_pods_wait_for_their_node() -> None:
    view = view_of([], [bound("p", "n", containers=PORT)])
    asked = pod("q", containers=PORT)
    assert codes(view, asked) == [Code.NODE_UNKNOWN]
    view.cache.put_node(node("n"))
    assert codes(view, asked) == [Code.HOST_PORT]
    view.cache.remove_node("n")
    assert view.cache.node_names == []
    assert codes(view, asked) == [Code.NODE_UNKNOWN]
    view.cache.remove_pod("p")
    assert not view.cache.state.nodes
    view.cache.remove_node("n")


def test_a_resize_changes_what_is_used() -> None:
    view = view_of([node("n", cpu="2")], [bound("p", "n", containers=containers({"cpu": "1"}))])
    asked = pod("q", containers=containers({"cpu": "1"}))
    assert codes(view, asked) == []
    status = {"containerStatuses": [{"name": "c0", "allocatedResources": {"cpu": "2"}}]}
    resized = convert(Pod, {"metadata": {"uid": "p"}, "status": status})
    there = bound("p", "n", containers=containers({"cpu": "1"}))
    view.cache.put_pod(Pod(there.metadata, there.spec, resized.status))
    assert codes(view, asked) == [Code.INSUFFICIENT]


def test_all_refusals_or_the_first_plugins_only() -> None:
    view = view_of([node("n", cpu="1", pods="0", taints=[{"key": "t", "effect": "NoSchedule"}]), node("m")])
    asked = pod("q", nodeSelector={"a": "b"}, containers=containers({"cpu": "2"}))
    every = [Code.TAINT, Code.NODE_AFFINITY, Code.TOO_MANY_PODS, Code.INSUFFICIENT]
    assert codes(view, asked) == every
    assert codes(view, asked, first_only=True) == every[:1]
    assert codes(view, asked, plugins=DELEGATED) == every[:2]
    found = view.judge_all(asked)
    assert {name: [one.code for one in said] for name, said in found.items()} == {
        "n": [Code.TAINT],
        "m": [Code.NODE_AFFINITY],
    }
    assert view.judge_all(pod("r", tolerations=[{"operator": "Exists"}]), RESERVE) == {}


def test_what_cannot_be_read_refuses_the_pod_and_counts_for_nothing() -> None:
    odd = pod("q", containers=containers({"cpu": "a lot"}))
    view = view_of([node("n", cpu="1")])
    assert [(one.code, one.data) for one in view.judge(odd, "n")] == [
        (Code.MALFORMED, ("spec.containers.resources.requests", "'a lot' is no quantity, like 500m, 2 or 1.5Gi"))
    ]
    view.cache.put_pod(placed(odd, "n"))
    assert codes(view, pod("r", containers=containers({"cpu": "1"}))) == []
    view.cache.put_node(node("n", cpu="none"))
    assert codes(view, pod("r", containers=containers({"cpu": "1"}))) == [Code.INSUFFICIENT]


def test_the_fewest_victims() -> None:
    there = [bound(f"v{number}", "n", containers=containers({"cpu": "1"})) for number in range(4)]
    view = view_of([node("n", cpu="4"), node("m")], there)
    asked = pod("q", containers=containers({"cpu": "2"}))
    names = [f"v{number}" for number in range(4)]
    assert view.sufficient_victims(asked, "n", names) == 1
    assert view.sufficient_victims(asked, "n", names, start=1) == 1
    assert view.sufficient_victims(asked, "n", names, start=3) == 3
    assert view.sufficient_victims(asked, "n", names[:1]) is None
    assert view.sufficient_victims(asked, "n", []) is None
    assert view.sufficient_victims(asked, "n", names, plugins=DELEGATED) == 0
    assert view.sufficient_victims(asked, "gone", names) is None
    assert view.sufficient_victims(asked, "n", ["unknown", *names]) == 2


def test_a_victim_can_make_it_worse() -> None:
    web = {"app": "web"}
    there = [bound("friend", "n", labels=web), bound("port", "n", containers=PORT)]
    view = view_of([node("n", {"zone": "a"})], there)
    asked = pod("q", affinity=affinity(term("zone", selector(app="web"))), containers=PORT)
    assert view.sufficient_victims(asked, "n", ["port", "friend"]) == 0
    assert view.sufficient_victims(asked, "n", ["friend", "port"]) is None


def test_events_that_change_nothing_keep_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of([node("n")])
    first, later = pod("q", containers=PORT), pod("q", containers=PORT, meta={"resourceVersion": "2"})
    view.cache.put_pod(first)
    assert codes(view, first) == []

    def unread(*_: Any) -> None:
        pytest.fail("the pod was read again")

    for module, name in (
        (cluster_cache, "read_info"),
        (predicates, "read_info"),
        (predicates, "read_pending"),
    ):
        monkeypatch.setattr(module, name, unread)
    view.cache.put_pod(later)
    assert codes(view, later) == []


@pytest.mark.parametrize(
    "changed",
    [
        pod("q", "other"),
        pod("q", labels={"a": "b"}),
        pod("q", nodeSelector={"a": "b"}),
        pod("q", meta={"name": "r"}),
        terminating(pod("q")),
        convert(
            Pod,
            {**to_builtins(pod("q")), "status": {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}},
        ),
    ],
)
def test_events_that_change_anything_are_read(changed: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of([node("n")], [pod("q")])
    reads: list[Pod] = []

    def read(one: Pod) -> PodInfo:
        reads.append(one)
        return read_info(one)

    monkeypatch.setattr(cluster_cache, "read_info", read)
    view.cache.put_pod(changed)
    assert reads == [changed]


def test_a_node_that_an_event_names_is_not_forgotten() -> None:
    view = view_of([node("n"), node("m")], [bound("p", "n", containers=PORT)])
    asked = pod("q", containers=PORT)
    view.cache.forget_assumed("p")
    assert codes(view, asked) == [Code.HOST_PORT]
    view.cache.assume(bound("p", "n", containers=PORT), "m")
    assert codes(view, asked) == []
    view.cache.put_pod(bound("p", "n", containers=PORT))
    assert codes(view, asked) == [Code.HOST_PORT]


def executed_lines(call: Callable[[], object]) -> int:
    """How many lines of Python a call executes."""
    lines = 0

    def trace(frame: FrameType, kind: str, argument: object) -> Any:
        nonlocal lines
        lines += kind == "line"
        return trace

    before, had_collector = sys.gettrace(), gc.isenabled()
    gc.disable()  # what it calls back is not part of the call
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        if had_collector:
            gc.enable()
    return lines


def crowd(pods: int) -> Predicates:
    """A cluster of 20 nodes with so many pods of 10 applications, each with anti-affinity to a stranger."""
    view = view_of(
        [node(f"n{number}", {"host": f"n{number}", "zone": f"z{number % 3}"}, pods="100000") for number in range(20)]
    )
    for number in range(pods):
        away = anti_affinity(term("host", selector(app=f"stranger{number % 10}")))
        labels = {"app": f"app{number % 10}", "own": str(number)}
        view.cache.put_pod(
            bound(f"p{number}", f"n{number % 20}", labels=labels, affinity=away, volumes=uses(f"c{number % 10}"))
        )
    return view


QUESTIONS = {
    "plain": pod("q", labels={"app": "web"}),
    "ports": pod("q", containers=PORT),
    "spread": pod(
        "q",
        labels={"app": "app1"},
        topologySpreadConstraints=[spread("zone", selector(app="app1")), spread("host", {})],
    ),
    "affinity": pod(
        "q", affinity={**affinity(term("zone", selector(app="app1"))), **anti_affinity(term("host", selector(app="x")))}
    ),
    "kept away": pod("q", labels={"app": "stranger3"}),
    "claim": pod("q", volumes=uses("c1")),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_costs_terms_and_not_pods(name: str) -> None:
    asked = QUESTIONS[name]
    costs = []
    for pods in (40, 400):
        view = crowd(pods)
        put(view.cache.storage, claim("c1", "v", accessModes=["ReadWriteOncePod"]))
        view.cache.put_pod(asked)
        view.judge(asked, "n0", ALL)
        costs.append(executed_lines(lambda view=view: view.judge(asked, "n0", ALL)))  # type: ignore[misc]
    assert costs[0] == costs[1]
    assert costs[0] < 600


@pytest.mark.interpreted
def test_a_pod_event_costs_the_counters_that_count_it() -> None:
    costs = []
    for others in (10, 200):
        view = crowd(100)
        for number in range(others):
            waiting = pod(
                f"w{number}",
                labels={"app": f"w{number}"},
                topologySpreadConstraints=[spread("zone", selector(app=f"w{number}"))],
            )
            view.cache.put_pod(waiting)
            view.judge(waiting, "n0")
        fresh = bound("fresh", "n0", labels={"app": "w1", "unique": "label"})
        costs.append(executed_lines(lambda view=view, fresh=fresh: view.cache.put_pod(fresh)))  # type: ignore[misc]
    assert costs[0] == costs[1]
