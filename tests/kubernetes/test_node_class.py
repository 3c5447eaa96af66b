"""Classes of pods: one for pods that can use the same nodes, and what of it a plain node selector can say."""

from __future__ import annotations

from typing import Any

from schedulerd.core.state.constraints.node_selector import parse
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.node_class import NodeClass, split
from schedulerd.kubernetes.predicates.node_requirement import ANY_NODE
from schedulerd.kubernetes.predicates.plugins import ALL
from schedulerd.kubernetes.predicates.predicates import Predicates
from tests.kubernetes.builders import (
    JSON,
    affinity,
    anti_affinity,
    bound,
    expression,
    node,
    node_affinity,
    pod,
    ports,
    selector,
    spread,
    term,
)
from tests.kubernetes.judging import view_of
from tests.kubernetes.storage_builders import claim, csi_node, put, storage_class, uses, volume
from tests.loops import each_row

ZONE = "topology.kubernetes.io/zone"
NODES = [
    node("plain", {"disk": "ssd"}),
    node("tainted", {"disk": "ssd"}, taints=[{"key": "t", "effect": "NoSchedule"}]),
    node("cordoned", {"disk": "ssd"}, unschedulable=True),
    node("zoned", {ZONE: "a", "size": "5"}),
    node("elsewhere", {ZONE: "b", "disk": "hdd"}),
]
EXISTS, NO_TAINT = {"operator": "Exists"}, {"key": "other", "operator": "Exists"}


def labels(*expressions: JSON) -> JSON:
    return {"matchExpressions": list(expressions)}


def cluster() -> Predicates:
    view = view_of(NODES)
    zoned = volume("zoned", meta={"labels": {ZONE: "a"}})
    put(
        view.cache.storage,
        volume("local", nodeAffinity={"required": {"nodeSelectorTerms": [labels(expression("disk", "In", "ssd"))]}}),
    )
    put(view.cache.storage, zoned, volume("twin", meta={"labels": {ZONE: "a"}}), volume("free"), storage_class())
    for name in ("local", "zoned", "twin", "free"):
        put(view.cache.storage, claim(f"c-{name}", name))
    put(view.cache.storage, claim("unbound"))
    return view


VIEW = cluster()

PODS = [
    pod("q"),
    pod("q", nodeSelector={"disk": "ssd"}),
    pod("q", nodeSelector={"disk": ""}),
    pod("q", tolerations=[EXISTS]),
    pod("q", tolerations=[NO_TAINT]),
    pod("q", affinity=node_affinity(labels(expression("disk", "In", "ssd", "hdd"), expression(ZONE, "DoesNotExist")))),
    pod("q", affinity=node_affinity(labels(expression("disk", "NotIn", "ssd")))),
    pod("q", affinity=node_affinity(labels(expression("disk", "Exists"))), nodeSelector={"disk": "ssd"}),
    pod("q", affinity=node_affinity(labels(expression("size", "Gt", "4")))),
    pod("q", affinity=node_affinity(labels(expression("disk", "Exists")), labels(expression("size", "Exists")))),
    pod("q", affinity=node_affinity({"matchFields": [expression("metadata.name", "In", "plain")]})),
    pod("q", affinity=node_affinity()),
    pod("q", nodeName="plain"),
    pod("q", volumes=uses("c-local")),
    pod("q", volumes=uses("c-zoned", "c-local")),
    pod("q", volumes=uses("c-zoned")),
    pod("q", volumes=uses("c-free")),
]
DECIDED = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "VolumeBinding", "VolumeZone")


@each_row("asked", PODS, ids=lambda one: str(PODS.index(one)))
def test_a_class_admits_the_nodes_that_its_plugins_admit(asked: Pod) -> None:
    plugins = [plugin for plugin in ALL if plugin.name in DECIDED]
    found = VIEW.node_class(asked)
    for name in VIEW.cache.node_names:
        facts = VIEW.cache.node_facts(name)
        assert facts is not None
        assert found.admits(facts) == (not VIEW.judge(asked, name, plugins)), name


@each_row("asked", PODS, ids=lambda one: str(PODS.index(one)))
def test_selector_and_rest_together_are_the_class(asked: Pod) -> None:
    found = VIEW.node_class(asked)
    plain = split(found)
    expressions = parse(plain.selector)
    for name in VIEW.cache.node_names:
        facts = VIEW.cache.node_facts(name)
        assert facts is not None
        attributes = {**facts.labels, "si/hostname": name}
        meets = all(_holds(one.key, one.operator.name, one.values, attributes) for one in expressions)
        assert found.admits(facts) == (meets and plain.rest.admits(facts)), name


def _holds(key: str, operator: str, values: Any, attributes: dict[str, str]) -> bool:
    value = attributes.get(key)
    return {
        "IN": value is not None and value in values,
        "NOT_IN": value is None or value not in values,
        "EXIST": value is not None,
        "NOT_EXIST": value is None,
    }[operator]


HUNDRED = [f"k{number:02}" for number in range(100)]


@each_row(
    ("asked", "selector", "is_plain"),
    [
        (pod(nodeSelector={"b": "2", "a": "1"}), "a=1,b=2", True),
        (pod(nodeSelector={"a": "1", "b": ""}), "a=1", False),
        (PODS[5], f"disk in (hdd,ssd),!{ZONE}", True),
        (PODS[6], "disk notin (ssd)", True),
        (PODS[7], "disk=ssd,disk", True),
        (PODS[8], "", False),
        (PODS[9], "", False),
        (PODS[10], "", False),
        (PODS[11], "", False),
        (PODS[12], "si/hostname=plain", True),
        (pod(nodeSelector={"a": "1", "ready": "2"}), "a=1", False),
        (pod(nodeSelector={"a": "1", "b": "no label"}), "a=1", False),
        (pod(nodeSelector={"hostname": "1", "si/rack": "2", "c/d": "3"}), "", False),
        (pod(nodeSelector={f"k{number}": "v" for number in range(101)}), "", False),
        (
            pod(nodeSelector={f"k{number:02}": "v" for number in range(100)}),
            ",".join(f"k{n:02}=v" for n in range(100)),
            True,
        ),
        (pod(nodeSelector={"a": "1"}, affinity=node_affinity(labels(expression("b", "Lt", "1")))), "a=1", False),
    ],
)
def test_what_a_plain_selector_can_say(asked: Pod, selector: str, is_plain: bool) -> None:
    plain = split(VIEW.node_class(asked))
    assert plain.selector == selector
    assert (plain.rest == NodeClass()) == is_plain


def test_pods_that_can_use_the_same_nodes_have_one_class() -> None:
    def of(**spec: Any) -> NodeClass:
        return VIEW.node_class(pod("q", **spec))

    one = labels(expression("a", "In", "2", "1", "1"), expression("b", "Exists"))
    other = labels(expression("b", "Exists"), expression("a", "In", "1", "2"))
    assert of(affinity=node_affinity(one, other)) == of(affinity=node_affinity(other))
    assert of(tolerations=[EXISTS, NO_TAINT]) == of(tolerations=[NO_TAINT, {**EXISTS, "value": "x"}, EXISTS])
    assert of(tolerations=[{"key": "k", "operator": "Exists", "effect": "PreferNoSchedule"}]) == of()
    assert of(volumes=uses("c-zoned")) == of(volumes=uses("c-twin", "c-zoned", "c-free"))
    assert of(volumes=uses("c-zoned")) != of(volumes=uses("c-local"))
    assert of(nodeSelector={"a": "1"}) != of(nodeSelector={"a": "2"})
    assert of(affinity=node_affinity()).requirement != ANY_NODE


def test_the_attribute_is_the_same_in_every_process() -> None:
    assert NodeClass().attribute == "c/eaae37bf2082bec1"
    assert VIEW.node_class(PODS[1]).attribute != VIEW.node_class(PODS[2]).attribute


@each_row(
    ("asked", "where", "why"),
    [
        (pod("q"), "cordoned", "unschedulable"),
        (pod("q", nodeName="plain"), "zoned", "not node plain"),
        (pod("q"), "tainted", "taint t:NoSchedule, which the pod does not tolerate"),
        (pod("q", nodeSelector={"disk": "ssd"}), "zoned", "node selector disk=ssd"),
        (pod("q", affinity=node_affinity()), "plain", "node affinity that no node matches"),
        (pod("q", volumes=uses("c-zoned")), "elsewhere", "where a volume cannot be used"),
        (pod("q", nodeSelector={"k": "v" * 300}), "plain", f"node selector k={'v' * 141}..."),
    ],
)
def test_a_class_says_why_a_node_does_not_admit_it(asked: Pod, where: str, why: str) -> None:
    facts = VIEW.cache.state.nodes[where].facts
    assert facts is not None
    assert VIEW.node_class(asked).why_not(facts) == why


def test_which_pods_need_a_callback() -> None:
    def asks(**spec: Any) -> tuple[str, ...]:
        return VIEW.callback_plugins(pod("q", "ns", {"app": "web"}, **spec))

    near = term(ZONE, selector(app="db"))
    assert asks() == ()
    assert asks(nodeSelector={"a": "1"}, tolerations=[EXISTS], volumes=uses("c-local", "c-zoned")) == ()
    assert asks(containers=ports({"hostPort": 80})) == ("NodePorts",)
    assert asks(topologySpreadConstraints=[spread(ZONE, {})]) == ("PodTopologySpread",)
    assert asks(topologySpreadConstraints=[spread(ZONE, {}, whenUnsatisfiable="ScheduleAnyway")]) == ()
    assert asks(affinity=affinity(near)) == ("InterPodAffinity",)
    assert asks(affinity=anti_affinity(near)) == ("InterPodAffinity",)
    assert asks(volumes=uses("unbound")) == ("VolumeBinding",)
    assert asks(volumes=uses("missing", "unbound")) == ("VolumeBinding",)
    assert asks(volumes=[{"name": "v", "iscsi": {"iqn": "i"}}]) == ("VolumeRestrictions",)
    assert asks(resourceClaims=[{"name": "gpu"}]) == ("DynamicResources",)
    assert asks(affinity=anti_affinity(term(ZONE, {"matchExpressions": [expression("a", "Like")]}))) == ("Pod",)


def test_a_pod_that_others_keep_away_from_needs_a_callback() -> None:
    view = cluster()
    asked = pod("q", "ns", {"app": "web"})
    waiting = pod("w", "ns", affinity=anti_affinity(term(ZONE, selector(app="web"))))
    view.cache.put_pod(waiting)
    assert view.callback_plugins(asked) == ("InterPodAffinity",)
    view.cache.put_pod(bound("w", "plain", "ns", affinity=anti_affinity(term(ZONE, selector(app="db")))))
    assert view.callback_plugins(asked) == ()


def test_claims_of_one_pod_and_limited_drivers_need_a_callback() -> None:
    view = cluster()
    asked = pod("q", volumes=uses("c-csi"))
    put(view.cache.storage, volume("csi", csi={"driver": "d", "volumeHandle": "h"}), claim("c-csi", "csi"))
    assert view.callback_plugins(asked) == ()
    put(view.cache.storage, csi_node("plain", d=5))
    assert view.callback_plugins(asked) == ("NodeVolumeLimits",)
    put(view.cache.storage, csi_node("plain", d=None))
    assert view.callback_plugins(asked) == ()
    put(view.cache.storage, claim("c-csi", "csi", accessModes=["ReadWriteOncePod"]))
    assert view.callback_plugins(asked) == ("VolumeRestrictions",)
    put(
        view.cache.storage,
        claim("c-csi", "csi", meta={"deletionTimestamp": "x", "annotations": {"pv.kubernetes.io/bind-completed": ""}}),
    )
    assert view.callback_plugins(asked) == ("VolumeBinding",)
