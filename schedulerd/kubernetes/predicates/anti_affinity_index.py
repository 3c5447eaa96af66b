"""Required anti-affinity of all pods, so that a new pod finds the terms that are against it.

Equal terms are one entry with the pods that have it, counted by topology value. Source: the symmetry of required
anti-affinity in Kubernetes' documentation "Inter-pod affinity and anti-affinity".
"""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.selector_index import SelectorIndex
from schedulerd.kubernetes.predicates.terms import AffinityTerm
from schedulerd.kubernetes.predicates.topology_counts import TopologyCounter


class TermHolders(TopologyCounter):
    """The pods with one anti-affinity term: those on nodes are counted by value, the others only as users."""

    __slots__ = ("term", "users")

    def __init__(self, term: AffinityTerm) -> None:
        super().__init__(term.topology_key)
        self.term = term
        self.users = 0


class AntiAffinityIndex:
    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = namespaces
        self._holders: dict[AffinityTerm, TermHolders] = {}
        self._index: SelectorIndex[TermHolders] = SelectorIndex()
        self.version = 0
        """Changes whenever `against` may give other entries for a pod."""

    @property
    def is_empty(self) -> bool:
        return not self._holders

    def known(self, pod: PodInfo, by: int) -> None:
        """The pod is known from now on (1), on a node or not, or no longer (-1)."""
        for term in pod.anti_affinity:
            holders = self._holders.get(term)
            if holders is None:
                holders = self._holders[term] = TermHolders(term)
                self._index.add(holders, (term.pods,))
                self.version += 1
            holders.users += by
            if holders.users == 0:
                del self._holders[term]
                self._index.remove(holders, (term.pods,))
                self.version += 1

    def pod_changed(self, pod: PodInfo, node: NodeState, by: int) -> None:
        """A known pod came to the node (1) or left it (-1)."""
        for term in pod.anti_affinity:
            self._holders[term].pods_changed(node.name, node.facts, by)

    def node_changed(self, name: str, old: NodeFacts | None, new: NodeFacts | None) -> None:
        for holders in self._holders.values():
            holders.node_changed(name, old, new)

    def namespace_changed(self) -> None:
        self.version += 1

    def against(self, pod: PodInfo) -> tuple[TermHolders, ...]:
        """The terms of known pods that match the pod, wherever they count."""
        if not self._holders:
            return ()
        of_namespace = self._namespaces.get(pod.namespace, {})
        return tuple(
            holders
            for holders in self._index.candidates(pod.namespace, pod.labels)
            if holders.term.pods.matches(pod.namespace, of_namespace, pod.labels)
        )
