"""By what refused a pod: which change of the cluster makes it be asked for again, and which does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.objects.cluster import PodDisruptionBudget
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.node import Node
from tests.kubernetes.builders import (
    JSON,
    affinity,
    anti_affinity,
    bound,
    containers,
    expression,
    namespace,
    node,
    node_affinity,
    ports,
    selector,
    spread,
    term,
    terminating,
)
from tests.kubernetes.cluster.play import Play, of, own
from tests.kubernetes.storage_builders import (
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
)
from tests.loops import each_row

WEB, DB = {"app": "web"}, {"app": "db"}
NEAR = affinity(term("zone", selector(**WEB)))
NEAR_TEAM = affinity(term("zone", selector(**WEB), namespaceSelector=selector(team="red")))
APART = anti_affinity(term("zone", selector(**WEB)))
APART_FROM_OTHERS = anti_affinity(
    term("zone", selector(**WEB), namespaceSelector={"matchExpressions": [expression("team", "Exists")]})
)
EVEN = [spread("zone", selector(**WEB))]
IN_TWO = [spread("zone", selector(**WEB), minDomains=2)]
PORT = ports({"hostPort": 80})
DISK = [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]


def zone(name: str, zone: str, **more: Any) -> Node:
    return node(name, {"zone": zone}, **more)


def cordoned(name: str, zone: str) -> Node:
    return node(name, {"zone": zone}, unschedulable=True)


def tainted(name: str, zone: str) -> Node:
    return node(name, {"zone": zone}, [{"key": "t", "effect": "NoSchedule"}])


def csi(name: str) -> object:
    return volume(name, csi={"driver": "d", "volumeHandle": name})


def waiting(*things: object, of_class: int = 64, at: str = "n", **spec: Any) -> Play:
    """The node has refused the pod p, which the API server has told of after these things."""
    play = Play(classes_max=of_class)
    play.start(*things)
    play.put(own("p", meta={"labels": {"queue": "root.q", **WEB}}, **spec))
    assert play.cluster.predicates("p", at, allocate=True) is not None
    play.wait(100)
    return play


def is_woken(play: Play, seconds: float = 1) -> bool:
    return "p" in [ask.key for ask in of(play.wait(seconds), e.Ask)]


def put(*things: object) -> Callable[[Play], object]:
    return lambda play: play.put(*things)


def gone(*things: object) -> Callable[[Play], object]:
    return lambda play: play.gone(*things)


TWO_ZONES = zone("n", "a"), zone("m", "b")
WEB_ON_N, WEB_ON_M = bound("a", "n", labels=WEB), bound("b", "m", labels=WEB)
OTHER = {"labels": {"queue": "root.q"}}
DB_AFFINITY = affinity(term("zone", selector(**DB)))
FOREIGN_APART = bound("a", "n", affinity=APART)
CSI_NODE = csi_node("n", d=1)
FULL = (*TWO_ZONES, CSI_NODE, claim("c", "v"), csi("v"), csi("w"), attachment("x", "n", "w"))
SLOW = storage_class(provisioner="d")
UNBOUND = (*TWO_ZONES, SLOW, claim("c"), csi_driver("d", True))

WAKES: dict[str, tuple[tuple[object, ...], JSON, Callable[[Play], object]]] = {
    # Pod affinity
    "a matching pod is bound": (TWO_ZONES, {"affinity": DB_AFFINITY}, put(bound("a", "n", labels=DB))),
    "a pod matches now": ((*TWO_ZONES, WEB_ON_N), {"affinity": DB_AFFINITY}, put(bound("a", "n", labels=DB))),
    "a node comes on which a matching pod is known": (
        (zone("n", "a"), bound("a", "m", labels=DB)),
        {"affinity": DB_AFFINITY},
        put(zone("m", "a")),
    ),
    "the node of a matching pod has another zone": (
        (*TWO_ZONES, bound("a", "m", labels=DB)),
        {"affinity": DB_AFFINITY},
        put(zone("m", "a")),
    ),
    "the last matching pod is gone, so that the first of a group may start anywhere": (
        (*TWO_ZONES, WEB_ON_M),
        {"affinity": NEAR},
        gone(WEB_ON_M),
    ),
    "the namespace of a pod matches now": (
        (*TWO_ZONES, namespace("ns"), namespace("other"), bound("a", "n", "other", labels=WEB)),
        {"affinity": NEAR_TEAM},
        put(namespace("other", team="red")),
    ),
    "the pod's own namespace matches now": (TWO_ZONES, {"affinity": NEAR_TEAM}, put(namespace("ns", team="red"))),
    # Anti-affinity, in both directions
    "the pod in the way is gone": ((*TWO_ZONES, WEB_ON_N), {"affinity": APART}, gone(WEB_ON_N)),
    "the pod in the way has other labels": (
        (*TWO_ZONES, WEB_ON_N),
        {"affinity": APART},
        put(bound("a", "n", labels=DB)),
    ),
    "the namespace of the pod in the way is gone": (
        (*TWO_ZONES, namespace("other", team="red"), bound("a", "n", "other", labels=WEB)),
        {"affinity": APART_FROM_OTHERS},
        gone(namespace("other", team="red")),
    ),
    "the pod with the term is gone": ((*TWO_ZONES, FOREIGN_APART), {}, gone(FOREIGN_APART)),
    "the term does not select the pod's namespace any longer": (
        (*TWO_ZONES, namespace("ns", team="red"), bound("a", "n", affinity=APART_FROM_OTHERS)),
        {},
        put(namespace("ns")),
    ),
    # Topology spread
    "a zone with more pods has fewer": (
        (*TWO_ZONES, WEB_ON_N),
        {"topologySpreadConstraints": EVEN},
        put(terminating(WEB_ON_N)),
    ),
    "the emptiest zone has more": ((*TWO_ZONES, WEB_ON_N), {"topologySpreadConstraints": EVEN}, put(WEB_ON_M)),
    "the emptiest zone is gone": (
        (*TWO_ZONES, WEB_ON_N),
        {"topologySpreadConstraints": EVEN},
        gone(zone("m", "b")),
    ),
    "there are as many zones as there have to be": (
        (zone("n", "a"), WEB_ON_N, WEB_ON_M),
        {"topologySpreadConstraints": IN_TWO},
        put(zone("m", "b")),
    ),
    # Nodes, for pods whose class is none of the attributes
    "a node is uncordoned": ((cordoned("n", "a"),), {}, put(zone("n", "a"))),
    "a taint is gone": ((tainted("n", "a"),), {}, put(zone("n", "a"))),
    "a node has another label": (
        (zone("n", "a"),),
        {"affinity": node_affinity({"matchExpressions": [expression("zone", "In", "b")]})},
        put(zone("n", "b")),
    ),
    # Ports, disks and claims
    "a port is free": ((*TWO_ZONES, bound("a", "n", containers=PORT)), {"containers": PORT}, gone(bound("a", "n"))),
    "a disk is free": ((*TWO_ZONES, bound("a", "n", volumes=DISK)), {"volumes": DISK}, gone(bound("a", "n"))),
    "a claim for one pod is free": (
        (*TWO_ZONES, claim("c", "v", accessModes=["ReadWriteOncePod"]), csi("v"), bound("a", "m", volumes=uses("c"))),
        {"volumes": uses("c")},
        gone(bound("a", "m")),
    ),
    # Volume limits
    "a volume is detached": (FULL, {"volumes": uses("c")}, gone(attachment("x", "n", "w"))),
    "the limit is higher": (FULL, {"volumes": uses("c")}, put(csi_node("n", d=2))),
    "the limit is gone": (FULL, {"volumes": uses("c")}, gone(CSI_NODE)),
    "a pod with a volume is gone": (
        (
            *TWO_ZONES,
            CSI_NODE,
            claim("c", "v"),
            csi("v"),
            claim("d", "w"),
            csi("w"),
            bound("a", "n", volumes=uses("d")),
        ),
        {"volumes": uses("c")},
        gone(bound("a", "n")),
    ),
    # Volume binding
    "there is a volume": (
        (*TWO_ZONES, storage_class(provisioner="kubernetes.io/no-provisioner"), claim("c")),
        {"volumes": uses("c")},
        put(volume("v")),
    ),
    "the volume that was the claim's, and is elsewhere, is gone": (
        (
            *TWO_ZONES,
            storage_class(provisioner="kubernetes.io/no-provisioner"),
            claim("c"),
            volume("v", node="elsewhere", claimRef={"namespace": "ns", "name": "c"}),
            volume("w"),
        ),
        {"volumes": uses("c")},
        gone(volume("v", node="elsewhere", claimRef={"namespace": "ns", "name": "c"})),
    ),
    "the class makes volumes now": (
        (*TWO_ZONES, storage_class(provisioner="kubernetes.io/no-provisioner"), claim("c")),
        {"volumes": uses("c")},
        put(SLOW),
    ),
    "there is room for the volume": (UNBOUND, {"volumes": uses("c")}, put(capacity("r", "9Gi", {}))),
    "the driver does not publish capacities any longer": (UNBOUND, {"volumes": uses("c")}, put(csi_driver("d", False))),
    "the driver that publishes capacities is gone": (UNBOUND, {"volumes": uses("c")}, gone(csi_driver("d", True))),
    "the claim has another volume": (
        (*TWO_ZONES, claim("c", "v"), volume("v", node="elsewhere"), volume("w")),
        {"volumes": uses("c")},
        put(claim("c", "w")),
    ),
}


@each_row("what", WAKES)
def test_a_pod_is_woken_when_what_refused_it_has_gone(what: str) -> None:
    things, spec, change = WAKES[what]
    play = waiting(*things, of_class=0, **spec)
    change(play)
    assert is_woken(play)
    assert play.cluster.predicates("p", "n", allocate=True) is None
    assert not is_woken(play, 100), "once is enough"


SLEEPS: dict[str, tuple[tuple[object, ...], JSON, Callable[[Play], object]]] = {
    "another pod is bound": (TWO_ZONES, {"affinity": DB_AFFINITY}, put(bound("x", "n", labels=WEB))),
    "a pod of another namespace is bound": (TWO_ZONES, {"affinity": DB_AFFINITY}, put(bound("x", "n", "other", DB))),
    "a second matching pod comes to a zone": (
        (*TWO_ZONES, bound("a", "m", labels=DB)),
        {"affinity": DB_AFFINITY},
        put(bound("b", "m", labels=DB)),
    ),
    "one more pod is in the way": ((*TWO_ZONES, WEB_ON_N), {"affinity": APART}, put(bound("x", "n", labels=WEB))),
    "one more pod has the term": ((*TWO_ZONES, FOREIGN_APART), {}, put(bound("x", "n", affinity=APART))),
    "the fullest zone has one more": (
        (*TWO_ZONES, WEB_ON_N),
        {"topologySpreadConstraints": EVEN},
        put(bound("x", "n", labels=WEB)),
    ),
    "another port is free": (
        (*TWO_ZONES, bound("a", "n", containers=PORT), bound("b", "n", containers=ports({"hostPort": 81}))),
        {"containers": PORT},
        gone(bound("b", "n")),
    ),
    "a pod without a port is gone": (
        (*TWO_ZONES, bound("a", "n", containers=PORT), bound("b", "n")),
        {"containers": PORT},
        gone(bound("b", "n")),
    ),
    "a claim is bound": ((*TWO_ZONES, bound("a", "n", containers=PORT)), {"containers": PORT}, put(claim("c", "v"))),
    "a namespace has a quota": (
        (*TWO_ZONES, namespace("other")),
        {"affinity": DB_AFFINITY},
        put(convert(type(namespace("x")), {"metadata": {"name": "other", "annotations": {"a": "b"}}})),
    ),
    "a matching pod is started by its kubelet": (
        (*TWO_ZONES, WEB_ON_N),
        {"affinity": APART},
        put(
            convert(
                type(WEB_ON_N),
                {
                    "metadata": {"name": "a", "namespace": "ns", "uid": "a", "labels": WEB},
                    "spec": {"nodeName": "n"},
                    "status": {"containerStatuses": [{"name": "c"}]},
                },
            )
        ),
    ),
    "a volume is attached": (FULL, {"volumes": uses("c")}, put(attachment("y", "m", "w"))),
}


@each_row("what", SLEEPS)
def test_a_pod_is_left_alone_by_what_lifts_nothing(what: str) -> None:
    things, spec, change = SLEEPS[what]
    play = waiting(*things, **spec)
    change(play)
    assert not is_woken(play, 100)


def test_a_matching_pod_of_this_scheduler_wakes_when_it_is_allocated() -> None:
    play = waiting(*TWO_ZONES, affinity=DB_AFFINITY)
    play.put(own("a", meta={"labels": {"queue": "root.q", **DB}}))
    assert not is_woken(play, 100), "it has no node yet"
    (bind,) = of(play.allocate("a", "m"), e.Bind)
    assert is_woken(play)
    play.tell(v.BindEnded("a", bind.node, v.BindResult.DONE))
    play.put(own("a", meta={"labels": {"queue": "root.q", **DB}}, nodeName="m"))
    assert not is_woken(play, 100), "it counts already"


def test_a_binding_that_fails_takes_a_pod_out_of_the_way() -> None:
    play = Play()
    play.start(zone("n", "a"), zone("m", "a"), own("a", meta={"labels": {"queue": "root.q", **WEB}}))
    play.put(own("p", affinity=APART))
    play.allocate("a", "n")
    assert play.cluster.predicates("p", "m", allocate=True) is not None
    play.tell(v.BindEnded("a", "n", v.BindResult.FAILED, "no"))
    assert is_woken(play)


def test_a_pod_that_was_bound_elsewhere_counts_there() -> None:
    play = waiting(*TWO_ZONES, own("a", meta={"labels": {"queue": "root.q", **DB}}), at="m", affinity=DB_AFFINITY)
    play.allocate("a", "n")
    assert is_woken(play)
    assert play.cluster.predicates("p", "m", allocate=True) is not None
    play.tell(v.BindEnded("a", "n", v.BindResult.ELSEWHERE, "", "m"))
    assert is_woken(play)


def test_room_that_the_shim_did_not_know_of() -> None:
    for change in (gone(bound("a", "n")), put(node("n", cpu="16")), put(bound("a", "n"))):
        play = Play()
        play.start(node("n"), own("p", cpu="2"))
        play.put(bound("a", "n", containers=containers({"cpu": "7"})))
        play.allocate("p", "n")
        assert play.cluster.predicates("p", "n", allocate=True) == "Insufficient cpu"
        play.wait(100)
        change(play)
        assert is_woken(play)


def budget(allowed: int) -> PodDisruptionBudget:
    return convert(
        PodDisruptionBudget,
        {
            "metadata": {"name": "b", "namespace": "ns"},
            "spec": {"selector": selector(**WEB)},
            "status": {"disruptionsAllowed": allowed},
        },
    )


def test_a_victim_that_the_status_of_its_budget_counts_now_lets_another_one_go() -> None:
    victims = [bound(name, "n", labels=WEB, containers=containers({"cpu": "4"})) for name in ("v", "w")]
    play = Play()
    play.start(node("n"), *victims, budget(1))
    play.put(own("o", cpu="4"), own("p", cpu="4"))
    assert play.cluster.preemption_predicates("o", "n", ["v"], 0) == 0
    assert play.cluster.preemption_predicates("p", "n", ["w"], 0) is None
    play.put(terminating(victims[0]))
    assert not is_woken(play)
    play.put(budget(1))
    assert is_woken(play)
    assert play.cluster.preemption_predicates("p", "n", ["w"], 0) == 0


def test_what_happens_costs_nothing_for_pods_that_wait_for_something_else() -> None:
    play = Play()
    play.start(*TWO_ZONES, bound("a", "n", containers=PORT))
    play.put(*(own(f"r{number}", containers=PORT) for number in range(500)), own("p", affinity=DB_AFFINITY))
    for uid in ("p", *(f"r{number}" for number in range(500))):
        assert play.cluster.predicates(uid, "n", allocate=True) is not None
    play.put(bound("b", "m", labels=DB))
    assert [ask.key for ask in of(play.wait(100), e.Ask)] == ["p"]
    play.gone(bound("b", "m", labels=DB))
    assert of(play.wait(100), e.Ask) == []
