"""DynamicResources: claims on devices, which only kube-scheduler can allocate. Pods that have any are refused."""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals

NAME = "DynamicResources"
_REFUSED = (Refusal(NAME, Kind.UNRESOLVABLE, Code.DEVICE_CLAIM),)


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    return _REFUSED if pod.pod.has_device_claims else NONE
