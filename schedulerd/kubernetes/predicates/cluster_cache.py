"""The cluster as its objects' events tell it: nodes, namespaces, and pods with the nodes that they occupy.

Events may come in any order: pods of nodes that are not known yet wait for them, and an object that comes again
replaces the former one. A pod occupies a node if its spec names one, or if it is assumed there, and until it is deleted
or terminal.
"""

from __future__ import annotations

from collections.abc import Hashable

from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod, is_terminal
from schedulerd.kubernetes.predicates.cluster_state import ClusterState
from schedulerd.kubernetes.predicates.daemon_sets import DaemonSets
from schedulerd.kubernetes.predicates.disruption_budgets import DisruptionBudgets
from schedulerd.kubernetes.predicates.known_pod import KnownPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState, change, read_facts
from schedulerd.kubernetes.predicates.pod_changes import counts_alike, holds_alike, is_alike, occupies_alike
from schedulerd.kubernetes.predicates.pod_info import PodInfo, read_info
from schedulerd.kubernetes.predicates.queueing_hints import freed_by
from schedulerd.kubernetes.predicates.refused_pods import NODES, Change, What


class ClusterCache:
    def __init__(self, daemon_sets: DaemonSets | None = None) -> None:
        """Without `daemon_sets` no pod is one of a DaemonSet."""
        self.daemon_sets = daemon_sets or DaemonSets(frozenset())
        self.state = ClusterState()
        self.storage = self.state.storage
        """Volumes, claims and classes are put here."""
        self.refused = self.state.refused
        """Pods that are to be asked for again when something changes."""
        self.budgets = DisruptionBudgets()
        self.pods: dict[str, KnownPod] = {}
        """By uid."""

    @property
    def node_names(self) -> list[str]:
        return [node.name for node in self.state.nodes.values() if node.facts is not None]

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        state = self.state.nodes.get(name)
        if state is None:
            state = self.state.nodes[name] = NodeState(name)
        self._set_facts(state, read_facts(node))

    def remove_node(self, name: str) -> None:
        """Pods that are still there wait for the node to come back."""
        state = self.state.nodes.get(name)
        if state is not None:
            self._set_facts(state, None)
            self._drop_if_unused(state)

    def put_namespace(self, namespace: Namespace) -> None:
        self._set_namespace(namespace.metadata.name, namespace.metadata.labels or {})

    def remove_namespace(self, name: str) -> None:
        self._set_namespace(name, {})
        self.state.namespaces.pop(name, None)

    def put_pod(self, pod: Pod) -> bool:
        """A pod was added or has changed. A pod without a node stays where it is assumed. False if nothing has changed
        that predicates read."""
        if is_terminal(pod):
            self.remove_pod(pod.metadata.uid)
            return True
        if pod.metadata.deletion_timestamp is not None:
            self.budgets.ends(pod.metadata.uid)
        known = self.pods.get(pod.metadata.uid)
        if known is None:
            self._place(self._know(pod), pod.spec.node_name)
            return True
        is_at = known.node.name if known.node is not None else ""
        node_name = pod.spec.node_name or is_at
        if is_at == node_name and (occupies_alike if node_name else is_alike)(known.pod, pod):
            if node_name and not pod.spec.node_name and not is_alike(known.pod, pod):
                known.stop_judging(self.state)  # it may be judged for another node yet, by what it asks for now
            known.pod = pod
            return False
        if known.node is None:
            self.refused.wake(pod.metadata.uid)  # what it asks of nodes is something else now
        elif is_at == node_name:
            self._replace(known, pod, known.node)
            return True
        self._forget(known)
        self._place(self._know(pod), node_name)
        return True

    def remove_pod(self, uid: str) -> None:
        self.budgets.ends(uid)
        self.refused.forget(uid)
        known = self.pods.pop(uid, None)
        if known is not None:
            self._forget(known)

    def assume(self, pod: Pod, node_name: str, *, for_now: bool = False) -> None:
        """The pod counts on the node from now on, until an event names another, it is forgotten or deleted. `for_now`:
        there will be more questions about it, and what was made for these is kept."""
        known = self.pods.get(pod.metadata.uid) or self._know(pod)
        if known.node is None or known.node.name != node_name:
            self._unplace(known, node_name)
            self._put_on(known, node_name)
        if not for_now:
            known.stop_judging(self.state)

    def forget_assumed(self, uid: str) -> None:
        """The pod is on no node after all, unless an event has named one."""
        known = self.pods.get(uid)
        if known is not None and not known.pod.spec.node_name:
            self._unplace(known)

    def has_node(self, uid: str) -> bool:
        """The pod is on a node, or assumed there."""
        known = self.pods.get(uid)
        return known is not None and known.node is not None

    def node_facts(self, name: str) -> NodeFacts | None:
        """What decides whether a class admits the node; None if the node is not known."""
        node = self.state.nodes.get(name)
        return node.facts if node is not None else None

    def _know(self, pod: Pod) -> KnownPod:
        known = self.pods[pod.metadata.uid] = KnownPod(pod, read_info(pod))
        self.state.anti_affinity.known(known.info, 1)
        return known

    def _forget(self, known: KnownPod, stays_on: str = "") -> None:
        self._unplace(known, stays_on)
        known.stop_judging(self.state)
        self.state.anti_affinity.known(known.info, -1)

    def _place(self, known: KnownPod, node_name: str) -> None:
        if node_name:
            self._put_on(known, node_name)
            known.stop_judging(self.state)

    def _put_on(self, known: KnownPod, node_name: str) -> None:
        node = self.state.nodes.get(node_name)
        if node is None:
            node = self.state.nodes[node_name] = NodeState(node_name)
        known.node = node
        node.add(known.info)
        self._count(known.info, node, 1)

    def _unplace(self, known: KnownPod, stays_on: str = "") -> None:
        node = known.node
        if node is not None:
            known.node = None
            node.remove(known.info)
            self._count(known.info, node, -1)
            if node.name != stays_on and self.refused.has_waiting:
                self._freed(known.info, node)
            self._drop_if_unused(node)

    def _replace(self, known: KnownPod, pod: Pod, node: NodeState) -> None:
        """A pod has changed and is still on its node. If it only requests something else, no counter changes to and
        fro, which would wake pods for nothing."""
        before, info = known.info, read_info(pod)
        if counts_alike(before, info):
            node.remove(before)
            node.add(info)
            known.stop_judging(self.state)
            known.pod, known.info = pod, info
        else:
            self._forget(known, node.name)
            self._place(self._know(pod), node.name)
        if not holds_alike(before, info):
            self._freed(before, node)
        if any(amount > info.requests.get(name, 0) for name, amount in before.requests.items()):
            self._happened(What.ROOM, node.name)

    def _freed(self, pod: PodInfo, node: NodeState) -> None:
        for freed in freed_by(pod, node.name):
            self.refused.happened(freed)

    def _happened(self, what: What, of: Hashable = None) -> None:
        if self.refused.has_waiting:
            self.refused.happened(Change(what, of))

    def _count(self, pod: PodInfo, node: NodeState, by: int) -> None:
        self.state.counters.pod_changed(pod, node, by)
        self.state.anti_affinity.pod_changed(pod, node, by)
        for use in pod.claims:
            change(self.state.claim_users, (pod.namespace, use.name), by)

    def _set_facts(self, node: NodeState, facts: NodeFacts | None) -> None:
        old, node.facts = node.facts, facts
        if old is None or facts is None or (old.labels, old.taints) != (facts.labels, facts.taints):
            self.state.counters.node_changed(node.name, old, facts)
            self.state.anti_affinity.node_changed(node.name, old, facts)
        if old is None or facts is None:
            return
        if (old.labels, old.taints, old.unschedulable) != (facts.labels, facts.taints, facts.unschedulable):
            self.refused.happened(NODES)
        if old.allocatable != facts.allocatable:
            self._happened(What.ROOM, node.name)

    def _drop_if_unused(self, node: NodeState) -> None:
        if node.is_unused:
            del self.state.nodes[node.name]

    def _set_namespace(self, name: str, labels: dict[str, str]) -> None:
        if self.state.namespaces.get(name, {}) == labels:
            self.state.namespaces[name] = labels
            return
        self.state.namespaces[name] = labels
        self.state.counters.namespace_changed(name)
        self.state.anti_affinity.namespace_changed()
        self._happened(What.NAMESPACE, name)
