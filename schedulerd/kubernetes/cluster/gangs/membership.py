"""Pods and applications of gangs come and go: what `door` passes on."""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.cluster.effects import AddApplication, ReleaseAsk
from schedulerd.kubernetes.cluster.events import Cause
from schedulerd.kubernetes.cluster.gangs import declaration, declared, held_rooms, waiting
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangStage
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangSource, Slot, SlotState
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import Told
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.gangs import (
    GangStyle,
    ignored,
    task_group_name,
)

RETRY_FIRST_NS = SECOND_NS
RETRY_MOST_NS = 60 * SECOND_NS
FORM_AGAIN_NS = SECOND_NS
"""After an application with a gang has ended while pods of it were asked for."""


def gone(model: Model, own: OwnPod) -> None:
    """The pod has ended or is deleted."""
    declaration.gone(model, own)
    if own.is_placeholder:
        model.unwanted.pop(own.uid, None)
        of_application = model.placeholders.get(own.metadata.application_id, {})
        of_application.pop(own.uid, None)
        if not of_application:
            model.placeholders.pop(own.metadata.application_id, None)


def may_ask(gang: Gang) -> bool:
    """Real pods wait until their placeholders are asked for."""
    if gang.stage is GangStage.OPEN:
        return True
    return gang.stage is GangStage.OVER and (gang.style is GangStyle.SOFT or gang.has_run)


def with_gang(model: Model, gang: Gang, added: AddApplication) -> AddApplication:
    """The application as it is added, with what is still to be held for its gang and what it has already."""
    if not gang.has_placeholders:
        return declared.with_groups(model, gang, added)
    total: dict[str, int] = {}
    for slot in gang.slots.values():
        if slot.state is not SlotState.SPENT:
            for name, amount in gang.groups[slot.group].resources.items():
                total[name] = total.get(name, 0) + amount
    style = GangStyle.SOFT if gang.style is GangStyle.SOFT else GangStyle.HARD
    return replace(
        added,
        tags={**added.tags, **gang.annotations, **gang.wishes},
        placeholder_ask=total or None,
        gang_style=style.value,
        gang_timeout_s=gang.timeout_s if total else 0,
        gang_began_s=gang.first_placed_s,
    )


def joined(model: Model, application: Application, own: OwnPod) -> None:
    """A real pod is one of the application."""
    gang = application.gang
    if gang is None and own.declares_gang and Told.GANG not in own.told:
        own.told |= Told.GANG
        note = f"the task groups are ignored: application {application.id.name!r} was added without a gang before"
        model.record(own, declaration.INVALID_REASON, "Scheduling", note, is_warning=True)
    if gang is None:
        return
    if own.declares_gang and not own.node and Told.GANG not in own.told and _has_all_members(application, gang):
        own.told |= Told.GANG
        what = f"the gang of application {application.id.name!r} runs already"
        note = f"{what}: the pod is placed by itself, and no room is held for other ones"
        model.record(own, "GangRuns", "Scheduling", note)
    if gang.originator is None:
        gang.originator = own  # all others have left in this step
    if gang.originator is own and not own.node and (what := ignored(own.pod.metadata)):
        note = f"not understood, and ignored: {what}"
        model.record(own, "GangAnnotation", "Scheduling", note, is_warning=True)
    waiting.joined(model, gang, own)
    held_rooms.member_joined(model, gang, own)
    if gang.stage in (GangStage.FORMING, GangStage.ABANDONED):
        model.gangs_due[application.id] = None


def _has_all_members(application: Application, gang: Gang) -> bool:
    """No room is held, or will be, for another member."""
    if gang.source is not GangSource.ANNOTATIONS or gang.stage is GangStage.ABANDONED:
        return False
    if gang.has_placeholders:
        return gang.is_past or (gang.has_run and not any(group.left for group in gang.groups.values()))
    return gang.is_past or (gang.was_complete and len(application.running) >= sum(one.members for one in gang.declared))


def adopt(model: Model, own: OwnPod) -> None:
    """A placeholder pod is one of its gang. If nobody wants it, it is deleted."""
    if (application := _wanted(model, own)) is None:
        model.unwanted[own.uid] = None
    else:
        model.gangs_due[application.id] = None


def adopt_found(model: Model, application: Application) -> list[OwnPod]:
    """Placeholder pods that were there before the gang was formed."""
    found = [model.pods[uid] for uid in model.placeholders.get(application.id, {}) if uid in model.pods]
    return [own for own in found if own.slot is None and _wanted(model, own) is not None]


def leaving(model: Model, application: Application, gang: Gang, own: OwnPod) -> None:
    """The pod is about to leave its application: it has ended, or needs nothing any longer."""
    waiting.left(model, own)
    gang.placed.pop(own.uid, None)
    if own.is_placeholder:
        _lose_pod(model, application, gang, own)
        return
    held_rooms.member_left(model, application, gang, own)
    if gang.originator is own:
        others = (one for one in application.pods.values() if one is not own and not one.is_placeholder)
        gang.originator = next(others, None)


def forget(model: Model, application: Application, gang: Gang) -> None:
    """The application is over, and so are the asks that stand for no pod; nobody wants its placeholder pods."""
    declared.forget(model, gang)
    for own in application.pods.values():
        if own.is_placeholder and own.slot is not None:
            own.slot.state, own.slot.own, own.slot = SlotState.SPENT, None, None
            model.unwanted[own.uid] = None
    for slot in gang.slots.values():
        if slot.stand_in:
            model.effects.append(ReleaseAsk(application.id, slot.stand_in))
            slot.stand_in = ""


def removed(model: Model, application: Application) -> None:
    """The daemon is told to remove the application, and may be about to place its pods."""
    ended = model.gangs_removed
    while ended and ended[oldest := next(iter(ended))] <= model.now_ns:
        del ended[oldest]
    ended.pop(application.id, None)
    ended[application.id] = model.now_ns + FORM_AGAIN_NS


def wait_for_withdrawals(model: Model, application: Application, gang: Gang) -> None:
    """The application is new; another one of its id may have been removed just now."""
    until_ns = model.gangs_removed.pop(application.id, 0)
    if until_ns > model.now_ns:
        form_later(model, application, gang, until_ns)


def form_later(model: Model, application: Application, gang: Gang, until_ns: int) -> None:
    """Asks of the application that the daemon has forgotten may still be on their way. Their withdrawals come behind
    them, but the next application of the id could come before both, on another stream: one of its pods would be placed
    without its gang."""
    gang.not_before_ns = until_ns
    model.timers.set(until_ns, Due.GANG, application.id)


def timeout_ns(model: Model, gang: Gang) -> int:
    return gang.timeout_s * SECOND_NS or model.settings.gang_timeout_ns


def back_off(model: Model, application: Application, slot: Slot) -> None:
    """Waits, more from time to time, before it is tried again."""
    slot.not_before_ns = model.now_ns + min(RETRY_FIRST_NS << min(slot.failures, 10), RETRY_MOST_NS)
    slot.failures += 1
    model.timers.set(slot.not_before_ns, Due.GANG, application.id)


def is_made_again(gang: Gang, own: OwnPod) -> bool:
    """Whether another placeholder takes the place of this one, which is about to be lost."""
    if own.is_unwanted or gang.is_past or (own.slot is not None and own.slot.state is SlotState.SPENT):
        return False
    return own.cause is None or (own.cause is not Cause.REPLACED and not gang.was_complete)


def all_hold_room(gang: Gang) -> bool:
    """Whether every placeholder that the gang needs is allocated, and none is about to be lost."""
    # From both ends: they are allocated in order, or the first task group finds no room, so one that lacks it is near.
    both = zip(gang.slots.values(), reversed(gang.slots.values()), strict=True)
    return not any(_lacks_room(first) or _lacks_room(last) for first, last in both)


def _lacks_room(slot: Slot) -> bool:
    own = slot.own
    if slot.state is SlotState.SPENT:
        return False
    if own is None or not own.uuid:
        return True
    is_going = own.is_release_wanted or own.pod.metadata.deletion_timestamp is not None
    return is_going and own.cause is not Cause.REPLACED


def rename(gang: Gang, slot: Slot, name: str) -> None:
    if slot.name != name and name not in gang.slots:
        del gang.slots[slot.name]
        slot.name = name
        gang.slots[name] = slot


def _wanted(model: Model, own: OwnPod) -> Application | None:
    """The application of the placeholder pod, which has got its slot; None if nobody wants it."""
    application = model.applications.get(own.metadata.application_id)
    gang = application.gang if application is not None else None
    if application is None or gang is None or application.namespace != own.pod.metadata.namespace:
        return None
    is_reserving = gang.stage in (GangStage.RESERVING, GangStage.OPEN)
    if not is_reserving or not gang.has_placeholders or own.is_unwanted:
        return None
    if own.pod.metadata.deletion_timestamp is not None or not _is_owned(application, own):
        return None
    slot = _slot_of(gang, own)
    if slot is None:
        return None
    slot.state, slot.own, slot.problem, slot.failures = SlotState.THERE, own, "", 0
    own.slot, own.task_group, own.application = slot, slot.group, application
    application.pods[own.uid] = own
    held_rooms.count(model, own)
    return application


def _is_owned(application: Application, own: OwnPod) -> bool:
    """The placeholder pod was made for a pod of the application, and goes with it."""
    owners = (application.pods.get(owner.uid) for owner in own.pod.metadata.owner_references or ())
    return any(owner is not None and not owner.is_placeholder for owner in owners)


def _slot_of(gang: Gang, own: OwnPod) -> Slot | None:
    """Of this name, else a free one of its task group: YuniKorn's placeholder pods have other names."""
    slot = gang.slots.get(own.pod.metadata.name)
    if slot is not None:
        return slot if slot.is_to_come else None
    group = task_group_name(own.pod.metadata)
    slot = next((one for one in gang.slots.values() if one.group == group and one.state is SlotState.WANTED), None)
    if slot is not None:
        rename(gang, slot, own.pod.metadata.name)
    return slot


def _lose_pod(model: Model, application: Application, gang: Gang, own: OwnPod) -> None:
    """Evicted and drained placeholders are made again; those that the daemon has used up are not."""
    slot = own.slot
    if slot is None or slot.own is not own:
        own.slot = None
        return
    if slot.state is SlotState.THERE and is_made_again(gang, own):
        slot.state = SlotState.WANTED
        back_off(model, application, slot)
    else:
        slot.state = SlotState.SPENT
    slot.own = None
    own.slot = None
