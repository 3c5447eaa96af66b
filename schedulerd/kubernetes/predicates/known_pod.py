"""A pod of the cluster cache, with what was read of it: questions about it come many times, with its node unknown."""

from __future__ import annotations

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.cluster_state import ClusterState, JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeState
from schedulerd.kubernetes.predicates.pod_info import PendingPod, PodInfo, read_pending


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
