"""Which gang a pod declares, or belongs to.

A pod with task groups, or with the name of one, belongs to its application as ever. Otherwise the PodGroup that it
names is its application, where such objects are served.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from schedulerd.kubernetes.cluster.effects import PatchPodCondition
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangSource, GroupKey, KnownGroup
from schedulerd.kubernetes.cluster.pod_lifecycle import Told
from schedulerd.kubernetes.metadata import gangs as metadata
from schedulerd.kubernetes.metadata.gangs import GangStyle, InvalidGang, PlaceholderKind
from schedulerd.kubernetes.metadata.pods import APP_ID_LENGTH_MAX
from schedulerd.kubernetes.objects.decode import MalformedObject
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import CoschedulingPodGroup, PodGroup, Workload

if TYPE_CHECKING:
    from schedulerd.kubernetes.cluster.model import Model, OwnPod

GANG_CONDITION = "schedulerd.io/Gang"
INVALID_REASON = "TaskGroupsError"
FORMING_REASON = "GangForming"


def group_key(model: Model, pod: Pod) -> GroupKey | None:
    """The PodGroup of the pod, if it has one that counts."""
    key = _named_group(model, pod) if model.gang_sources else None
    if key is None or metadata.declares_task_groups(pod.metadata) or metadata.task_group_name(pod.metadata):
        return None
    return key


def _named_group(model: Model, pod: Pod) -> GroupKey | None:
    about = pod.metadata
    if GangSource.COSCHEDULING in model.gang_sources and (labels := about.labels):
        for label in metadata.COSCHEDULING_LABELS:
            if name := labels.get(label):
                return GroupKey(GangSource.COSCHEDULING, about.namespace, name)
    if GangSource.KUBERNETES in model.gang_sources:
        named, workload = pod.spec.scheduling_group, pod.spec.workload_ref
        if named is not None and named.pod_group_name:
            return GroupKey(GangSource.KUBERNETES, about.namespace, named.pod_group_name)
        if workload is not None and workload.name:
            parts = (workload.name, workload.pod_group, workload.pod_group_replica_key)
            return GroupKey(GangSource.KUBERNETES, about.namespace, "/".join(parts))
    return None


def application_id(key: GroupKey) -> str:
    """Of the pods of a PodGroup. Long names are cut, and told apart by a hash."""
    whole = f"{key.source.value}.{key.namespace}.{key.name.replace('/', '.').strip('.')}"
    if len(whole) <= APP_ID_LENGTH_MAX and "/" not in key.name:
        return whole
    ending = "-" + hashlib.sha256(f"{key.source.value}/{key.namespace}/{key.name}".encode()).hexdigest()[:12]
    return whole[: APP_ID_LENGTH_MAX - len(ending)] + ending


def note_pod(model: Model, own: OwnPod) -> None:
    """The pod is new. Task groups that cannot be used are read here once, and by nobody else's pods again."""
    if own.declares_gang and _are_usable(model, own):
        model.declaring.setdefault(own.metadata.application_id, {})[own.uid] = None
        model.undeclared_for.pop(own.metadata.application_id, None)


def _are_usable(model: Model, own: OwnPod) -> bool:
    try:
        return bool(metadata.task_groups(own.pod.metadata, model.settings.gang_members_max))
    except InvalidGang:
        return False


def gone(model: Model, own: OwnPod) -> None:
    """The pod has ended or is deleted."""
    if own.group is not None:
        stop_waiting(model, own)
    application_id = own.metadata.application_id
    model.waiting_for_declaration.get(application_id, {}).pop(own.uid, None)
    declaring = model.declaring.get(application_id)
    if declaring is not None and own.uid in declaring:
        del declaring[own.uid]
        if not declaring:
            del model.declaring[application_id]
            model.undeclared_for.pop(application_id, None)
    if not model.waiting_for_declaration.get(application_id, True):
        del model.waiting_for_declaration[application_id]


def age(own: OwnPod) -> tuple[int, str]:
    """The order in which pods count as the first ones of their gang."""
    return epoch_seconds(own.pod.metadata.creation_timestamp), own.pod.metadata.name


def gang_for(model: Model, own: OwnPod) -> Gang | None:
    """The gang of an application that this pod makes known."""
    about = own.pod.metadata
    parameters = metadata.parameters(about)
    if own.group is not None:
        known = known_group(model, own.group)
        if known is None or known.min_member <= 0:
            return None
        style = parameters.style or GangStyle.REQUEUE
        timeout_s = parameters.timeout_s or known.timeout_s
        wishes = {**metadata.wishes(about), **known.wishes}
        return Gang(own.group.source, PlaceholderKind.NONE, style, timeout_s, own.group, wishes=wishes)
    try:
        declared = metadata.task_groups(about, model.settings.gang_members_max)
    except InvalidGang:
        return None
    if not declared:
        return None
    kind = metadata.placeholder_kind(about) or model.settings.placeholders
    return Gang(
        GangSource.ANNOTATIONS,
        kind,
        parameters.style or GangStyle.SOFT,
        parameters.timeout_s,
        declared=declared,
        annotations=metadata.raw_annotations(about),
        wishes=metadata.wishes(about),
    )


def missing_group(model: Model, own: OwnPod) -> str:
    """Why the pod has to wait for its PodGroup; empty if it need not."""
    if own.group is None or known_group(model, own.group) is not None:
        return ""
    model.waiting_for_groups.setdefault(_object_key(own.group), {})[own.uid] = None
    return why_unknown(model, own.group)


def why_unknown(model: Model, key: GroupKey) -> str:
    """Why the PodGroup says nothing."""
    problem = model.unreadable_groups.get(_object_key(key))
    return f"PodGroup {key.name!r} " + (f"cannot be read: {problem}" if problem else "not found")


def stop_waiting(model: Model, own: OwnPod) -> None:
    assert own.group is not None
    key = _object_key(own.group)
    waiting = model.waiting_for_groups.get(key)
    if waiting is not None and waiting.pop(own.uid, 0) is None and not waiting:
        del model.waiting_for_groups[key]


def check(model: Model, own: OwnPod) -> str:
    """Tells of task groups that cannot be used; why the pod has to wait because of them, empty if it need not."""
    about = own.pod.metadata
    if not own.declares_gang:
        return ""
    try:
        metadata.task_groups(about, model.settings.gang_members_max)
    except InvalidGang as error:
        note = f"the task groups cannot be used: {error}"
        if Told.GANG not in own.told:
            own.told |= Told.GANG
            model.record(own, INVALID_REASON, "Scheduling", note, is_warning=True)
            model.effects.append(PatchPodCondition(own.name, GANG_CONDITION, False, INVALID_REASON, note, True))
        if not metadata.waits_if_invalid(about):
            return ""
        return note
    return ""


def tell_again(model: Model, uid: str) -> None:
    """The condition about task groups that cannot be used was not written."""
    own = model.pods.get(uid)
    if own is not None:
        own.told &= ~Told.GANG
        check(model, own)


def known_group(model: Model, key: GroupKey) -> KnownGroup | None:
    found = model.gang_groups.get(_object_key(key))
    if found is None:
        return None
    return found.get(key.name.split("/")[1] if "/" in key.name else "")


def put_group(model: Model, thing: CoschedulingPodGroup | PodGroup | Workload) -> GroupKey | None:
    """Notes what the object says; its key if that has changed."""
    about = thing.metadata
    groups: dict[str, KnownGroup] = {}
    if isinstance(thing, CoschedulingPodGroup):
        key = GroupKey(GangSource.COSCHEDULING, about.namespace, about.name)
        try:
            spec = thing.read_spec()
        except MalformedObject as error:
            return _unreadable_group(model, key, str(error))
        timeout_s = max(0, spec.schedule_timeout_seconds or 0)
        groups[""] = KnownGroup(max(0, spec.min_member), timeout_s, metadata.wishes(about))
    elif isinstance(thing, PodGroup):
        key = GroupKey(GangSource.KUBERNETES, about.namespace, about.name)
        gang = thing.spec.scheduling_policy.gang
        number = 0 if gang is None else max(0, gang.min_count)
        is_scheduled = any(
            (one.type, one.status) == ("PodGroupScheduled", "True") for one in thing.status.conditions or ()
        )
        groups[""] = KnownGroup(
            number,
            wishes=_wishes(thing),
            priority=thing.spec.priority,
            uid=about.uid,
            generation=about.generation,
            is_scheduled=is_scheduled,
        )
    else:
        key = GroupKey(GangSource.KUBERNETES, about.namespace, about.name)
        for one in thing.spec.pod_groups or ():
            groups[one.name] = KnownGroup(0 if one.policy.gang is None else max(0, one.policy.gang.min_count))
    model.unreadable_groups.pop(key, None)
    before, model.gang_groups[key] = model.gang_groups.get(key), groups
    return key if before != groups else None


def _wishes(thing: PodGroup) -> dict[str, str]:
    found = metadata.wishes(thing.metadata)
    constraints = thing.spec.scheduling_constraints
    for one in (constraints.topology if constraints is not None else None) or ():
        found[metadata.TOPOLOGY_REQUIRED] = one.key
    if thing.spec.disruption_mode == "PodGroup":
        found[metadata.DISRUPTION] = metadata.AS_A_WHOLE
    return found


def _unreadable_group(model: Model, key: GroupKey, problem: str) -> GroupKey | None:
    """What it said before does not hold any longer."""
    model.gang_groups.pop(key, None)
    if model.unreadable_groups.get(key) == problem:
        return None
    model.unreadable_groups[key] = problem
    return key


def gone_group(model: Model, thing: CoschedulingPodGroup | PodGroup | Workload) -> GroupKey:
    is_coscheduling = isinstance(thing, CoschedulingPodGroup)
    source = GangSource.COSCHEDULING if is_coscheduling else GangSource.KUBERNETES
    key = GroupKey(source, thing.metadata.namespace, thing.metadata.name)
    model.gang_groups.pop(key, None)
    model.unreadable_groups.pop(key, None)
    return key


def _object_key(key: GroupKey) -> GroupKey:
    """Of the object that has the group."""
    return key._replace(name=key.name.split("/", 1)[0])
