"""VolumeRestrictions: disks that two pods of a node cannot share, and claims that only one pod of the cluster may use.

The same GCE disk, iSCSI target or RBD image (a monitor in common) is shared only by pods that all mount it read-only;
the same EBS volume never. A claim with ReadWriteOncePod is used by one pod. Source: kube-scheduler's plugin of this
name; Kubernetes' documentation "Persistent Volumes: Access Modes".
"""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals

NAME = "VolumeRestrictions"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_NONE: Mapping[str, bool] = {}


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    claim = _claim_in_use(pod, cluster, gone) if pod.info.claims else None
    if claim is not None:
        return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.CLAIM_IN_USE, (claim,)),)
    disk = _disk_in_use(pod, node, gone) if pod.info.disks and node.disks else None
    if disk is not None:
        return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.DISK_CONFLICT, (disk,)),)
    return NONE


def _claim_in_use(pod: JudgedPod, cluster: ClusterState, gone: Gone | None) -> str | None:
    """The first claim for one pod that a pod on a node uses."""
    namespace = pod.info.namespace
    for use in pod.info.claims:
        claim = cluster.storage.claims.get((namespace, use.name))
        if claim is not None and READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
            users = cluster.claim_users.get((namespace, use.name), 0)
            if gone is not None:
                users -= gone.claim_users.get((namespace, use.name), 0)
            if users > 0:
                return use.name
    return None


def _disk_in_use(pod: JudgedPod, node: NodeState, gone: Gone | None) -> str | None:
    """Name of the first volume that conflicts with one of a pod on the node."""
    for disk in pod.info.disks:
        for uid, is_written in node.disks.get(disk.key, _NONE).items():
            if (disk.is_written or is_written) and not (gone is not None and uid in gone.pods):
                return disk.volume
    return None
