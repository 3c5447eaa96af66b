"""NodeVolumeLimits: how many volumes of a CSI driver can be attached to a node.

Each distinct volume counts once, however many pods of the node mount it, and so does what is still attached for pods
that are gone. A claim that is not bound yet counts as a volume of its class' driver. The count is over the volumes of
this node's pods, and only for pods that bring new ones to a node with a limit. Source: kube-scheduler's plugin of this
name; Kubernetes' documentation "Node-specific Volume Limits".
"""

from __future__ import annotations

from collections import Counter

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.storage import Handle, Storage, csi_handle

NAME = "NodeVolumeLimits"


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    if not pod.info.claims:
        return NONE
    limits = cluster.storage.limits_of(facts.name)
    if not limits:
        return NONE
    wanted = {
        handle
        for use in pod.info.claims
        if (handle := _handle(cluster.storage, pod.info.namespace, use.name)) is not None and handle.driver in limits
    }
    there = _attached(cluster.storage, node, gone) if wanted else set()
    new = Counter(handle.driver for handle in wanted - there)
    for driver, more in sorted(new.items()):
        volumes = more + sum(handle.driver == driver for handle in there)
        if volumes > limits[driver]:
            return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.VOLUME_LIMIT, (driver, volumes, limits[driver])),)
    return NONE


def _attached(storage: Storage, node: NodeState, gone: Gone | None) -> set[Handle]:
    """What the pods of the node mount, and what is attached to it."""
    claims = Counter(node.claims)
    for leaving in gone.on(node) if gone is not None else ():
        claims.subtract((leaving.namespace, use.name) for use in leaving.claims)
    found = {_handle(storage, *key) for key, users in claims.items() if users > 0}
    for attachment in storage.attached_to(node.name):
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        found.add(csi_handle(volume.volume) if volume is not None else None)
    return {handle for handle in found if handle is not None}


def _handle(storage: Storage, namespace: str, name: str) -> Handle | None:
    claim = storage.claims.get((namespace, name))
    return storage.handle(claim) if claim is not None else None
