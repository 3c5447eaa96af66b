"""What pods say to other batch schedulers, and what says the same here: pods that are moved over are told."""

from __future__ import annotations

from schedulerd.kubernetes.metadata.gangs import COSCHEDULING_LABELS, declares_task_groups, task_group_name
from schedulerd.kubernetes.metadata.names import QUEUE, QUEUE_LABELS, find
from schedulerd.kubernetes.objects.meta import ObjectMeta

_GROUPS = {
    "scheduling.k8s.io/group-name": "Volcano",
    "scheduling.volcano.sh/group-name": "Volcano",
}
"""Labels and annotations that name a gang, and whose they are."""
_QUEUES = {
    "volcano.sh/queue-name": "Volcano",
    "scheduling.volcano.sh/queue-name": "Volcano",
    "kai.scheduler/queue": "KAI",
    "runai/queue": "Run:ai",
}
_NAMES = frozenset(_GROUPS) | frozenset(_QUEUES)
_SHOWN_MAX = 80


def ignored(metadata: ObjectMeta) -> list[str]:
    """A sentence for each label or annotation of another scheduler that would decide where the pod goes there, unless
    the pod says the same in our words."""
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    if _NAMES.isdisjoint(labels) and _NAMES.isdisjoint(annotations):
        return []
    said = {**labels, **annotations}
    found = []
    if not _has_gang(metadata):
        found += _told(said, _GROUPS, "the pod has no gang here without task groups or a PodGroup")
    if not find(metadata, QUEUE, QUEUE_LABELS).value:
        found += _told(said, _QUEUES, "the label queue names the queue here")
    return found


def _has_gang(metadata: ObjectMeta) -> bool:
    labels = metadata.labels or {}
    return (
        declares_task_groups(metadata)
        or bool(task_group_name(metadata))
        or any(labels.get(label) for label in COSCHEDULING_LABELS)
    )


def _told(said: dict[str, str], names: dict[str, str], instead: str) -> list[str]:
    return [
        f"{name} {said[name][:_SHOWN_MAX]!r} is for {whose} and is ignored: {instead}"
        for name, whose in names.items()
        if said.get(name)
    ]
