"""Gangs without placeholder pods: the daemon is told their task groups, and holds room for the members by itself.

All pods of a PodGroup exist when it is formed, and those of a task group by annotations may: then room is held for
these very pods. Otherwise it is held as the task group says, for whichever of its pods come.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import asking
from schedulerd.kubernetes.cluster.effects import AddApplication
from schedulerd.kubernetes.cluster.gangs import placeholder_pods
from schedulerd.kubernetes.cluster.gangs.model import ALL_MEMBERS, TASK_GROUPS_TAG, Gang, Group, KnownGroup
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.metadata.gangs import (
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    PlaceholderKind,
    TaskGroup,
    task_group_name,
)
from schedulerd.kubernetes.metadata.pods import may_be_preempted, may_preempt, read_metadata
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.held_room import counts_as


def needs_placeholders(model: Model, application: Application, gang: Gang, real: list[OwnPod]) -> bool:
    """Placeholder pods make an autoscaler, or another scheduler, see the room of members that do not exist yet."""
    if gang.key is not None or gang.kind is PlaceholderKind.NONE:
        return False
    if gang.kind is PlaceholderKind.PODS and _has_topology(gang):
        return False  # the daemon finds a domain for the gang as a whole
    has_some = any(
        model.pods[uid].slot is None for uid in model.placeholders.get(application.id, {}) if uid in model.pods
    )
    return has_some or gang.kind is PlaceholderKind.ALWAYS or not _all_exist(gang.declared, real)


def _has_topology(gang: Gang) -> bool:
    return bool(gang.wishes.keys() & {TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED}) or any(
        one.topology for one in gang.declared
    )


def _all_exist(declared: tuple[TaskGroup, ...], real: list[OwnPod]) -> bool:
    there = Counter(task_group_name(own.pod.metadata) for own in real)
    return all(there[one.name] >= one.members for one in declared)


def find_groups(
    model: Model, application: Application, gang: Gang, real: list[OwnPod], known: KnownGroup | None
) -> None:
    """The task groups of a gang that is formed of these pods."""
    if known is not None:
        gang.groups = {ALL_MEMBERS: Group(ALL_MEMBERS, known.min_member, {})}
        return
    for group in gang.groups.values():
        assert group.declared is not None
        if not _all_exist((group.declared,), real):
            _find_pattern(model, application, gang, group)


def _find_pattern(model: Model, application: Application, gang: Gang, group: Group) -> None:
    key = pattern_key(application.id, group.name)
    pod = _pattern(model, application, gang, group, key)
    said = read_metadata(pod, ids=model.settings.application_ids)
    group.pattern = model.patterns[key] = OwnPod(key, pod, said, is_placeholder=True, task_group=group.name)
    group.pattern.application = application
    group.pattern.counted_as = counts_as(pod, group.oldest.pod if group.oldest is not None else None)
    model.cache.put_pod(group.pattern.judged)


def pattern_key(application_id: ApplicationId, group: str) -> str:
    """By which the daemon's questions about room for any member of a task group are known."""
    return f"{application_id.namespace}/{application_id.name}/{group}"


def forget(model: Model, gang: Gang) -> None:
    """The gang is over, or formed anew."""
    gang.tag = ""
    for group in gang.groups.values():
        if group.pattern is not None:
            model.stop_using_class(group.pattern)
            model.patterns.pop(group.pattern.uid, None)
            model.cache.remove_pod(group.pattern.uid)
            group.pattern = None


def with_groups(model: Model, gang: Gang, added: AddApplication) -> AddApplication:
    """The application as it is added."""
    gang.tag = tag(model, gang)
    return replace(
        added,
        tags={**added.tags, **gang.annotations, **gang.wishes, TASK_GROUPS_TAG: gang.tag},
        gang_style=gang.style.value,
        gang_timeout_s=gang.timeout_s,
    )


def tag(model: Model, gang: Gang) -> str:
    """The task groups as the daemon reads them (`docs/gangs.md`)."""
    return msgspec.json.encode([_said(model, gang, group) for group in gang.groups.values()]).decode()


def _said(model: Model, gang: Gang, group: Group) -> dict[str, Any]:
    said: dict[str, Any] = {"name": group.name, "min": group.members}
    if gang.was_complete:
        said["begun"] = True
    if group.declared is not None and group.declared.members_max:
        said["max"] = group.declared.members_max
    if group.declared is not None and group.declared.topology:
        said["topology"] = group.declared.topology
    if group.pattern is not None:
        pod = group.pattern.pod
        priority_class = model.priority_classes.get(pod.spec.priority_class_name)
        said |= {
            "resources": {name: amount for name, amount in group.resources.items() if amount > 0},
            "tags": asking.node_tags(model, group.pattern),
            "priority": pod.spec.priority or 0,
            "allowPreemptSelf": may_be_preempted(pod, priority_class),
            "allowPreemptOther": may_preempt(pod),
        }
    return said


def _pattern(model: Model, application: Application, gang: Gang, group: Group, key: str) -> Pod:
    assert gang.originator is not None
    assert group.declared is not None
    originator = gang.originator.pod
    body = placeholder_pods.body(
        key,
        originator,
        application.id.name,
        application.queue,
        group.declared,
        gang.annotations,
        scheduler_name=originator.spec.scheduler_name,
        image=model.settings.placeholder_image,
    )
    body["metadata"] |= {"uid": key, "creationTimestamp": originator.metadata.creation_timestamp}
    body["spec"] |= {"priority": originator.spec.priority, "preemptionPolicy": originator.spec.preemption_policy}
    return convert(Pod, body)
