"""What the plugins read: nodes with their pods, counters, volumes. `cluster_cache` keeps it up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from schedulerd.kubernetes.predicates.anti_affinity_index import AntiAffinityIndex, TermHolders
from schedulerd.kubernetes.predicates.counters import Counters
from schedulerd.kubernetes.predicates.node_state import NodeState
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.refused_pods import RefusedPods
from schedulerd.kubernetes.predicates.storage import ClaimKey, Storage
from schedulerd.kubernetes.predicates.terms import AffinityTerm, PodFilters
from schedulerd.kubernetes.predicates.topology_counts import TopologyCounter


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
        self.judged = 0
        """What judgements have cost so far, in judgements of pods without constraints."""

    @property
    def work(self) -> int:
        """What questions have cost so far: about a ten-thousandth of a second each."""
        return self.judged + self.counters.work // 8


class Gone:
    """Pods on nodes that are counted as gone: victims of preemption, or the judged pod itself."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.pods: dict[str, tuple[PodInfo, NodeState]] = {}
        """By uid."""
        self._sums: dict[TopologyCounter, dict[str, int]] = {}
        self._matches: dict[tuple[PodFilters, str], bool] = {}
        """By uid. All affinity terms of a pod have the same filters."""
        self._terms: dict[str, Counter[AffinityTerm]] = {}
        """How often a pod has a term, by uid."""
        self.claim_users: dict[ClaimKey, int] = {}
        """How many of them use a claim."""
        self._ports: dict[NodeState, dict[tuple[str, int], Counter[str]]] = {}

    def add(self, pod: PodInfo, node: NodeState) -> None:
        if pod.uid in self.pods:
            return
        self.pods[pod.uid] = (pod, node)
        for counter, sums in self._sums.items():
            self._count(counter, sums, pod, node)
        self._ports.pop(node, None)
        for name in {use.name for use in pod.claims}:
            self.claim_users[pod.namespace, name] = self.claim_users.get((pod.namespace, name), 0) + 1

    def on(self, node: NodeState) -> list[PodInfo]:
        return [pod for pod, its_node in self.pods.values() if its_node is node]

    def counted(self, counter: TopologyCounter) -> Mapping[str, int]:
        """How many of them the counter counts, by value."""
        sums = self._sums.get(counter)
        if sums is None:
            sums = self._sums[counter] = {}
            for pod, node in self.pods.values():
                self._count(counter, sums, pod, node)
        return sums

    def ports_on(self, node: NodeState) -> Mapping[tuple[str, int], Counter[str]]:
        """How many of them use a port of the node, by protocol and port, and by address."""
        found = self._ports.get(node)
        if found is None:
            found = self._ports[node] = {}
            for pod in self.on(node):
                for port in pod.ports:
                    found.setdefault((port.protocol, port.port), Counter())[port.address] += 1
        return found

    def _count(self, counter: TopologyCounter, sums: dict[str, int], pod: PodInfo, node: NodeState) -> None:
        value = counter.value_at(node.facts)
        times = self._times(counter, pod) if value is not None else 0
        if value is not None and times:
            sums[value] = sums.get(value, 0) + times

    def _times(self, counter: TopologyCounter, pod: PodInfo) -> int:
        if isinstance(counter, TermHolders):
            terms = self._terms.get(pod.uid)
            if terms is None:
                terms = self._terms[pod.uid] = Counter(pod.anti_affinity)
            return terms[counter.term]
        if counter.key is None or (pod.is_terminating and counter.eligibility is not None):
            return 0
        key = (counter.key.filters, pod.uid)
        matches = self._matches.get(key)
        if matches is None:
            matches = self._matches[key] = self._cluster.counters.selects(counter.key.filters, pod)
        return int(matches)
