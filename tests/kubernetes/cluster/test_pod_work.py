"""What a pod says is read and judged in time that grows linearly with it: counted for each field, and not timed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.metadata import gangs
from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import demands
from tests.kubernetes import builders as b
from tests.kubernetes.builders import app
from tests.kubernetes.cluster.gang_play import made
from tests.kubernetes.cluster.play import Play, of, own
from tests.loops import each_row
from tests.unit.core.test_work import calls_during

pytestmark = pytest.mark.interpreted


class Counted(str):
    """Counts how often a text of a pod is looked at, also by tuples, dicts and sorts."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return str.__eq__(self, other)


def counted(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {Counted(key) if key not in _FIELDS else key: counted(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [counted(one) for one in thing]
    return Counted(thing) if isinstance(thing, str) else thing


_FIELDS = {
    *("metadata", "spec", "name", "namespace", "uid", "labels", "key", "operator", "values", "topologyKey"),
    *("labelSelector", "matchLabels", "matchExpressions", "namespaceSelector", "namespaces", "maxSkew"),
    *("whenUnsatisfiable", "podAffinity", "podAntiAffinity", "nodeAffinity", "nodeSelectorTerms", "matchFields"),
    *("requiredDuringSchedulingIgnoredDuringExecution", "tolerations", "affinity", "topologySpreadConstraints"),
    *("containers", "ports", "hostPort", "hostIP", "protocol", "containerPort", "volumes", "persistentVolumeClaim"),
    *("claimName", "nodeSelector", "schedulerName", "creationTimestamp", "resources", "requests", "effect", "value"),
    *("matchLabelKeys", "nodeAffinityPolicy", "nodeTaintsPolicy", "annotations", "gcePersistentDisk", "pdName"),
    *("readOnly", "ephemeral"),
}


def like(number: int) -> dict[str, Any]:
    return b.selector(**{f"k{number}": "v"})


def many(count: int, make: Callable[[int], Any]) -> list[Any]:
    return [make(number) for number in range(count)]


def labels(count: int) -> dict[str, str]:
    return {f"k{number}": "v" for number in range(count)}


HOST = "kubernetes.io/hostname"
FIELDS: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
    "pod affinity, terms of one topology key": (
        demands.TERMS_MAX,
        lambda n: {"affinity": b.affinity(*many(n, lambda i: b.term(HOST, like(i))))},
    ),
    "pod affinity, terms with topology keys of their own": (
        demands.TERMS_MAX,
        lambda n: {"affinity": b.affinity(*many(n, lambda i: b.term(f"t{i}", like(i))))},
    ),
    "pod anti-affinity, terms": (
        demands.TERMS_MAX,
        lambda n: {"affinity": b.anti_affinity(*many(n, lambda i: b.term(HOST, like(i))))},
    ),
    "pod anti-affinity, one term repeated": (
        demands.TERMS_MAX,
        lambda n: {"affinity": b.anti_affinity(*many(n, lambda i: b.term(f"t{i}", like(0))))},
    ),
    "pod affinity, expressions": (
        400,
        lambda n: {
            "affinity": b.affinity(
                b.term(HOST, {"matchExpressions": many(n, lambda i: b.expression(f"k{i}", "Exists"))})
            )
        },
    ),
    "pod anti-affinity, values": (
        400,
        lambda n: {
            "affinity": b.anti_affinity(
                b.term(HOST, {"matchExpressions": [b.expression("k0", "In", *many(n, lambda i: f"v{i}"))]})
            )
        },
    ),
    "pod affinity, namespaces": (
        400,
        lambda n: {"affinity": b.affinity(b.term(HOST, like(0), namespaces=many(n, lambda i: f"ns{i}")))},
    ),
    "node affinity, terms": (
        400,
        lambda n: {
            "affinity": b.node_affinity(*many(n, lambda i: {"matchExpressions": [b.expression(f"k{i}", "Exists")]}))
        },
    ),
    "node affinity, values": (
        400,
        lambda n: {
            "affinity": b.node_affinity({"matchExpressions": [b.expression("k", "NotIn", *many(n, lambda i: f"v{i}"))]})
        },
    ),
    "node selector": (400, lambda n: {"nodeSelector": labels(n)}),
    "tolerations": (
        400,
        lambda n: {"tolerations": many(n, lambda i: {"key": f"k{i}", "operator": "Exists", "effect": "NoSchedule"})},
    ),
    "spread constraints with topology keys of their own": (
        demands.CONSTRAINTS_MAX,
        lambda n: {
            "topologySpreadConstraints": many(n, lambda i: b.spread(f"t{i}", like(0), nodeTaintsPolicy="Honor"))
        },
    ),
    "spread constraints, keys of labels": (
        400,
        lambda n: {"topologySpreadConstraints": [b.spread("t0", like(0), matchLabelKeys=list(labels(n)))]},
    ),
    "host ports": (
        400,
        lambda n: {"containers": [{"name": "c", "ports": many(n, lambda i: {"hostPort": 1000 + i})}]},
    ),
    "addresses of one host port": (
        400,
        lambda n: {
            "containers": [{"name": "c", "ports": many(n, lambda i: {"hostPort": 80, "hostIP": f"10.0.0.{i}"})}]
        },
    ),
    "claims": (
        400,
        lambda n: {"volumes": many(n, lambda i: {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}})},
    ),
    "disks": (
        400,
        lambda n: {
            "volumes": many(n, lambda i: {"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}", "readOnly": True}})
        },
    ),
    "labels": (400, lambda n: {}),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_pod_costs_no_more_than_it_says(field: str) -> None:
    most, make = FIELDS[field]
    quarter, half, whole = (work_of(count, make) for count in (most // 4, most // 2, most))
    assert half - quarter > most // 8, "it is looked at"
    assert whole - half < 2.5 * (half - quarter), (quarter, half, whole)


def work_of(count: int, make: Callable[[int], dict[str, Any]]) -> int:
    """What is done for such a pod in its whole life, beside others of its template and in a cluster where all that it
    says is looked at."""
    play = Play()
    taints = [{"key": "red", "value": "x", "effect": "NoSchedule"}]
    topology = {f"t{number}": "z" for number in range(count)}
    nodes = [b.node(f"n{one}", {HOST: f"n{one}", **topology}, taints if one == 3 else None) for one in range(4)]
    others = [b.bound(f"o{one}", "n0", "other", {f"k{one}": "v"}) for one in range(20)]
    play.start(b.namespace("ns", team="red"), *nodes, *others)
    spec = counted(make(count))
    pods = [_pod(f"p{one}", count, spec) for one in range(3)]

    def live() -> None:
        play.put(pods[0])
        _ask_about(play, "p0")
        play.tell(v.Allocated(app("a"), "p0", "u", "n1"))
        play.tell(v.BindEnded("p0", "n1", v.BindResult.DONE))
        play.put(pods[1], pods[2])
        _ask_about(play, "p1")
        _ask_about(play, "p2")
        play.cluster.preemption_predicates("p1", "n1", ["p0"], 0)
        play.put(b.namespace("ns", team="blue"))
        play.put(b.node("n2", {HOST: "n2", "more": "x", **topology}))
        play.put(b.bound("o0", "n0", "other", {"other": "v"}))
        play.wait(15)
        play.gone(*pods)

    Counted.looks = 0
    calls = calls_during(live)
    return calls + Counted.looks


def _pod(name: str, count: int, spec: dict[str, Any]) -> Pod:
    return own(name, meta={"labels": counted({**labels(count), "applicationId": "a"})}, **spec)


def _ask_about(play: Play, key: str) -> None:
    for node in ("n0", "n1", "n2", "n3"):
        play.cluster.predicates(key, node, allocate=True)
        play.cluster.predicates(key, node, allocate=False)


def test_a_gang_costs_no_more_than_its_task_groups() -> None:
    quarter, half, whole = (_gang_work(count) for count in (100, 200, 400))
    assert half - quarter > 100
    assert whole - half < 2.1 * (half - quarter), (quarter, half, whole)


def _gang_work(count: int) -> int:
    groups = [{"name": f"g{number}", "minMember": 1, "minResource": {"cpu": "1"}} for number in range(count)]
    said = {
        "schedulerd.io/task-groups": json.dumps(groups),
        "schedulerd.io/task-group-name": "g0",
        "schedulerd.io/placeholders": "always",
    }
    play = Play()
    play.start(b.node("n0"))
    pods = [own(f"p{one}", meta={"labels": {"applicationId": "a"}, "annotations": said}) for one in range(2)]

    def live() -> None:
        assert gangs.task_groups(pods[0].metadata)
        play.put(*pods)
        created = of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod)
        assert len(created) == count
        refused = [v.CreateEnded(app("a"), one.name, v.CreateResult.REFUSED, "exceeded quota") for one in created]
        play.tell(*refused)
        created = of(play.wait(2), e.CreatePod)
        assert len(created) == count
        play.put(*(made(one) for one in created))
        play.put(b.placed(pods[0], "n0"))
        play.gone(*pods)

    return calls_during(live)


def test_labels_of_a_namespace_are_read_once_for_each_selector() -> None:
    def calls(count: int) -> int:
        play = Play()
        play.start(b.node("n0"))
        term = b.term(HOST, {}, namespaceSelector={"matchExpressions": [b.expression("k0", "Exists")]})
        play.put(own("p0", affinity=b.anti_affinity(term)))
        body = {"metadata": {"name": "ns", "labels": counted(labels(count))}}
        Counted.looks = 0
        return calls_during(lambda: play.put(convert(Namespace, body))) + Counted.looks

    quarter, half, whole = calls(50), calls(100), calls(200)
    assert whole - half <= 2.5 * max(half - quarter, 10)


EXCESSIVE: dict[str, tuple[dict[str, Any], str]] = {
    "affinity": (
        {"affinity": b.affinity(*many(101, lambda i: b.term(HOST, like(i))))},
        "spec.affinity.podAffinity has 101 terms, and at most 100 can be considered",
    ),
    "anti-affinity": (
        {"affinity": b.anti_affinity(*many(101, lambda i: b.term(HOST, like(i))))},
        "spec.affinity.podAntiAffinity has 101 terms, and at most 100 can be considered",
    ),
    "expressions": (
        {"affinity": b.affinity(b.term(HOST, b.selector(**labels(1_001))))},
        "spec.affinity has 1001 expressions, and at most 1000 can be considered",
    ),
    "values": (
        {"affinity": b.node_affinity({"matchExpressions": [b.expression("k", "In", *map(str, range(10_001)))]})},
        "spec.affinity has 10001 values, and at most 10000 can be considered",
    ),
    "tolerations": (
        {"tolerations": many(1_001, lambda i: {"key": f"k{i}", "operator": "Exists"})},
        "spec.tolerations has 1001 tolerations, and at most 1000 can be considered",
    ),
    "spread": (
        {"topologySpreadConstraints": many(33, lambda i: b.spread(f"t{i}", like(0)))},
        "spec.topologySpreadConstraints has 33 constraints, and at most 32 can be considered",
    ),
    "ports": (
        {"containers": [{"name": "c", "ports": many(2_001, lambda i: {"hostPort": 1_000 + i})}]},
        "spec.containers.ports has 2001 host ports, and at most 2000 can be considered",
    ),
    "volumes": (
        {"volumes": many(1_001, lambda i: {"name": f"v{i}"})},
        "spec.volumes has 1001 volumes, and at most 1000 can be considered",
    ),
    "selector": (
        {"nodeSelector": labels(1_001)},
        "spec.nodeSelector has 1001 labels, and at most 1000 can be considered",
    ),
}


@each_row("field", EXCESSIVE)
def test_a_pod_that_says_too_much_waits_and_says_why(field: str) -> None:
    spec, text = EXCESSIVE[field]
    play = Play()
    play.start(b.node("n"))
    effects = play.all_put(own("p", **spec))
    play.now_ns += 1_000_000_000
    effects += play.all(v.Tick())
    assert of(effects, e.Ask) == []
    assert text in [one.note for one in of(effects, e.RecordEvent)]
    assert [one.message for one in of(effects, e.PatchPodCondition)] == [text]


def test_the_terms_of_a_running_pod_count_up_to_the_bound() -> None:
    """Somebody else has placed it, or it was created with its node."""
    play = Play()
    terms = [b.term(HOST, b.selector(app=f"a{number}")) for number in range(demands.TERMS_MAX + 1)]
    play.start(b.node("n", {HOST: "n"}), b.bound("o", "n", affinity=b.anti_affinity(*terms)))
    play.put(own("p", meta={"labels": {"app": "a0"}}), own("q", meta={"labels": {"app": f"a{demands.TERMS_MAX}"}}))
    assert play.cluster.predicates("p", "n", allocate=True) is not None
    assert play.cluster.predicates("q", "n", allocate=True) is None
