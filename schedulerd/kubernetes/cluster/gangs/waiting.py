"""What a gang waits for: all its pods without a node show that, whatever each of them waits for.

While a virtual gang lacks room, all its pods without a node are unschedulable, not only as many as placeholders are
missing: an autoscaler knows nothing of the room that is held, and would count it as free. Placeholder pods say it for
themselves, and then real pods must not, or the demand would count twice; the daemon says of these that they wait for
their gang.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangStage
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod, PodState
from schedulerd.kubernetes.metadata.gangs import PlaceholderKind
from schedulerd.kubernetes.reasons.sentences import SKIPPED, UNSCHEDULABLE, condition_reason
from schedulerd.kubernetes.reasons.waiting import Waiting, held


def of_gang(application: Application) -> Waiting | None:
    """What the daemon says of a virtual placeholder, one without room first; or missing pods, or placeholders that
    cannot be created. None: nothing is known, or the gang holds back nobody."""
    gang = application.gang
    if gang is None or gang.stage is GangStage.OVER or application.state is ApplicationState.WAITING:
        return None
    if gang.stage is GangStage.FORMING:
        return held(gang.said, SKIPPED) if gang.said else None
    if gang.without_room:
        return next(iter(gang.without_room.values()))
    problem = next((slot.problem for slot in gang.to_come if slot.problem), "")
    if problem:
        return held(problem, SKIPPED)
    if gang.kind is not PlaceholderKind.VIRTUAL:
        return None
    asked = (slot.own for slot in gang.slots.values() if slot.own is not None and slot.own.state is PodState.ASKED)
    return next((own.reason.waiting for own in asked if own.reason.waiting is not None), None)


def show(model: Model, application: Application) -> None:
    """Its pods show what it waits for now; if that is nothing, each of them shows its own reason again."""
    gang = application.gang
    found = of_gang(application)
    if gang is None or found == gang.shown:
        return
    gang.shown = found
    real = [own for own in application.pods.values() if not own.is_placeholder]
    conditions.share(model, [own for own in real if found is None or not own.node], found)


def joined(model: Model, gang: Gang, own: OwnPod) -> None:
    if not own.node:
        conditions.share(model, (own,), gang.shown)


def left(model: Model, own: OwnPod) -> None:
    conditions.share(model, (own,), None)


def virtual_told(model: Model, own: OwnPod, waiting: Waiting) -> None:
    """The daemon says why the ask of a virtual placeholder waits."""
    gang = own.application.gang if own.application is not None else None
    if own.application is None or gang is None:
        return
    own.reason.waiting = waiting
    if condition_reason(waiting) == UNSCHEDULABLE:
        gang.without_room[own.uid] = waiting
    else:
        gang.without_room.pop(own.uid, None)
    model.gangs_due[own.application.id] = None


def forget(model: Model, own: OwnPod) -> None:
    """The virtual placeholder waits no longer."""
    if own.application is not None and own.application.gang is not None:
        own.application.gang.without_room.pop(own.uid, None)
        model.gangs_due[own.application.id] = None
