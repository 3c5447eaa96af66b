"""What a gang waits for before the daemon looks for its room: pods that do not exist yet, or placeholder pods that
cannot be created. All its pods without a node show that; what the daemon says, it says of each of them."""

from __future__ import annotations

from schedulerd.amounts import amounts
from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangStage
from schedulerd.kubernetes.cluster.gangs.model import Gang, Group, SlotState
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.reasons.sentences import SKIPPED
from schedulerd.kubernetes.reasons.waiting import Waiting, held
from schedulerd.kubernetes.resources import PODS


def of_gang(application: Application) -> Waiting | None:
    """None: nothing is known, or the gang holds back nobody."""
    gang = application.gang
    if gang is None or gang.is_past or application.state is ApplicationState.WAITING:
        return None
    if gang.stage is GangStage.FORMING:
        return held(gang.said, SKIPPED) if gang.said else None
    problem = next((slot.problem for slot in gang.to_come if slot.problem), "")
    return held(problem, SKIPPED) if problem else None


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


def note_timed_out(model: Model, application: Application | None) -> None:
    """The time of the gang is over: what its placeholders without a node waited for, before they are given up."""
    gang = application.gang if application is not None else None
    if gang is None or gang.is_past or gang.shortfall is not None:
        return
    gang.shortfall = ""
    needed = [slot for slot in gang.slots.values() if slot.state is not SlotState.SPENT]
    short = [slot for slot in needed if slot.own is None or not slot.own.uuid]
    if not short:
        return
    group = gang.groups[short[0].group]
    time_s, placed = gang.timeout_s or model.settings.gang_timeout_ns / SECOND_NS, len(needed) - len(short)
    asked = [slot.own for slot in short if slot.own is not None and slot.own.state is PodState.ASKED]
    waits_for = next((said[1] for own in asked if (said := conditions.said(model, own))), "")
    gang.shortfall = f"{placed} of {len(needed)} placeholders were placed in {time_s:g} s; "
    gang.shortfall += f"the next one, of task group {group.name!r}, asks for {_amounts(group) or 'a pod'}"
    gang.shortfall += f": {waits_for}" if waits_for else ""


def _amounts(group: Group) -> str:
    return amounts({name: amount for name, amount in group.resources.items() if name != PODS})
