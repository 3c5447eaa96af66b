"""Refusals in kube-scheduler's words: those of Kubernetes 1.34 and later for people, those of 1.20 for comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from schedulerd.kubernetes.predicates.refusal import Code, Refusal

Words: TypeAlias = Callable[[Refusal], tuple[str, ...]]
"""The reasons that a refusal is given in."""

_PODS_AFFINITY_1_20 = "node(s) didn't match pod affinity/anti-affinity"
_SPREAD = "node(s) didn't match pod topology spread constraints"
_VOLUME_ZONE = "node(s) had no available volume zone"

_TODAY: dict[Code, str] = {
    Code.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    Code.NODE_NAME: "node(s) didn't match the requested node name",
    Code.TAINT: "node(s) had untolerated taint(s)",
    Code.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    Code.NODE_AFFINITY_CONFLICT: "pod affinity terms conflict",
    Code.HOST_PORT: "node(s) didn't have free ports for the requested pod ports",
    Code.TOO_MANY_PODS: "Too many pods",
    Code.INSUFFICIENT: "Insufficient {0}",
    Code.SPREAD_SKEW: _SPREAD,
    Code.SPREAD_LABEL_MISSING: f"{_SPREAD} (missing required label)",
    Code.POD_AFFINITY: "node(s) didn't match pod affinity rules",
    Code.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Code.EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    Code.DISK_CONFLICT: "node(s) had no available disk",
    Code.CLAIM_IN_USE: "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
    Code.VOLUME_LIMIT: "node(s) exceed max volume count",
    Code.VOLUME_ZONE: _VOLUME_ZONE,
    Code.CLAIM_NOT_FOUND: 'persistentvolumeclaim "{0}" not found',
    Code.CLAIM_AWAITED: 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{0}"',
    Code.CLAIM_LOST: 'persistentvolumeclaim "{0}" bound to non-existent persistentvolume "{1}"',
    Code.CLAIM_DELETED: 'persistentvolumeclaim "{0}" is being deleted',
    Code.CLAIM_FOREIGN: 'persistentvolumeclaim "{0}" was not created for the pod',
    Code.CLAIM_UNBOUND: "pod has unbound immediate PersistentVolumeClaims",
    Code.VOLUME_AFFINITY: "node(s) didn't match PersistentVolume's node affinity",
    Code.VOLUME_NOT_FOUND: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    Code.VOLUME_NO_MATCH: "node(s) didn't find available persistent volumes to bind",
    Code.VOLUME_NO_SPACE: "node(s) did not have enough free storage",
    Code.CLASS_NOT_FOUND: 'storageclass "{1}" of persistentvolumeclaim "{0}" not found',
    Code.NODE_UNKNOWN: "node(s) were not found",
    Code.DEVICE_CLAIM: "pod has resource claims, which schedulerd does not support",
    Code.MALFORMED: "pod has an unreadable field: {0}: {1}",
}

_1_20: dict[Code, tuple[str, ...]] = {
    **{code: (words,) for code, words in _TODAY.items()},
    Code.NODE_NAME: ("node(s) didn't match the requested hostname",),
    Code.TAINT: ("node(s) had taint {{{0}: {1}}}, that the pod didn't tolerate",),
    Code.NODE_AFFINITY: ("node(s) didn't match Pod's node affinity",),
    Code.NODE_AFFINITY_CONFLICT: ("node(s) didn't match Pod's node affinity",),
    Code.POD_AFFINITY: (_PODS_AFFINITY_1_20, _TODAY[Code.POD_AFFINITY]),
    Code.POD_ANTI_AFFINITY: (_PODS_AFFINITY_1_20, _TODAY[Code.POD_ANTI_AFFINITY]),
    Code.EXISTING_ANTI_AFFINITY: (_PODS_AFFINITY_1_20, _TODAY[Code.EXISTING_ANTI_AFFINITY]),
    Code.VOLUME_AFFINITY: ("node(s) had volume node affinity conflict",),
}


def todays_words(refusal: Refusal) -> tuple[str, ...]:
    """As kube-scheduler 1.34 and later says it; what it cannot say is said in the same manner."""
    return (_TODAY[refusal.code].format(*refusal.data),)


def words_of_1_20(refusal: Refusal) -> tuple[str, ...]:
    """As kube-scheduler 1.20 said it."""
    return tuple(words.format(*refusal.data) for words in _1_20[refusal.code])


def reasons(refusals: Iterable[Refusal], words: Words = todays_words) -> list[str]:
    """What a node says, in order, each reason once."""
    return list(dict.fromkeys(reason for refusal in refusals for reason in words(refusal)))


def sentence(refused: Mapping[str, Iterable[Refusal]], nodes: int, words: Words = todays_words) -> str:
    """`0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable.`, from what each node says.

    Kube-scheduler counts every reason once per node and sorts the counted reasons as text.
    """
    counts = Counter(reason for refusals in refused.values() for reason in reasons(refusals, words))
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"{nodes - len(refused)}/{nodes} nodes are available{': ' if listed else ''}{listed}."
