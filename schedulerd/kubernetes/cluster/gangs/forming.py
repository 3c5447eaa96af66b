"""A gang is formed: its task groups are known, and its application is added."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, asking, joining
from schedulerd.kubernetes.cluster.gangs import declared, held_rooms, membership, surplus
from schedulerd.kubernetes.cluster.gangs.declaration import FORMING_REASON, known_group, why_unknown
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangProgress, GangStage, GangTrigger
from schedulerd.kubernetes.cluster.gangs.model import Gang, Group, KnownGroup, SlotState
from schedulerd.kubernetes.cluster.gangs.placeholder_pods import name as placeholder_name
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.metadata.gangs import task_group_name
from schedulerd.kubernetes.metadata.pods import is_placed
from schedulerd.kubernetes.objects.meta import epoch_seconds


def form(model: Model, application: Application, gang: Gang) -> GangStage | None:
    """Declares the task groups and adds the application. Returns the stage of the gang; None if there are not enough
    pods."""
    real = real_pods(application)
    if not real:
        return None
    known = known_group(model, gang.key) if gang.key is not None else None
    if gang.key is not None and not _is_whole(model, gang, real, known):
        return None
    real, bound = _without_others(model, application, real)
    gang.originator = _originator(model, application, gang, real)
    declared.forget(model, gang)
    gang.groups = {one.name: Group(one.name, one.members, one.resources, one) for one in gang.declared}
    if bound:
        is_ours = any(_is_placed_here(own) for own in bound)
        gang.reach(GangProgress.WAS_COMPLETE if is_ours else GangProgress.RUNS)
    held_rooms.find_oldest(gang, real)
    gang.clear_slots()
    gang.has_placeholders = declared.needs_placeholders(model, application, gang, real)
    if gang.has_placeholders:
        found = _with_placeholders(model, application, gang, bound)
    else:
        found = []
        declared.find_groups(model, application, gang, real, known)
        gang.enter(GangTrigger.OPEN)
    if application.state is ApplicationState.FORMING:
        applications.submit(model, application)
    for own in found:
        if not own.node:
            asking.keep_age(own)
            asking.consider(model, own)
    return gang.stage


def _is_whole(model: Model, gang: Gang, real: list[OwnPod], known: KnownGroup | None) -> bool:
    """As many pods of the PodGroup exist as it needs, or one of them runs."""
    if any(own.node for own in real) or (known is not None and len(real) >= known.min_member):
        return True
    _say_unformed(model, gang, real, known)
    return False


def _with_placeholders(model: Model, application: Application, gang: Gang, bound: list[OwnPod]) -> list[OwnPod]:
    """Makes a slot for each member. Returns the placeholder pods that are there already."""
    _make_slots(application, gang)
    gang.enter(GangTrigger.RESERVE)
    found = membership.adopt_found(model, application)
    if gang.was_complete:
        # Its placeholders were there once: what is gone since is not made again.
        for slot in list(gang.to_come):
            slot.state = SlotState.SPENT
    for own in bound:
        surplus.runs_elsewhere(model, own)
        gang.placed[own.uid] = None
    surplus.give_up_surplus(model, application, gang)
    if all(slot.state is SlotState.SPENT for slot in gang.slots.values()):
        gang.enter(GangTrigger.END)
        gang.reach(GangProgress.WAS_COMPLETE)
    gang.first_placed_s = min((seconds for own in found if (seconds := _bound_seconds(own))), default=0)
    return found


def _without_others(model: Model, application: Application, real: list[OwnPod]) -> tuple[list[OwnPod], list[OwnPod]]:
    """The members among the pods, and those of them with a node: pods of other users are there only with one."""
    of_gang = [own for own in real if not joining.is_of_other_user(model, application, own)] or real
    return of_gang, [own for own in of_gang if own.node]


def _is_placed_here(own: OwnPod) -> bool:
    """The daemon has placed the member: its gang was complete, or given up. A member that somebody else has bound says
    nothing of its gang."""
    is_member = own.group is not None or own.declares_gang or bool(task_group_name(own.pod.metadata))
    return is_member and (is_placed(own.pod) or not own.pod.spec.node_name)


def _make_slots(application: Application, gang: Gang) -> None:
    assert gang.originator is not None
    for group in gang.groups.values():
        for index in range(group.members):
            name = placeholder_name(gang.originator.uid, application.id.name, group.name, index)
            gang.add_slot(group.name, index, name)


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
