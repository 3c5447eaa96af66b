"""VolumeBinding, the filter: bound volumes can be used on the node, and unbound claims can get one there.

A claim that is missing, lost, being deleted, or not bound although its class binds at once refuses all nodes. A claim
that waits for its first consumer takes the smallest free volume that fits, or else its class has to be able to make
one for the node. `plan` says which volume or class it is. Source: Kubernetes' documentation "Persistent Volumes",
"Storage Classes", "Storage Capacity".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schedulerd.kubernetes.objects.storage import PersistentVolumeClaim
from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.pod_info import ClaimUse, PodInfo
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.storage import Storage, is_bound, is_usable, storage_size
from schedulerd.kubernetes.predicates.volume_choice import smallest_match, unprovisionable

NAME = "VolumeBinding"


@dataclass(slots=True)
class VolumePlan:
    """How the claims of a pod get volumes on a node, or why they do not."""

    to_bind: dict[str, str] = field(default_factory=dict)
    """Names of volumes by claim."""
    to_provision: list[str] = field(default_factory=list)
    """Claims for which a volume is to be made."""
    refusals: Refusals = NONE


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    return plan(pod.info, facts, cluster.storage).refusals


def unusable_claim(pod: PodInfo, storage: Storage) -> Refusal | None:
    """Why the pod cannot run on any node before its claims change; None if it can."""
    for use in pod.claims:
        problem = _claim_problem(pod, use, storage)
        if problem is not None:
            return problem
    for use in pod.claims:
        claim = storage.claims[pod.namespace, use.name]
        if not is_bound(claim) and (claim.spec.volume_name or not storage.waits_for_consumer(claim)):
            return _refusal(Code.CLAIM_UNBOUND, claim.metadata.name)
    return None


def plan(pod: PodInfo, facts: NodeFacts, storage: Storage) -> VolumePlan:
    """How the claims get their volumes if the pod runs on the node."""
    if not pod.claims:
        return VolumePlan()
    problem = unusable_claim(pod, storage)
    if problem is not None:
        return VolumePlan(refusals=(problem,))
    claims = [storage.claims[pod.namespace, use.name] for use in pod.claims]
    found = VolumePlan()
    bound = _bound_problem([claim for claim in claims if is_bound(claim)], facts, storage)
    unbound = _choose([claim for claim in claims if not is_bound(claim)], facts, storage, found)
    found.refusals = tuple(one for one in (bound, unbound) if one is not None)
    return found


def _refusal(code: Code, *data: str) -> Refusal:
    return Refusal(NAME, Kind.UNRESOLVABLE, code, data)


def _claim_problem(pod: PodInfo, use: ClaimUse, storage: Storage) -> Refusal | None:
    """Why the pod cannot use the claim anywhere."""
    claim = storage.claims.get((pod.namespace, use.name))
    if claim is None:
        return _refusal(Code.CLAIM_AWAITED if use.is_ephemeral else Code.CLAIM_NOT_FOUND, use.name)
    if claim.status.phase == "Lost":
        return _refusal(Code.CLAIM_LOST, use.name, claim.spec.volume_name)
    if claim.metadata.deletion_timestamp is not None:
        return _refusal(Code.CLAIM_DELETED, use.name)
    if use.is_ephemeral and not _is_owned(claim, pod):
        return _refusal(Code.CLAIM_FOREIGN, use.name)
    return None


def _is_owned(claim: PersistentVolumeClaim, pod: PodInfo) -> bool:
    """The claim was made for the pod, which controls it."""
    return any(owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references or ())


def _bound_problem(claims: list[PersistentVolumeClaim], facts: NodeFacts, storage: Storage) -> Refusal | None:
    for claim in claims:
        name = claim.spec.volume_name
        volume = storage.volumes.get(name)
        if volume is None:
            return _refusal(Code.VOLUME_NOT_FOUND, name)
        if not is_usable(volume.requirement, facts.labels):
            return _refusal(Code.VOLUME_AFFINITY, name)
    return None


def _choose(
    claims: list[PersistentVolumeClaim], facts: NodeFacts, storage: Storage, found: VolumePlan
) -> Refusal | None:
    """Finds a volume or class for each claim that waits for its first consumer, the smallest claims first."""
    provision: list[PersistentVolumeClaim] = []
    free: list[PersistentVolumeClaim] = []
    for claim in claims:
        selected = storage.selected_node(claim)
        if selected is not None and selected != facts.name:
            return _refusal(Code.VOLUME_NO_MATCH, claim.metadata.name)
        (free if selected is None else provision).append(claim)
    taken: set[str] = set()
    for claim in sorted(free, key=_size):
        volume = smallest_match(claim, facts, storage, taken)
        if volume is None:
            provision.append(claim)
        else:
            taken.add(volume)
            found.to_bind[claim.metadata.name] = volume
    for claim in provision:
        problem = unprovisionable(claim, facts, storage)
        if problem is not None:
            return _refusal(*problem)
        found.to_provision.append(claim.metadata.name)
    return None


def _size(claim: PersistentVolumeClaim) -> int:
    return storage_size(claim.spec.resources.requests) or 0
