"""What the plugins read: nodes with their pods, counters, volumes. `cluster_contents` keeps it up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from schedulerd.kubernetes.predicates.anti_affinity_index import AntiAffinityIndex, TermHolders
from schedulerd.kubernetes.predicates.counters import Counters
from schedulerd.kubernetes.predicates.node_state import NodeState
from schedulerd.kubernetes.predicates.pod_info import PendingPod, PodInfo
from schedulerd.kubernetes.predicates.refused_pods import RefusedPods
from schedulerd.kubernetes.predicates.storage import ClaimKey, Storage
from schedulerd.kubernetes.predicates.terms import AffinityTerm, SpreadConstraint
from schedulerd.kubernetes.predicates.topology_counts import CounterKey, SpreadCounter, TopologyCounter


class ClusterState:
    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """Labels by name."""
        self.counters = Counters(self.nodes, self.namespaces)
        self.anti_affinity = AntiAffinityIndex(self.namespaces)
        self.storage = Storage()
        self.claim_users: dict[ClaimKey, int] = {}
        """How many pods on nodes use a claim."""
        self.refused = RefusedPods(self.counters)


class JudgedPod:
    """A pod with the counters that its constraints need. Whoever makes one calls `release` when it is done."""

    __slots__ = ("_against", "_version", "affinity", "anti_affinity", "info", "pod", "spread")

    def __init__(self, pod: PendingPod, cluster: ClusterState) -> None:
        self.pod = pod
        self.info = pod.info
        self.affinity: Sequence[tuple[AffinityTerm, TopologyCounter]] = ()
        self.anti_affinity: Sequence[tuple[AffinityTerm, TopologyCounter]] = ()
        self.spread: Sequence[tuple[SpreadConstraint, SpreadCounter]] = ()
        if pod.affinity or pod.info.anti_affinity or pod.spread:
            self._acquire(pod, cluster.counters)
        self._against: tuple[TermHolders, ...] = ()
        self._version = -1

    def _acquire(self, pod: PendingPod, counters: Counters) -> None:
        self.affinity = [
            (term, counters.acquire(CounterKey(pod.affinity_filters, term.topology_key, None))) for term in pod.affinity
        ]
        self.anti_affinity = [
            (term, counters.acquire(CounterKey((term.pods,), term.topology_key, None)))
            for term in pod.info.anti_affinity
        ]
        self.spread = [
            (
                constraint,
                counters.acquire_spread(
                    CounterKey((constraint.pods,), constraint.topology_key, constraint.eligibility)
                ),
            )
            for constraint in pod.spread
        ]

    def release(self, cluster: ClusterState) -> None:
        if not (self.affinity or self.anti_affinity or self.spread):
            return
        held: Iterable[TopologyCounter] = (
            counter for constraints in (self.affinity, self.anti_affinity, self.spread) for _, counter in constraints
        )
        for counter in held:
            assert counter.key is not None
            cluster.counters.release(counter.key)

    def against(self, cluster: ClusterState) -> tuple[TermHolders, ...]:
        """The anti-affinity terms of known pods that match this one."""
        index = cluster.anti_affinity
        if self._version != index.version:
            self._against = index.against(self.info)
            self._version = index.version
        return self._against


class Gone:
    """Pods on nodes that are counted as gone: victims of preemption, or the judged pod itself."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.pods: dict[str, tuple[PodInfo, NodeState]] = {}
        """By uid."""
        self._sums: dict[TopologyCounter, dict[str, int]] = {}

    def add(self, pod: PodInfo, node: NodeState) -> None:
        self.pods[pod.uid] = (pod, node)
        self._sums.clear()

    def on(self, node: NodeState) -> list[PodInfo]:
        return [pod for pod, its_node in self.pods.values() if its_node is node]

    def counted(self, counter: TopologyCounter) -> Mapping[str, int]:
        """How many of them the counter counts, by value."""
        sums = self._sums.get(counter)
        if sums is None:
            sums = self._sums[counter] = {}
            for pod, node in self.pods.values():
                times = self._times(counter, pod)
                value = counter.value_at(node.facts) if times else None
                if value is not None:
                    sums[value] = sums.get(value, 0) + times
        return sums

    def _times(self, counter: TopologyCounter, pod: PodInfo) -> int:
        if isinstance(counter, TermHolders):
            return pod.anti_affinity.count(counter.term)
        return int(self._cluster.counters.matches(counter, pod))
