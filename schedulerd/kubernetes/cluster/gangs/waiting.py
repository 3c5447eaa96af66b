"""Why a gang waits: for room on nodes, or for quota and its own start.

While a virtual gang lacks room, all its pods without a node are unschedulable, not only as many as placeholders are
missing: an autoscaler knows nothing of the room that is held, and would count it as free. Placeholder pods say it for
themselves, and then real pods must not, or the demand would count twice.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.events import SchedulingState
from schedulerd.kubernetes.cluster.gangs.model import GangStage, SlotState
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
    missing = [
        slot.own for slot in gang.slots.values() if slot.own is not None and slot.own.state is PodState.ASKED
    ]  # fmt: skip
    if not missing and all(slot.state is not SlotState.WANTED for slot in gang.slots.values()):
        return None
    if gang.kind is PlaceholderKind.VIRTUAL and any(own.told_state is SchedulingState.FAILED for own in missing):
        return SchedulingState.FAILED
    return SchedulingState.SKIPPED


def state_of(own: OwnPod, said: SchedulingState) -> SchedulingState:
    """What holds for a real pod of which the daemon has said this: its gang decides, while that waits."""
    if own.application is None or own.is_placeholder:
        return said
    return gang_state(own.application) or said


def pods_told(application: Application) -> list[OwnPod]:
    """The pods that show what holds for the gang: all real ones without a node."""
    return [own for own in application.pods.values() if not own.is_placeholder and not own.node]


def virtual_told(model: Model, own: OwnPod, state: SchedulingState, reason: str) -> None:
    """The daemon says of a virtual placeholder how far its ask has come: all pods of the gang show it."""
    own.told_state = state
    application = own.application
    if application is None or (holds := gang_state(application)) is None or holds is not state:
        return
    for one in pods_told(application):
        conditions.note(model, one, holds, f"the gang waits: {reason}")


def show(model: Model, own: OwnPod, text: str) -> None:
    """A condition for a pod whose gang has not started."""
    conditions.note(model, own, SchedulingState.SKIPPED, text)
