"""Claims that keep a pod from being asked for: missing ones of volumes, those that are bound without a pod and are not,
and any of devices.

Kubernetes does not place a pod before its claims exist. A claim that waits for its first consumer keeps no pod: it gets
its volume together with the node of the pod (`volumes`).
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.pod_info import ephemeral_claim
from schedulerd.kubernetes.predicates.storage import ClaimKey
from schedulerd.kubernetes.predicates.words import todays_words


def unusable(model: Model, own: OwnPod) -> str:
    """Why the pod has to wait for a claim, in the words of kube-scheduler; empty if it need not. It is considered again
    whenever one of its claims changes."""
    if own.pod.spec.resource_claims:
        return "pod has resource claims, which schedulerd does not support"
    refusal = model.predicates.unusable_claim(own.pod)
    if refusal is None:
        return ""
    for key in _claims(own.pod):
        model.waiting_for_claims.setdefault(key, {})[own.uid] = None
    return ", ".join(todays_words(refusal))


def take_waiting(model: Model, key: ClaimKey) -> list[OwnPod]:
    """The pods that waited for the claim, which wait no longer."""
    uids = model.waiting_for_claims.pop(key, {})
    return [own for uid in uids if (own := model.pods.get(uid)) is not None]


def all_waiting(model: Model) -> list[OwnPod]:
    """The pods that wait for any claim."""
    uids = dict.fromkeys(uid for waiting in model.waiting_for_claims.values() for uid in waiting)
    return [own for uid in uids if (own := model.pods.get(uid)) is not None]


def stop_waiting(model: Model, own: OwnPod) -> None:
    for key in _claims(own.pod):
        waiting = model.waiting_for_claims.get(key)
        if waiting is not None and waiting.pop(own.uid, 0) is None and not waiting:
            del model.waiting_for_claims[key]


def _claims(pod: Pod) -> list[ClaimKey]:
    namespace, found = pod.metadata.namespace, []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found.append((namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            found.append((namespace, ephemeral_claim(pod.metadata.name, volume.name)))
    return found
