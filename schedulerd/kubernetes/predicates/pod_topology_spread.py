"""PodTopologySpread: constraints with `DoNotSchedule`.

For each constraint the pods of the pod's own namespace that match and are not being deleted are counted by topology
value, on the nodes that count. A node counts if it has the topology keys of all hard constraints of the pod, and passes
the pod's node affinity (unless `nodeAffinityPolicy: Ignore`) and taints (only if `nodeTaintsPolicy: Honor`). A node is
refused if its value would have more than `maxSkew` pods above the minimum over all values; the minimum is 0 while there
are fewer values than `minDomains`. Source: Kubernetes' documentation "Pod Topology Spread Constraints".
"""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.terms import SpreadConstraint
from schedulerd.kubernetes.predicates.topology_counts import SpreadCounter

NAME = "PodTopologySpread"


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    for constraint, counter in pod.spread:
        value = facts.labels.get(constraint.topology_key)
        if value is None:
            return (Refusal(NAME, Kind.UNRESOLVABLE, Code.SPREAD_LABEL_MISSING, (constraint.topology_key,)),)
        pods, minimum = _counts(constraint, counter, value, gone)
        if pods - minimum > constraint.max_skew:
            data = (constraint.topology_key, pods, minimum, constraint.max_skew)
            return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.SPREAD_SKEW, data),)
    return NONE


def _counts(constraint: SpreadConstraint, counter: SpreadCounter, value: str, gone: Gone | None) -> tuple[int, int]:
    """Pods that the value would have with this pod, and the minimum over all values without it."""
    pods = counter.by_value.get(value, 0) + constraint.counts_itself
    minimum = counter.minimum()
    if gone is not None:
        leaving = gone.counted(counter)
        pods -= leaving.get(value, 0)
        for other, fewer in leaving.items():
            minimum = min(minimum, counter.by_value[other] - fewer)
    return pods, minimum if len(counter.values) >= constraint.min_domains else 0
