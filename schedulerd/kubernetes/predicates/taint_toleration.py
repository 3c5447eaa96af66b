"""TaintToleration: the first taint that refuses pods and that the pod does not tolerate."""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.tolerations import first_untolerated

NAME = "TaintToleration"


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    if not facts.taints:
        return NONE
    taint = first_untolerated(facts.taints, pod.pod.tolerations)
    if taint is None:
        return NONE
    return (Refusal(NAME, Kind.UNRESOLVABLE, Code.TAINT, (taint.key, taint.value, taint.effect)),)
