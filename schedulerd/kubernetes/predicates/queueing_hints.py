"""Which changes of the cluster may lift a refusal, by its code; and which of them come with a pod that leaves a node.

A change that lifts nothing after all only costs questions. What the daemon is told of a node (labels, classes, room) it
asks about again by itself, and so it does about a new node. Source: `EventsToRegister` of kube-scheduler's plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedulerd.kubernetes.predicates.cluster_state import ClusterState
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.refusal import Code, Refusal
from schedulerd.kubernetes.predicates.refused_pods import ATTACHED, DISKS, NODES, STORAGE, Change, What
from schedulerd.kubernetes.predicates.topology_counts import TopologyCounter

_ANY_OTHER_COUNT = (What.MORE, What.FEWER)
_FEWER = (What.FEWER,)

_BY_CODE: dict[Code, tuple[Change, ...]] = {
    # A class beyond those that nodes have as attributes, and a pod with a required node, are judged by the callback
    # alone, and the daemon knows neither taints nor cordon.
    Code.NODE_UNSCHEDULABLE: (NODES,),
    Code.TAINT: (NODES,),
    Code.NODE_AFFINITY: (NODES,),
    Code.NODE_AFFINITY_CONFLICT: (NODES,),
    Code.SPREAD_LABEL_MISSING: (NODES,),
    Code.SPREAD_SKEW: (NODES,),
    Code.POD_AFFINITY: (NODES,),
    Code.POD_ANTI_AFFINITY: (NODES,),
    Code.EXISTING_ANTI_AFFINITY: (NODES,),
    Code.DISK_CONFLICT: (DISKS,),
    Code.CLAIM_IN_USE: (STORAGE,),
    Code.VOLUME_LIMIT: (ATTACHED, STORAGE),
    Code.VOLUME_ZONE: (NODES, STORAGE),
    Code.CLAIM_NOT_FOUND: (STORAGE,),
    Code.CLAIM_AWAITED: (STORAGE,),
    Code.CLAIM_LOST: (STORAGE,),
    Code.CLAIM_DELETED: (STORAGE,),
    Code.CLAIM_FOREIGN: (STORAGE,),
    Code.CLAIM_UNBOUND: (STORAGE,),
    Code.VOLUME_AFFINITY: (NODES, STORAGE),
    Code.VOLUME_NOT_FOUND: (STORAGE,),
    Code.VOLUME_NO_MATCH: (NODES, STORAGE),
    Code.VOLUME_NO_SPACE: (NODES, STORAGE),
    Code.CLASS_NOT_FOUND: (STORAGE,),
}
"""What is the same for all pods; the rest is in `_of_pod`."""


def lifting(
    pod: JudgedPod, node: str, refusals: Iterable[Refusal], cluster: ClusterState, *, ignores_pods: bool = False
) -> Iterator[Change]:
    """The changes that may lift what a node says of the pod. `ignores_pods`: some pods that are there were counted as
    gone, so that a counter may say 2 when the first pod comes that matters."""
    for refusal in refusals:
        yield from _BY_CODE.get(refusal.code, ())
        yield from _of_pod(pod, node, refusal, cluster, ignores_pods)


def _of_pod(pod: JudgedPod, node: str, refusal: Refusal, cluster: ClusterState, ignores_pods: bool) -> Iterator[Change]:
    namespace = pod.info.namespace
    match refusal.code:
        case Code.HOST_PORT:
            yield Change(What.PORT, refusal.data[:2])
        case Code.TOO_MANY_PODS | Code.INSUFFICIENT:
            yield Change(What.ROOM, node)
        case Code.CLAIM_IN_USE:
            yield Change(What.CLAIM, (namespace, refusal.data[0]))
        case Code.SPREAD_SKEW:
            yield from _of_counters((counter for _, counter in pod.spread), (What.FEWER, What.MINIMUM))
        case Code.POD_AFFINITY:
            # Without any pod that matches, the first of a group may start where it likes.
            kinds = _ANY_OTHER_COUNT if ignores_pods else (What.FIRST, What.NONE_LEFT)
            yield from _of_counters(pod.affinity, kinds)
            yield Change(What.NAMESPACE, namespace)  # the pod may match its own terms then
        case Code.POD_ANTI_AFFINITY:
            yield from _of_counters(pod.anti_affinity, _FEWER)
        case Code.EXISTING_ANTI_AFFINITY:
            yield from _of_counters((one for one in pod.against(cluster) if one.total), _FEWER)
            yield Change(What.NAMESPACE, namespace)


def _of_counters(counters: Iterable[TopologyCounter], kinds: tuple[What, ...]) -> Iterator[Change]:
    for counter in counters:
        for what in kinds:
            yield Change(what, counter)


def freed_by(pod: PodInfo, node: str) -> Iterator[Change]:
    """What changes when the pod leaves the node, beside what counters tell."""
    yield Change(What.ROOM, node)
    for port in pod.ports:
        yield Change(What.PORT, (port.protocol, port.port))
    if pod.disks:
        yield DISKS
    for use in pod.claims:
        yield Change(What.CLAIM, (pod.namespace, use.name))
    if pod.claims:
        yield ATTACHED
