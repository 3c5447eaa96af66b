"""VolumeRestrictions: disks that two pods of a node cannot share, and claims that only one pod of the cluster may use.

The same GCE disk, iSCSI target or RBD image (a monitor in common) is shared only by pods that all mount it read-only;
the same EBS volume never. A claim with ReadWriteOncePod is used by one pod. Source: kube-scheduler's plugin of this
name; Kubernetes' documentation "Persistent Volumes: Access Modes".
"""

from __future__ import annotations

from schedulerd.kubernetes.objects.volumes import Volume
from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone, JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals

NAME = "VolumeRestrictions"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


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
            for leaving, _ in gone.pods.values() if gone is not None else ():
                users -= leaving.namespace == namespace and any(one.name == use.name for one in leaving.claims)
            if users > 0:
                return use.name
    return None


def _disk_in_use(pod: JudgedPod, node: NodeState, gone: Gone | None) -> str | None:
    """Name of the first volume that conflicts with one of a pod on the node."""
    for uid, other in node.disks.items():
        if gone is not None and uid in gone.pods:
            continue
        for mine in pod.info.disks:
            if any(_conflicts(mine, theirs) for theirs in other.disks):
                return mine.name
    return None


def _conflicts(one: Volume, other: Volume) -> bool:
    gce, other_gce = one.gce_persistent_disk, other.gce_persistent_disk
    if gce is not None and other_gce is not None and gce.pd_name == other_gce.pd_name:
        return not (gce.read_only and other_gce.read_only)
    ebs, other_ebs = one.aws_elastic_block_store, other.aws_elastic_block_store
    if ebs is not None and other_ebs is not None and ebs.volume_id == other_ebs.volume_id:
        return True
    iscsi, other_iscsi = one.iscsi, other.iscsi
    if iscsi is not None and other_iscsi is not None and iscsi.iqn == other_iscsi.iqn:
        return not (iscsi.read_only and other_iscsi.read_only)
    rbd, other_rbd = one.rbd, other.rbd
    if rbd is not None and other_rbd is not None and (rbd.pool, rbd.image) == (other_rbd.pool, other_rbd.image):
        shared = set(rbd.monitors or ()) & set(other_rbd.monitors or ())
        return bool(shared) and not (rbd.read_only and other_rbd.read_only)
    return False
