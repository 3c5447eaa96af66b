"""VolumeZone: a volume with a zone or region label is used on nodes of that zone or region only.

A node without any zone or region label takes every volume. Source: kube-scheduler's plugin of this name; Kubernetes'
documentation "Well-Known Labels".
"""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.storage import Storage, claim_class, is_reachable, says_where

NAME = "VolumeZone"


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    for use in pod.info.claims:
        if not use.is_ephemeral:
            refusal = _judge_claim(cluster.storage, pod.info.namespace, use.name, facts)
            if refusal is not None:
                return (refusal,)
    return NONE


def _judge_claim(storage: Storage, namespace: str, name: str, facts: NodeFacts) -> Refusal | None:
    claim = storage.claims.get((namespace, name))
    if claim is None:
        return Refusal(NAME, Kind.UNRESOLVABLE, Code.CLAIM_NOT_FOUND, (name,))
    volume_name = claim.spec.volume_name
    if not volume_name:
        if storage.waits_for_consumer(claim):
            return None
        class_name = claim_class(claim)
        if class_name and class_name not in storage.classes:
            return Refusal(NAME, Kind.UNRESOLVABLE, Code.CLASS_NOT_FOUND, (name, class_name))
        return Refusal(NAME, Kind.UNRESOLVABLE, Code.CLAIM_UNBOUND, (name,))
    volume = storage.volumes.get(volume_name)
    if volume is None:
        return Refusal(NAME, Kind.UNRESOLVABLE, Code.VOLUME_NOT_FOUND, (volume_name,))
    if volume.zones and says_where(facts.labels):
        for zone in volume.zones:
            if not is_reachable(zone, facts.labels):
                return Refusal(NAME, Kind.UNRESOLVABLE, Code.VOLUME_ZONE, (volume_name,))
    return None
