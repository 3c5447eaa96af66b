"""InterPodAffinity: required pod affinity and anti-affinity, of the pod and of the pods that run already.

In this order: (a) each affinity term needs a pod in the node's topology value that matches all terms of the pod; if no
pod anywhere does, the first pod of a group may start where it likes, provided it matches its own terms. (b) No pod in
the node's value may match an anti-affinity term. (c) No pod in the node's value may have an anti-affinity term that
matches the pod. Pods that are being deleted count, as long as they have a node. Source: Kubernetes' documentation
"Inter-pod affinity and anti-affinity".
"""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.topology_counts import TopologyCounter

NAME = "InterPodAffinity"


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    if pod.affinity:
        unmet = _unmet_affinity(pod, facts, cluster, gone)
        if unmet is not None:
            return (Refusal(NAME, Kind.UNRESOLVABLE, Code.POD_AFFINITY, (unmet,)),)
    for counter in pod.anti_affinity:
        if _pods_at(counter, facts, gone):
            return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.POD_ANTI_AFFINITY, (counter.topology_key,)),)
    for holders in pod.against(cluster):
        if _pods_at(holders, facts, gone):
            return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.EXISTING_ANTI_AFFINITY, (holders.topology_key,)),)
    return NONE


def _unmet_affinity(pod: JudgedPod, facts: NodeFacts, cluster: ClusterState, gone: Gone | None) -> str | None:
    """Topology key of the first term that is not met. A node without a term's label never meets it."""
    missing = next((one.topology_key for one in pod.affinity if one.topology_key not in facts.labels), None)
    if missing is not None:
        return missing
    unmet = next((counter.topology_key for counter in pod.affinity if not _pods_at(counter, facts, gone)), None)
    if unmet is not None and _is_first_of_group(pod, cluster, gone):
        return None
    return unmet


def _is_first_of_group(pod: JudgedPod, cluster: ClusterState, gone: Gone | None) -> bool:
    """No pod that matches all terms is on a node with any of their labels, and the pod matches them itself."""
    for counter in pod.affinity:
        if counter.total > (sum(gone.counted(counter).values()) if gone is not None else 0):
            return False
    filters = pod.pod.affinity_filters
    return filters is not None and cluster.counters.selects(filters, pod.info)


def _pods_at(counter: TopologyCounter, facts: NodeFacts, gone: Gone | None) -> int:
    """Pods that count in the node's topology value; none if the node has no such label."""
    value = facts.labels.get(counter.topology_key)
    if value is None:
        return 0
    pods = counter.by_value.get(value, 0)
    if pods and gone is not None:
        pods -= gone.counted(counter).get(value, 0)
    return pods
