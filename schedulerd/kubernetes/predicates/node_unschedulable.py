"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint of cordoned nodes."""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.tolerations import UNSCHEDULABLE_TAINT, is_tolerated

NAME = "NodeUnschedulable"
_REFUSED = (Refusal(NAME, Kind.UNRESOLVABLE, Code.NODE_UNSCHEDULABLE),)


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    if not facts.unschedulable or is_tolerated(UNSCHEDULABLE_TAINT, pod.pod.tolerations):
        return NONE
    return _REFUSED
