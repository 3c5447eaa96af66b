"""What the daemon says of virtual placeholders, and of placeholder pods when the time of their gang is over.

Each function that answers with a bool is False if another module has to handle the event.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import asking, conditions
from schedulerd.kubernetes.cluster.effects import ConfirmRelease, ReleaseAllocation, ReleaseAsk
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    AllocationReleased,
    AskRejected,
    AskReleased,
    AskTimedOut,
    Cause,
    PendingReasonTold,
    ReleaseWanted,
)
from schedulerd.kubernetes.cluster.gangs import held_rooms, life, slots, waiting
from schedulerd.kubernetes.cluster.gangs.membership import spend
from schedulerd.kubernetes.cluster.gangs.model import SlotState
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState, PodTrigger
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.predicates.words import reasons


def allocated(model: Model, event: Allocated) -> bool:
    own = _virtual(model, event.key, event.application_id)
    if own is None:
        return False
    if own.state is not PodState.ASKED:
        message = "the placeholder is allocated already"
        model.effects.append(ReleaseAllocation(event.application_id, event.key, event.uuid, message))
        return True
    own.uuid = event.uuid
    model.promised.pop(own.uid, None)
    refusals = model.predicates.judge(own.judged, event.node, first_only=True)
    if refusals and own.slot is not None and own.application is not None:
        own.slot.needs_callback = True
        slots.lose(model, own.application, own, refused=f"{event.node}: {', '.join(reasons(refusals))}")
        return True
    own.enter(PodTrigger.HOLD_ROOM)
    own.node = event.node
    model.cache.assume(own.judged, event.node)
    waiting.forget(model, own)
    model.stop_using_class(own)
    note_placed(model, own)
    return True


def note_placed(model: Model, own: OwnPod) -> None:
    """The time of the gang begins with its first placeholder. Nothing need stand in for one that is placed; and the
    gang may be complete now."""
    application = own.application
    if application is None or application.gang is None:
        return
    if application.gang.first_placed_ns is None:
        application.gang.first_placed_ns = model.now_ns
    if application.gang.standing_in or (application.gang.has_run and not application.gang.was_complete):
        model.gangs_due[application.id] = None


def released(model: Model, event: AllocationReleased) -> bool:
    """Its node has gone."""
    own = _virtual(model, event.key, event.application_id)
    if own is None:
        return False
    if own.uuid == event.uuid and own.application is not None:
        slots.lose(model, own.application, own)
    return True


def release_wanted(model: Model, event: ReleaseWanted) -> bool:
    """There is no pod to be ended: it is confirmed at once."""
    own = _virtual(model, event.key, event.application_id)
    if own is None:
        return False
    gang = own.application.gang if own.application is not None else None
    is_lost = own.uuid == event.uuid and event.cause is not Cause.REPLACED
    if is_lost and own.application is not None and gang is not None and not gang.was_complete:
        slots.lose(model, own.application, own, confirmed=event.uuid)  # it gives way, or was preempted
        return True
    model.effects.append(ConfirmRelease(event.uuid))
    if own.uuid != event.uuid:
        return True
    if event.cause is not Cause.REPLACED:
        model.effects.append(ReleaseAsk(event.application_id, event.key))
    else:
        held_rooms.keep(model, own)
    spend(model, own)
    return True


def ask_rejected(model: Model, event: AskRejected) -> bool:
    own = _virtual(model, event.key, event.application_id)
    if own is None:
        return False
    if own.state is PodState.ASKED and own.application is not None:
        slots.lose(model, own.application, own, is_rejected=True)
    return True


def ask_released(model: Model, event: AskReleased) -> bool:
    """As with a pod: an ask that is still wanted is repeated, which changes nothing if it is there again already."""
    own = _virtual(model, event.key, event.application_id)
    if own is None:
        return False
    asking.repeat(model, own)
    return True


def ask_timed_out(model: Model, event: AskTimedOut) -> bool:
    """The time of the gang is over. Asks of placeholders that are allocated end as well; their release follows."""
    virtual = _virtual(model, event.key, event.application_id)
    own = virtual or model.pods.get(event.key)
    if own is None:
        return _stand_in_timed_out(model, event)
    if not own.is_placeholder:
        return False
    if own.application is not None:
        life.timed_out(model, own.application)
    if own.slot is None or own.slot.own is not own:
        return True  # it was given up with all others
    if own.uuid:
        own.slot.state = SlotState.SPENT
    elif virtual is not None:
        spend(model, own)
    else:
        slots.remove_pod(model, own)
    return True


def _stand_in_timed_out(model: Model, event: AskTimedOut) -> bool:
    """It may be the only ask of the gang: its placeholders that are missing wait to be made again."""
    application = model.applications.get(event.application_id)
    gang = application.gang if application is not None else None
    if application is None or gang is None or all(slot.stand_in != event.key for slot in gang.standing_in):
        return False
    life.timed_out(model, application)
    return True


def told(model: Model, event: PendingReasonTold) -> None:
    """Of any ask; what is said of a virtual placeholder all pods of its gang show."""
    own = _virtual(model, event.key, event.application_id)
    if own is None:
        conditions.told(model, event)
    elif own.state is PodState.ASKED:
        waiting.virtual_told(model, own, event.waiting)


def _virtual(model: Model, key: str, application_id: ApplicationId) -> OwnPod | None:
    own = model.virtual.get(key)
    if own is None or own.application is None or own.application.id != application_id:
        return None
    return own
