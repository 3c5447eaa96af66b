"""Members of gangs that have ended before the start, as far as their pods are still there.

That a gang has run is told by its members that have a node. If all of these have ended meanwhile, those that still wait
would look like a gang that has not run: they would wait for the room of all, and the placeholders that are made again
would hold it for nobody. So a member that was placed and has ended counts as well: for pods that say the same, and that
existed already when it got its node, as others may be of another run. A member whose pod is deleted tells nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from schedulerd.kubernetes.cluster.gangs import declaration
from schedulerd.kubernetes.cluster.gangs.model import EndedMember
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.times import epoch_seconds
from schedulerd.kubernetes.metadata.gangs import TASK_GROUPS, task_group_name
from schedulerd.kubernetes.metadata.names import annotation
from schedulerd.kubernetes.metadata.pods import PodMetadata, User, is_placed, read_metadata
from schedulerd.kubernetes.objects.pod import Pod


def note(model: Model, pod: Pod) -> None:
    """The pod has ended. From the start on, its gang is known."""
    if model.is_started or (said := _said(model, pod)) is None:
        return
    declared = sys.intern(annotation(pod.metadata, TASK_GROUPS))  # a gang has many pods that say the same
    ended = EndedMember(pod.metadata.namespace, said.user, declared, bound_seconds(pod))
    model.ended_members.setdefault(said.application_id, {})[pod.metadata.uid] = ended


def forget(model: Model, pod: Pod) -> None:
    """The pod is deleted."""
    if model.ended_members and (said := _said(model, pod)) is not None:
        of_application = model.ended_members.get(said.application_id, {})
        if of_application.pop(pod.metadata.uid, None) is not None and not of_application:
            del model.ended_members[said.application_id]


def were_placed_with(model: Model, application: Application, waiting: Iterable[OwnPod]) -> bool:
    """Whether a member of their gang was placed when one of these pods existed, and has ended since."""
    last_s: dict[tuple[str, User | None, str], int] = {}
    for one in model.ended_members.get(application.id, {}).values():
        if one.bound_s:
            last_s[one[:3]] = max(one.bound_s, last_s.get(one[:3], 0))
    return bool(last_s) and any(
        epoch_seconds(about.creation_timestamp) <= last_s.get((about.namespace, own.metadata.user, declared), -1)
        for own in waiting
        for about in (own.pod.metadata,)
        for declared in ("", annotation(about, TASK_GROUPS))
    )


def bound_seconds(pod: Pod) -> int:
    """When the pod was bound, in seconds since the epoch, as its condition says; 0 if that is not known."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            return epoch_seconds(condition.last_transition_time)
    return 0


def _said(model: Model, pod: Pod) -> PodMetadata | None:
    """Of a member of a gang that was bound from here; None of any other pod."""
    settings = model.settings
    if not is_placed(pod) or pod.spec.scheduler_name not in settings.scheduler_names:
        return None
    said = read_metadata(pod, one_application_per_pod=settings.one_application_per_pod, ids=settings.application_ids)
    group = declaration.group_key(model, pod)
    if group is not None:
        return declaration.with_group(said, group)
    return said if annotation(pod.metadata, TASK_GROUPS) or task_group_name(pod.metadata) else None
