"""What the daemon says of placeholder pods: that the first is placed, and that the time of their gang is over."""

from __future__ import annotations

from schedulerd.kubernetes.cluster.events import AskTimedOut
from schedulerd.kubernetes.cluster.gangs import life, slots
from schedulerd.kubernetes.cluster.gangs.model import SlotState
from schedulerd.kubernetes.cluster.model import Model, OwnPod


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


def ask_timed_out(model: Model, event: AskTimedOut) -> bool:
    """The time of the gang is over. Asks of placeholders that are allocated end as well; their release follows. False
    if the ask is none of a placeholder."""
    own = model.pods.get(event.key)
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
