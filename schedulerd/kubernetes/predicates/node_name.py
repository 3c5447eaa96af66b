"""NodeName: a pod that names its node runs nowhere else."""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals

NAME = "NodeName"
_REFUSED = (Refusal(NAME, Kind.UNRESOLVABLE, Code.NODE_NAME),)


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    wanted = pod.pod.node_name
    return _REFUSED if wanted and wanted != facts.name else NONE
