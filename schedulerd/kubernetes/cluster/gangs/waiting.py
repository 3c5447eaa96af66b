"""Why a gang waits: for room on nodes, or for quota and its own start.

While a virtual gang lacks room, all its pods without a node are unschedulable, not only as many as placeholders are
missing: an autoscaler knows nothing of the room that is held, and would count it as free. Placeholder pods say it for
themselves, and then real pods must not, or the demand would count twice.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.events import SchedulingState
from schedulerd.kubernetes.cluster.gangs.model import GangStage
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod, PodState
from schedulerd.kubernetes.metadata.gangs import PlaceholderKind


def gang_state(application: Application) -> SchedulingState | None:
    """FAILED: a placeholder of a virtual gang finds no room. SKIPPED: quota, the start gate, or missing pods hold the
    gang. None: nothing is known, or the gang holds back nobody."""
    gang = application.gang
    if gang is None or gang.stage is GangStage.OVER:
        return None
    if gang.stage in (GangStage.FORMING, GangStage.RESERVING):
        return SchedulingState.SKIPPED
    if gang.without_room and gang.kind is PlaceholderKind.VIRTUAL:
        return SchedulingState.FAILED
    asked = (slot.own is not None and slot.own.state is PodState.ASKED for slot in gang.slots.values())
    return SchedulingState.SKIPPED if gang.to_come or any(asked) else None


def says_gang(model: Model, own: OwnPod, said: SchedulingState) -> bool:
    """A real pod whose gang waits says what holds for the gang, and not what the daemon has said of the pod."""
    gang = own.application.gang if own.application is not None else None
    if own.is_placeholder or own.application is None or gang is None:
        return False
    holds = gang_state(own.application)
    if holds is None or holds is said:
        return False
    if gang.shown and own.state is PodState.ASKED:
        conditions.note(model, own, holds, gang.shown)
    return True


def pods_told(application: Application) -> list[OwnPod]:
    """The pods that show what holds for the gang: all real ones without a node."""
    return [own for own in application.pods.values() if not own.is_placeholder and not own.node]


def virtual_told(model: Model, own: OwnPod, state: SchedulingState, reason: str) -> None:
    """The daemon says of a virtual placeholder how far its ask has come: all pods of the gang show it."""
    application = own.application
    gang = application.gang if application is not None else None
    if application is None or gang is None:
        return
    if state is SchedulingState.FAILED:
        gang.without_room.add(own.uid)
    else:
        gang.without_room.discard(own.uid)
    text = f"the gang waits: {reason}"
    if gang_state(application) is not state or gang.shown == text:
        return
    gang.shown = text
    for one in pods_told(application):
        conditions.note(model, one, state, text)


def show(model: Model, own: OwnPod, text: str) -> None:
    """A condition for a pod whose gang has not started."""
    conditions.note(model, own, SchedulingState.SKIPPED, text)
