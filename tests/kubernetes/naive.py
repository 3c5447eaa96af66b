"""The topology plugins, amounts and ports written down naively: every question walks over all pods and nodes.

Selectors are read from the objects themselves, so that nothing is shared with what is compared but the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schedulerd.kubernetes.objects.affinity import PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from schedulerd.kubernetes.objects.meta import LabelSelector
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal, Refusals

SPREAD, AFFINITY, PORTS = "PodTopologySpread", "InterPodAffinity", "NodePorts"


@dataclass
class NaiveCluster:
    nodes: dict[str, Node] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    placed: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    """Pods with the name of their node, by uid."""

    def without(self, uids: Iterable[str]) -> NaiveCluster:
        left = {uid: one for uid, one in self.placed.items() if uid not in set(uids)}
        return NaiveCluster(self.nodes, self.namespaces, left)

    def on_nodes(self) -> Iterable[tuple[Pod, Node]]:
        return [(pod, self.nodes[name]) for pod, name in self.placed.values() if name in self.nodes]

    def judge(self, pod: Pod, node: Node) -> Refusals:
        return (*self._ports(pod, node), *self._spread(pod, node), *self._affinity(pod, node))

    def _ports(self, pod: Pod, node: Node) -> Refusals:
        used = [port for other, name in self.placed.values() if name == node.metadata.name for port in _ports(other)]
        for protocol, number, address in _ports(pod):
            for other in used:
                is_same = (protocol, number) == other[:2]
                if is_same and (address == other[2] or "0.0.0.0" in (address, other[2])):
                    return (Refusal(PORTS, Kind.UNSCHEDULABLE, Code.HOST_PORT, (protocol, number, address)),)
        return ()

    def _spread(self, pod: Pod, node: Node) -> Refusals:
        hard = [one for one in pod.spec.topology_spread_constraints or () if one.when_unsatisfiable == "DoNotSchedule"]
        for one in hard:
            value = _labels(node).get(one.topology_key)
            if value is None:
                return (Refusal(SPREAD, Kind.UNRESOLVABLE, Code.SPREAD_LABEL_MISSING, (one.topology_key,)),)
            counts = self._spread_counts(pod, one, hard)
            minimum = min(counts.values(), default=0)
            if len(counts) < (1 if one.min_domains is None else one.min_domains):
                minimum = 0
            pods = counts.get(value, 0) + _spreads(pod, one, pod)
            if pods - minimum > one.max_skew:
                data = (one.topology_key, pods, minimum, one.max_skew)
                return (Refusal(SPREAD, Kind.UNSCHEDULABLE, Code.SPREAD_SKEW, data),)
        return ()

    def _spread_counts(
        self, pod: Pod, one: TopologySpreadConstraint, hard: list[TopologySpreadConstraint]
    ) -> dict[str, int]:
        counting = [
            node
            for node in self.nodes.values()
            if all(other.topology_key in _labels(node) for other in hard)
            and (one.node_affinity_policy == "Ignore" or _selects(pod, node))
            and (one.node_taints_policy != "Honor" or _tolerates(pod, node))
        ]
        counts = {_labels(node)[one.topology_key]: 0 for node in counting}
        names = {node.metadata.name: node for node in counting}
        for other, name in self.placed.values():
            if name in names and other.metadata.deletion_timestamp is None and _spreads(pod, one, other):
                counts[_labels(names[name])[one.topology_key]] += 1
        return counts

    def _affinity(self, pod: Pod, node: Node) -> Refusals:
        labels = _labels(node)
        terms = _terms(pod.spec.affinity.pod_affinity if pod.spec.affinity else None)
        missing = next((one.topology_key for one in terms if one.topology_key not in labels), None)
        unmet = missing or next((one.topology_key for one in terms if not self._is_met(pod, terms, one, labels)), None)
        if unmet is not None and (missing is not None or not self._is_first(pod, terms)):
            return (Refusal(AFFINITY, Kind.UNRESOLVABLE, Code.POD_AFFINITY, (unmet,)),)
        for one in _anti(pod):
            for other, its_node in self.on_nodes():
                if _same(one.topology_key, labels, _labels(its_node)) and self._matches(pod, one, other):
                    return (Refusal(AFFINITY, Kind.UNSCHEDULABLE, Code.POD_ANTI_AFFINITY, (one.topology_key,)),)
        against = {
            one.topology_key
            for other, its_node in self.on_nodes()
            for one in _anti(other)
            if _same(one.topology_key, labels, _labels(its_node)) and self._matches(other, one, pod)
        }
        return tuple(
            Refusal(AFFINITY, Kind.UNSCHEDULABLE, Code.EXISTING_ANTI_AFFINITY, (key,)) for key in sorted(against)
        )

    def _is_met(
        self, pod: Pod, terms: tuple[PodAffinityTerm, ...], one: PodAffinityTerm, labels: Mapping[str, str]
    ) -> bool:
        return any(
            _same(one.topology_key, labels, _labels(its_node))
            and all(self._matches(pod, each, other) for each in terms)
            for other, its_node in self.on_nodes()
        )

    def _is_first(self, pod: Pod, terms: tuple[PodAffinityTerm, ...]) -> bool:
        for other, its_node in self.on_nodes():
            has_key = any(one.topology_key in _labels(its_node) for one in terms)
            if has_key and all(self._matches(pod, one, other) for one in terms):
                return False
        return all(self._matches(pod, one, pod) for one in terms)

    def _matches(self, owner: Pod, one: PodAffinityTerm, other: Pod) -> bool:
        """The term of the owner is about the other pod."""
        namespace = other.metadata.namespace
        if one.namespace_selector is None and not one.namespaces:
            is_covered = namespace == owner.metadata.namespace
        else:
            of_namespace = self.namespaces.get(namespace, {})
            is_covered = namespace in (one.namespaces or ()) or _selected(one.namespace_selector, of_namespace)
        return is_covered and _selected(one.label_selector, other.metadata.labels or {})


def _spreads(owner: Pod, one: TopologySpreadConstraint, other: Pod) -> bool:
    mine, labels = owner.metadata.labels or {}, other.metadata.labels or {}
    return (
        owner.metadata.namespace == other.metadata.namespace
        and _selected(one.label_selector, labels)
        and all(labels.get(key) == mine[key] for key in one.match_label_keys or () if key in mine)
    )


def _selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    for one in selector.match_expressions or ():
        value = labels.get(one.key)
        holds = {
            "In": value is not None and value in (one.values or ()),
            "NotIn": value is None or value not in (one.values or ()),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[one.operator]:
            return False
    return True


def _selects(pod: Pod, node: Node) -> bool:
    return all(_labels(node).get(key) == value for key, value in (pod.spec.node_selector or {}).items())


def _tolerates(pod: Pod, node: Node) -> bool:
    """Taints of these tests are tolerated by key."""
    keys = {one.key for one in pod.spec.tolerations or ()}
    return all(one.key in keys or one.effect == "PreferNoSchedule" for one in node.spec.taints or ())


def _terms(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return (affinity.required or ()) if affinity is not None else ()


def _anti(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    return _terms(pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None)


def _same(key: str, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return key in one and one[key] == other.get(key)


def _labels(node: Node) -> Mapping[str, str]:
    return node.metadata.labels or {}


def _ports(pod: Pod) -> list[tuple[str, int, str]]:
    return [
        (port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")
        for container in pod.spec.containers or ()
        for port in container.ports or ()
        if port.host_port
    ]
