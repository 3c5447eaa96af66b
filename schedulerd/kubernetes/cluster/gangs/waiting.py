"""What a gang waits for: all its pods without a node show that, whatever each of them waits for.

While a virtual gang lacks room, all its pods without a node are unschedulable, not only as many as placeholders are
missing: an autoscaler knows nothing of the room that is held, and would count it as free. Placeholder pods say it for
themselves, and then real pods must not, or the demand would count twice; the daemon says of these that they wait for
their gang.
"""

from __future__ import annotations

from dataclasses import replace

from schedulerd.amounts import amounts
from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangStage, Group, Slot, SlotState
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.metadata.gangs import PlaceholderKind
from schedulerd.kubernetes.reasons.sentences import SKIPPED, UNSCHEDULABLE, condition_reason
from schedulerd.kubernetes.reasons.waiting import Waiting, held
from schedulerd.kubernetes.resources import PODS


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
    return next(iter(gang.held_back.values()), None)


def show(model: Model, application: Application) -> None:
    """Its pods show what it waits for now; if that is nothing, each of them shows its own reason again."""
    gang = application.gang
    found = of_gang(application)
    if gang is None or found == gang.shown:
        return
    gang.shown = found
    without_room = (key for key, waiting in gang.without_room.items() if waiting is found)
    gang.shown_like = next((model.virtual[key].judged for key in without_room), None)
    real = [own for own in application.pods.values() if not own.is_placeholder]
    conditions.share(model, [own for own in real if found is None or not own.node], found, gang.shown_like)


def joined(model: Model, gang: Gang, own: OwnPod) -> None:
    if not own.node:
        conditions.share(model, (own,), gang.shown, gang.shown_like)


def left(model: Model, own: OwnPod) -> None:
    conditions.share(model, (own,), None)


def virtual_told(model: Model, own: OwnPod, waiting: Waiting) -> None:
    """The daemon says why the ask of a virtual placeholder waits."""
    gang = own.application.gang if own.application is not None else None
    if own.application is None or gang is None:
        return
    if condition_reason(waiting) == UNSCHEDULABLE:
        gang.held_back.pop(own.uid, None)
        gang.without_room[own.uid] = replace(waiting, member=_member(gang.groups[own.task_group]))
    else:
        gang.without_room.pop(own.uid, None)
        gang.held_back[own.uid] = waiting
    model.gangs_due[own.application.id] = None


def note_timed_out(model: Model, application: Application | None) -> None:
    """The time of the gang is over: what its placeholders without a node waited for, before they are given up."""
    gang = application.gang if application is not None else None
    if application is None or gang is None or gang.is_past or gang.shortfall is not None:
        return
    gang.shortfall = ""
    needed = [slot for slot in gang.slots.values() if slot.state is not SlotState.SPENT]
    short = [slot for slot in needed if slot.own is None or not slot.own.uuid]
    if not short:
        return
    group = gang.groups[short[0].group]
    time_s, placed = gang.timeout_s or model.settings.gang_timeout_ns / SECOND_NS, len(needed) - len(short)
    waits_for = next(
        (said[1] for own in _telling(application, gang, short) if (said := conditions.said(model, own))), ""
    )
    gang.shortfall = f"{placed} of {len(needed)} placeholders were placed in {time_s:g} s; "
    gang.shortfall += f"the next one, of task group {group.name!r}, asks for {_amounts(group) or 'a pod'}"
    gang.shortfall += f": {waits_for}" if waits_for else ""


def _member(group: Group) -> str:
    who = "a pod" if group.declared is None else f"a member of task group {group.name!r}"
    needs = _amounts(group)
    return f"{who}, with {needs}" if needs else who


def _amounts(group: Group) -> str:
    return amounts({name: amount for name, amount in group.resources.items() if name != PODS})


def _telling(application: Application, gang: Gang, short: list[Slot]) -> list[OwnPod]:
    """Pods that show what these placeholders wait for."""
    if gang.kind is PlaceholderKind.VIRTUAL:
        return [own for own in application.pods.values() if own.reason.shared is not None]
    return [slot.own for slot in short if slot.own is not None and slot.own.state is PodState.ASKED]


def forget(model: Model, own: OwnPod) -> None:
    """The virtual placeholder waits no longer."""
    if own.application is not None and own.application.gang is not None:
        own.application.gang.without_room.pop(own.uid, None)
        own.application.gang.held_back.pop(own.uid, None)
        model.gangs_due[own.application.id] = None
