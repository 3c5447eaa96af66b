"""A gang is formed: its task groups are known, and its application is added."""

from __future__ import annotations

from collections import Counter

from schedulerd.kubernetes.cluster import applications, asking, joining
from schedulerd.kubernetes.cluster.gangs import held_rooms, membership, surplus
from schedulerd.kubernetes.cluster.gangs.declaration import FORMING_REASON, age, known_group, why_unknown
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangSource, GangStage, Group, KnownGroup, SlotState
from schedulerd.kubernetes.cluster.gangs.placeholder_pods import name as placeholder_name
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.metadata.gangs import PlaceholderKind, task_group_name
from schedulerd.kubernetes.metadata.pods import is_placed
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.resources import pod_requests, scheduler_names


def form(model: Model, application: Application, gang: Gang) -> bool:
    """Declares the task groups and adds the application, if there are enough pods."""
    real = real_pods(application)
    if not real:
        return False
    bound = [own for own in real if own.node]
    if gang.source is GangSource.ANNOTATIONS:
        real, bound = _without_others(model, application, real)
        groups = [Group(one.name, one.members, one.resources, one) for one in gang.declared]
    else:
        assert gang.key is not None
        known = known_group(model, gang.key)
        wanted = known.min_member if known is not None else 0
        if (known is None or len(real) < wanted) and not bound:
            _say_unformed(model, gang, real, known)
            return False
        real, bound = _without_others(model, application, real)
        groups = _groups_of(model, gang, real, max(0, wanted - len(bound)))
    gang.originator = _originator(model, application, gang, real)
    gang.groups = {group.name: group for group in groups}
    gang.has_run, gang.was_complete = bool(bound), any(_is_placed_here(own) for own in bound)
    held_rooms.find_oldest(gang, real)
    gang.clear_slots()
    _make_slots(model, application, gang, real)
    gang.stage = GangStage.RESERVING
    found = membership.adopt_found(model, application)
    if gang.was_complete and gang.kind is PlaceholderKind.PODS:
        # Its placeholders were there once: what is gone since is not made again.
        for slot in list(gang.to_come):
            slot.state = SlotState.SPENT
    _count_bound(model, gang, bound)
    surplus.give_up_surplus(model, application, gang)
    if all(slot.state is SlotState.SPENT for slot in gang.slots.values()):
        gang.stage, gang.has_run, gang.was_complete = GangStage.OVER, True, True
    gang.first_placed_s = min((seconds for own in found if (seconds := _bound_seconds(own))), default=0)
    if application.state is ApplicationState.FORMING:
        applications.submit(model, application)
    for own in found:
        if not own.node:
            asking.keep_age(own)
            asking.consider(model, own)
    return True


def _without_others(model: Model, application: Application, real: list[OwnPod]) -> tuple[list[OwnPod], list[OwnPod]]:
    """The members among the pods, and those of them with a node: pods of other users are there only with one."""
    of_gang = [own for own in real if not joining.is_of_other_user(model, application, own)] or real
    return of_gang, [own for own in of_gang if own.node]


def _is_placed_here(own: OwnPod) -> bool:
    """The daemon has placed the member: its gang was complete, or given up. A member that somebody else has bound says
    nothing of its gang."""
    is_member = own.group is not None or own.declares_gang or bool(task_group_name(own.pod.metadata))
    return is_member and (is_placed(own.pod) or not own.pod.spec.node_name)


def _count_bound(model: Model, gang: Gang, bound: list[OwnPod]) -> None:
    """Virtual placeholders are asked for without these members; pods were made for them too."""
    for own in bound:
        if gang.kind is PlaceholderKind.PODS:
            surplus.runs_elsewhere(model, own)
        gang.placed[own.uid] = None


def _make_slots(model: Model, application: Application, gang: Gang, real: list[OwnPod]) -> None:
    assert gang.originator is not None
    has_begun = gang.kind is PlaceholderKind.VIRTUAL and gang.source is GangSource.ANNOTATIONS and gang.has_run
    unbound, bound = (
        Counter(asking.task_group_of(model, own) for own in real if has_begun and bool(own.node) is has_node)
        for has_node in (False, True)
    )
    for group in gang.groups.values():
        number = group.members
        if has_begun:
            number = max(0, number - bound[group.name])
            if gang.was_complete:  # members that are not there may have ended
                number = min(unbound[group.name], number)
        for index in range(number):
            name = placeholder_name(gang.originator.uid, application.id.name, group.name, index)
            gang.add_slot(group.name, index, name)


def _groups_of(model: Model, gang: Gang, real: list[OwnPod], number: int) -> list[Group]:
    """The distinct sizes and classes of the first pods by age; the groups are numbered."""
    gang.classes.clear()
    groups: dict[str, Group] = {}
    unbound = sorted((own for own in real if not own.node), key=age)
    for own in unbound[:number]:
        key = asking.class_key(model, own)
        name = gang.classes.setdefault(key, f"group-{len(gang.classes)}")
        group = groups.get(name)
        if group is None:
            resources = scheduler_names(pod_requests(own.pod))
            groups[name] = Group(name, 1, resources, like=own.pod, oldest=own)
        else:
            group.members += 1
    return list(groups.values())


def _originator(model: Model, application: Application, gang: Gang, real: list[OwnPod]) -> OwnPod:
    """The owner of the placeholders that are there; else the pod whose task groups count; if that one has no part in
    the gang yet, another one that has task groups, else the first one."""
    owners = {
        owner.uid
        for uid in model.placeholders.get(application.id, {})
        if (own := model.pods.get(uid)) is not None
        for owner in own.pod.metadata.owner_references or ()
    }
    by_owner = next((own for own in real if own.uid in owners), None)
    if by_owner is not None:
        return by_owner
    declaring = next((own for own in real if own.declares_gang), real[0])
    return next((own for own in real if own is gang.originator), declaring)


def _say_unformed(model: Model, gang: Gang, real: list[OwnPod], known: KnownGroup | None) -> None:
    assert gang.key is not None
    if known is None:
        note = why_unknown(model, gang.key)
    else:
        note = f"the gang of PodGroup {gang.key.name!r} waits for its pods: {len(real)} of {known.min_member} exist"
    if gang.said != note:
        gang.said = note
        model.record(real[-1], FORMING_REASON, "Scheduling", note)


def real_pods(application: Application) -> list[OwnPod]:
    return [own for own in application.pods.values() if not own.is_placeholder]


def _bound_seconds(own: OwnPod) -> int:
    """When the pod was bound, as its condition says; 0 if it was not."""
    if not own.node:
        return 0
    for condition in own.pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            return epoch_seconds(condition.last_transition_time)
    return 0
