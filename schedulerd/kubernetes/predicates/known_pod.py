"""A pod of the cluster cache, with what was read of it: questions about it come many times, with its node unknown."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.anti_affinity_index import TermHolders
from schedulerd.kubernetes.predicates.cluster_state import ClusterState
from schedulerd.kubernetes.predicates.counters import Counters
from schedulerd.kubernetes.predicates.node_state import NodeState
from schedulerd.kubernetes.predicates.pod_info import PendingPod, PodInfo, read_pending
from schedulerd.kubernetes.predicates.terms import SpreadConstraint, pod_filters
from schedulerd.kubernetes.predicates.topology_counts import CounterKey, SpreadCounter, TopologyCounter


class JudgedPod:
    """A pod with the counters that its constraints need. Call `release` when it is no longer needed.

    It is ready once `advance` has said so: to make a counter, all groups of pods of the cluster may have to be looked
    at, and a pod has many, so others may run in between.
    """

    __slots__ = ("_acquiring", "_against", "_version", "affinity", "anti_affinity", "info", "pod", "spread")

    def __init__(self, pod: PendingPod, cluster: ClusterState) -> None:
        self.pod = pod
        self.info = pod.info
        self.affinity: list[TopologyCounter] = []
        """Of all terms that have the same topology key: each needs a pod that matches all terms."""
        self.anti_affinity: list[TopologyCounter] = []
        self.spread: list[tuple[SpreadConstraint, SpreadCounter]] = []
        self._acquiring: Iterator[None] | None = None
        if pod.affinity or pod.info.anti_affinity or pod.spread:
            self._acquiring = self._acquire(pod, cluster.counters)
        self._against: tuple[TermHolders, ...] = ()
        self._version = -1

    def advance(self) -> bool:
        """Makes the next counter; False if it has all of them."""
        if self._acquiring is None:
            return False
        if next(self._acquiring, self) is self:
            self._acquiring = None
        return True

    def _acquire(self, pod: PendingPod, counters: Counters) -> Iterator[None]:
        if pod.affinity_filters is not None:
            for topology_key in dict.fromkeys(term.topology_key for term in pod.affinity):
                self.affinity.append(counters.acquire(CounterKey(pod.affinity_filters, topology_key, None)))
                yield
        for term in pod.info.anti_affinity:
            self.anti_affinity.append(counters.acquire(CounterKey(pod_filters((term.pods,)), term.topology_key, None)))
            yield
        for constraint in pod.spread:
            key = CounterKey(pod_filters((constraint.pods,)), constraint.topology_key, constraint.eligibility)
            self.spread.append((constraint, counters.acquire_spread(key)))
            yield

    def release(self, cluster: ClusterState) -> None:
        self._acquiring = None
        for counter in (*self.affinity, *self.anti_affinity, *(counter for _, counter in self.spread)):
            assert counter.key is not None
            cluster.counters.release(counter.key)

    def work(self) -> int:
        """What it costs to judge it on one node, where a pod without constraints costs 1."""
        constraints = len(self.affinity) + len(self.anti_affinity) + len(self.spread) + len(self._against)
        return self.pod.work + constraints // 8

    def against(self, cluster: ClusterState) -> tuple[TermHolders, ...]:
        """The anti-affinity terms of known pods that match this one."""
        index = cluster.anti_affinity
        if self._version != index.version:
            self._against = index.against(self.info)
            self._version = index.version
        return self._against


class KnownPod:
    """A pod of the cluster that is not terminal."""

    __slots__ = ("_judged", "_pending", "info", "node", "pod")

    def __init__(self, pod: Pod, info: PodInfo) -> None:
        self.pod = pod
        self.info = info
        self.node: NodeState | None = None
        """Where it runs or is assumed."""
        self._judged: JudgedPod | None = None
        """What its questions need, from the first question until it has a node; not all of it is there at first."""
        self._pending: PendingPod | None = None
        """What was read of it for questions, as long as it has no node."""

    def read_pending(self) -> PendingPod:
        """The pod as one that looks for a node."""
        if self._pending is not None:
            return self._pending
        pending = read_pending(self.pod, self.info)
        if self.node is None:
            self._pending = pending
        return pending

    def prepare(self, cluster: ClusterState) -> bool:
        """One step of what has to be done before questions can be answered; False if nothing is left of that."""
        if self._judged is None:
            if self.node is not None:
                return False
            self._judged = JudgedPod(self.read_pending(), cluster)
        return self._judged.advance()

    def judged_by(self, cluster: ClusterState) -> tuple[JudgedPod, bool]:
        """What questions about the pod need, and whether it is kept for the next question."""
        judged = self._judged
        if judged is None:
            judged = JudgedPod(self.read_pending(), cluster)
            if self.node is None:
                self._judged = judged
        while judged.advance():
            pass
        return judged, self._judged is judged

    def stop_judging(self, cluster: ClusterState) -> None:
        """The pod has a node, or has changed: nothing is kept for questions about it."""
        self._pending = None
        if self._judged is not None:
            self._judged.release(cluster)
            self._judged = None
