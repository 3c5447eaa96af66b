"""Claims that wait for their first consumer get their volumes when the pod has a node, and before it is bound to it.

    allocated ──▶ reserved here ──▶ written ──▶ controllers bind the claims ──▶ the pod is bound
                       │               │                    │
                       └───────────────┴──── given back ◀───┴── changed by others, given up by the provisioner, late

An existing volume is promised to its claim by its `claimRef`; for a new one the claim says for which node it is to be
made. The rest is the work of Kubernetes' controllers and of the provisioner. Whatever is written already, by this
process or an earlier one, is not written again. Source: kube-scheduler's plugin VolumeBinding (Reserve and PreBind).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from schedulerd.kubernetes.cluster.effects import BindVolume, ClaimName, SelectNode
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_volumes import AwaitedVolumes, PodVolumes, WriteKey, Written
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.objects.storage import PersistentVolumeClaim
from schedulerd.kubernetes.predicates.node_state import NodeFacts
from schedulerd.kubernetes.predicates.refused_pods import STORAGE
from schedulerd.kubernetes.predicates.storage import (
    SELECTED_NODE_ANNOTATION,
    ClaimKey,
    VolumeFacts,
    is_bound,
    is_usable,
)
from schedulerd.kubernetes.predicates.volume_binding import VolumePlan

RETRY_FIRST_NS = SECOND_NS
RETRY_MOST_NS = 10 * SECOND_NS
"""As long as a pod of kube-scheduler waits at most; an application without asks is completed after 30 s."""
WRITE_AGAIN_NS = 5 * SECOND_NS
"""After a write of which nobody knows whether it was performed."""


class Progress(Enum):
    WAITING = "waiting"
    BOUND = "bound"
    CHANGED = "changed"
    """Somebody else has changed what was chosen: another choice may do, on this node too."""
    REFUSED = "refused"
    """Not on this node."""


class Outlook(NamedTuple):
    progress: Progress
    problem: str = ""


_WAITING, _BOUND = Outlook(Progress.WAITING), Outlook(Progress.BOUND)


def begin(model: Model, own: OwnPod, plan: VolumePlan) -> None:
    """The pod has its node, and its claims are to get these volumes there."""
    if own.volumes is None:
        own.volumes = PodVolumes()
    namespace = own.name.namespace
    claims = (*plan.to_bind, *plan.to_provision)
    uids = {name: model.cache.storage.claims[namespace, name].metadata.uid for name in claims}
    until_ns = model.now_ns + model.settings.volume_bind_timeout_ns
    awaited = AwaitedVolumes(dict(plan.to_bind), tuple(plan.to_provision), uids, until_ns)
    own.volumes.attempt += 1
    own.volumes.awaited = awaited
    for key in _keys(own, awaited):
        model.awaiting_volumes.setdefault(key, {})[own.uid] = None
    model.cache.storage.assumed.assume(
        own.uid,
        {volume: (namespace, claim) for claim, volume in awaited.to_bind.items()},
        dict.fromkeys(((namespace, claim) for claim in awaited.to_provision), own.node),
    )
    model.timers.set(until_ns, Due.VOLUMES, own.uid)
    note = f"node {own.node}: waits for the volumes of {', '.join(claims)}"
    model.record(own, "WaitingForVolumes", "Binding", note)
    write(model, own)


def write(model: Model, own: OwnPod) -> None:
    """Says what is not said yet and not under way."""
    awaited = awaited_of(own)
    assert awaited is not None
    for name in awaited.uids:
        claim = _claim_named(model, own, name)
        if claim is None:
            continue
        if name in awaited.to_bind:
            _bind_volume(model, own, awaited, claim)
        else:
            _select_node(model, own, awaited, claim)


def awaited_of(own: OwnPod) -> AwaitedVolumes | None:
    return own.volumes.awaited if own.volumes is not None else None


def stop(model: Model, own: OwnPod) -> None:
    """The pod waits for no volumes any longer, and nothing is kept for it."""
    awaited = awaited_of(own)
    if own.volumes is None or awaited is None:
        return
    own.volumes.awaited = None
    for key in _keys(own, awaited):
        waiting = model.awaiting_volumes.get(key)
        if waiting is not None:
            waiting.pop(own.uid, None)
            if not waiting:
                del model.awaiting_volumes[key]
    model.cache.storage.assumed.forget(own.uid)
    model.cache.refused.happened(STORAGE)


def back_off(model: Model, own: OwnPod) -> None:
    """The pod is not asked for before the time is over."""
    assert own.volumes is not None
    delay_ns = min(RETRY_FIRST_NS << min(own.volumes.failures, 10), RETRY_MOST_NS)
    own.volumes.failures += 1
    own.volumes.again_ns = model.now_ns + delay_ns
    model.timers.set(own.volumes.again_ns, Due.VOLUMES, own.uid)


def affected(model: Model, claim: ClaimKey | None = None, volume: str = "") -> list[OwnPod]:
    """The pods that wait for this claim, or for this volume."""
    if not model.awaiting_volumes:
        return []
    uids = dict(model.awaiting_volumes.get(claim, {})) if claim is not None else {}
    uids |= model.awaiting_volumes.get(("", volume), {})
    return [own for uid in uids if (own := model.pods.get(uid)) is not None]


def look(model: Model, own: OwnPod) -> Outlook:
    """What has become of the volumes."""
    awaited = awaited_of(own)
    assert awaited is not None
    facts = model.cache.node_facts(own.node)
    if facts is None:
        return Outlook(Progress.REFUSED, "the node is gone")
    if awaited.unanswered:
        return _WAITING
    found = [_look_at(model, own, awaited, facts, name) for name in awaited.uids]
    problem = next((one for one in found if one.problem), None)
    if problem is not None:
        return problem
    if all(one is _BOUND for one in found):
        return _BOUND
    if model.now_ns >= awaited.until_ns:
        missing = [name for name, one in zip(awaited.uids, found, strict=True) if one is not _BOUND]
        return Outlook(Progress.REFUSED, f"no volume in time for persistentvolumeclaim {', '.join(missing)}")
    return _WAITING


def _look_at(model: Model, own: OwnPod, awaited: AwaitedVolumes, facts: NodeFacts, name: str) -> Outlook:
    claim = _claim_named(model, own, name)
    if claim is None or claim.metadata.uid != awaited.uids[name]:
        return Outlook(Progress.CHANGED, f'persistentvolumeclaim "{name}" is gone')
    chosen = claim.spec.volume_name or awaited.to_bind.get(name, "")
    volume = model.cache.storage.volumes.get(chosen)
    if volume is not None and not is_usable(volume.requirement, facts.labels):
        return Outlook(Progress.REFUSED, f'persistentvolume "{chosen}" cannot be used there')
    if is_bound(claim):
        # The watch of volumes may be behind that of claims: until then the volume would look free.
        return _BOUND if volume is not None and _is_promised(volume, claim) else _WAITING
    return _volume_outlook(awaited, claim, volume) if name in awaited.to_bind else _claim_outlook(own, awaited, claim)


def _volume_outlook(awaited: AwaitedVolumes, claim: PersistentVolumeClaim, volume: VolumeFacts | None) -> Outlook:
    """Of a claim that an existing volume was promised to."""
    name = awaited.to_bind[claim.metadata.name]
    if volume is None:
        return Outlook(Progress.CHANGED, f'persistentvolume "{name}" is gone')
    if _is_promised(volume, claim) or not _is_said(awaited, WriteKey(Written.VOLUME, name), volume):
        return _WAITING
    return Outlook(Progress.CHANGED, f'persistentvolume "{name}" was taken from persistentvolumeclaim "{_name(claim)}"')


def _claim_outlook(own: OwnPod, awaited: AwaitedVolumes, claim: PersistentVolumeClaim) -> Outlook:
    """Of a claim that gets a new volume. A provisioner that cannot make one there takes the annotation away."""
    is_selected = _selected(claim) == own.node
    if is_selected or not _is_said(awaited, WriteKey(Written.CLAIM, _name(claim)), claim):
        return _WAITING
    return Outlook(Progress.REFUSED, f'no volume could be made there for persistentvolumeclaim "{_name(claim)}"')


def _bind_volume(model: Model, own: OwnPod, awaited: AwaitedVolumes, claim: PersistentVolumeClaim) -> None:
    facts = model.cache.storage.volumes.get(awaited.to_bind[_name(claim)])
    if facts is None or own.volumes is None:
        return
    metadata = facts.volume.metadata
    key = WriteKey(Written.VOLUME, metadata.name)
    if _is_promised(facts, claim):
        awaited.versions.setdefault(key, metadata.resource_version)
    elif key not in awaited.unanswered and key not in awaited.versions:
        awaited.unanswered.add(key)
        was_promised = facts.volume.spec.claim_ref is not None
        attempt, version = own.volumes.attempt, metadata.resource_version
        model.effects.append(
            BindVolume(own.name, attempt, metadata.name, metadata.uid, version, _claim_name(claim), was_promised)
        )


def _select_node(model: Model, own: OwnPod, awaited: AwaitedVolumes, claim: PersistentVolumeClaim) -> None:
    key = WriteKey(Written.CLAIM, _name(claim))
    if own.volumes is None:
        return
    if _selected(claim) == own.node:
        awaited.versions.setdefault(key, claim.metadata.resource_version)
    elif key not in awaited.unanswered and key not in awaited.versions:
        awaited.unanswered.add(key)
        model.effects.append(SelectNode(own.name, own.volumes.attempt, _claim_name(claim), own.node))


def _is_said(awaited: AwaitedVolumes, key: WriteKey, thing: PersistentVolumeClaim | VolumeFacts) -> bool:
    """What was written is in the object as it is known, or was in it."""
    written = awaited.versions.get(key)
    metadata = thing.volume.metadata if isinstance(thing, VolumeFacts) else thing.metadata
    return written is not None and not _is_older(metadata.resource_version, written)


def _is_older(version: str, other: str) -> bool:
    """Versions of one object are numbers that grow."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def _is_promised(volume: VolumeFacts, claim: PersistentVolumeClaim) -> bool:
    reference = volume.volume.spec.claim_ref
    return reference is not None and reference.uid == claim.metadata.uid


def _selected(claim: PersistentVolumeClaim) -> str | None:
    return (claim.metadata.annotations or {}).get(SELECTED_NODE_ANNOTATION)


def _claim_named(model: Model, own: OwnPod, name: str) -> PersistentVolumeClaim | None:
    return model.cache.storage.claims.get((own.name.namespace, name))


def _name(claim: PersistentVolumeClaim) -> str:
    return claim.metadata.name


def _claim_name(claim: PersistentVolumeClaim) -> ClaimName:
    metadata = claim.metadata
    return ClaimName(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version)


def _keys(own: OwnPod, awaited: AwaitedVolumes) -> list[ClaimKey]:
    """Claims, and volumes without a namespace."""
    namespace = own.name.namespace
    return [*((namespace, name) for name in awaited.uids), *(("", volume) for volume in awaited.to_bind.values())]
