"""NodeAffinity: `nodeSelector` and required node affinity.

Every pair of `nodeSelector` is to be equal, and, if there is required affinity, one of its terms is to match. A term
without requirements, and one that cannot be read, matches no node. Source: Kubernetes' documentation "Assigning Pods to
Nodes".
"""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_requirement import ANY_NODE
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals

NAME = "NodeAffinity"
_REFUSED = (Refusal(NAME, Kind.UNRESOLVABLE, Code.NODE_AFFINITY),)
_CONFLICT = (Refusal(NAME, Kind.UNRESOLVABLE, Code.NODE_AFFINITY_CONFLICT),)


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    requirement = pod.pod.requirement
    if requirement is ANY_NODE or requirement.matches(facts.name, facts.labels):
        return NONE
    return _CONFLICT if requirement.contradicts_itself else _REFUSED
