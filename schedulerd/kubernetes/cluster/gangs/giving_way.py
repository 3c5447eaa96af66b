"""Gangs that hold a part each of what only one of them can have, because their members exclude each other.

The daemon breaks such a deadlock where room is what they lack, as it compares amounts. Which node suits a member by
ports, labels and terms is known here alone. So if an incomplete gang whose placeholders were refused would be complete
without the placeholders of later ones, these give way: the latest first, as few as are enough, and none if that does
not help. They are made again a while later.

A gang whose placeholders are not all there waits for more than nodes, and nobody gives way for it. Only a few gangs are
looked at together, in turn from the oldest on: one that nobody can help does not keep others from being looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedulerd.kubernetes.cluster.effects import DeletePod
from schedulerd.kubernetes.cluster.gangs import slots
from schedulerd.kubernetes.cluster.gangs.declaration import age
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangStage
from schedulerd.kubernetes.cluster.gangs.model import GangAge, SlotState
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

PATIENCE_NS = 10 * SECOND_NS
"""After a placeholder was refused: what it waits for may be about to change."""
GANGS_MAX = 5
"""Maximum number of gangs that are compared with each other, and of later ones that may give way."""
FAILURES = 5
"""As many as make a placeholder that has given way wait for half a minute."""


def schedule_check(model: Model) -> None:
    """A node has refused a placeholder: checks after `PATIENCE_NS` whether gangs exclude each other."""
    if not model.is_gang_check_due:
        model.is_gang_check_due = True
        model.timers.set(model.now_ns + PATIENCE_NS, Due.GANGS_EXCLUDE, "")


def check(model: Model) -> None:
    """Some time after a node has refused a placeholder."""
    model.is_gang_check_due = False
    gangs = sorted(filter(_is_incomplete, model.applications.values()), key=_age)
    stuck = [one for one in gangs if any(own.uid in model.cache.refused for own in _waiting(one))]
    if stuck and len(gangs) > 1:
        schedule_check(model)
    for application in _next_ones(model, [one for one in stuck if _has_all_placeholders(one)]):
        if _is_enough(model, application, []):
            continue  # it needs nobody's room
        later = [one for one in gangs[gangs.index(application) + 1 :] if _held(one)][-GANGS_MAX:]
        for count in range(1, len(later) + 1):
            giving = later[-count:]
            if _is_enough(model, application, giving):
                for one in giving:
                    _give_way(model, one, application)
                return


def _next_ones(model: Model, stuck: list[Application]) -> list[Application]:
    """Those that are checked now: after the last ones, or from the oldest on."""
    last = model.gang_checked
    found = ([one for one in stuck if last is not None and _age(one) > last] or stuck)[:GANGS_MAX]
    model.gang_checked = _age(found[-1]) if found else None
    return found


def _is_incomplete(application: Application) -> bool:
    gang = application.gang
    return (
        gang is not None
        and gang.originator is not None
        and not gang.was_complete
        and gang.stage in (GangStage.RESERVING, GangStage.OPEN)
    )


def _age(application: Application) -> GangAge:
    assert application.gang is not None
    assert application.gang.originator is not None
    return GangAge(*age(application.gang.originator), application.id)


def _has_all_placeholders(application: Application) -> bool:
    """Each of them holds room, or waits for a node."""
    assert application.gang is not None
    needed = [slot.own for slot in application.gang.slots.values() if slot.state is not SlotState.SPENT]
    return all(own is not None and (own.state is PodState.ASKED or bool(own.uuid)) for own in needed)


def _placeholders(application: Application) -> Iterable[OwnPod]:
    assert application.gang is not None
    return [slot.own for slot in application.gang.slots.values() if slot.own is not None]


def _waiting(application: Application) -> list[OwnPod]:
    return [own for own in _placeholders(application) if own.state is PodState.ASKED]


def _held(application: Application) -> list[OwnPod]:
    return [own for own in _placeholders(application) if own.uuid and not own.is_release_wanted]


def _is_enough(model: Model, application: Application, giving: list[Application]) -> bool:
    """All placeholders of the gang that wait would find nodes, one after the other, without those of the others."""
    gone = [own.uid for one in giving for own in _held(one)]
    names = model.cache.node_names
    tried: dict[str, int] = {}
    """Nodes that have refused placeholders of a task group, which are all alike."""
    found: list[OwnPod] = []
    is_enough = True
    with model.cache.refused.nothing_happens():
        for own in _waiting(application):
            if model.cache.has_node(own.uid):
                continue  # it was promised one
            at = tried.get(own.task_group, 0)
            while at < len(names) and model.predicates.judge(own.judged, names[at], gone=gone, first_only=True):
                at += 1
            tried[own.task_group] = at
            if at == len(names):
                is_enough = False
                break
            model.cache.assume(own.judged, names[at], for_now=True)
            found.append(own)
        for own in found:
            model.cache.forget_assumed(own.uid)
    return is_enough


def _give_way(model: Model, application: Application, to: Application) -> None:
    gang = application.gang
    assert gang is not None
    message = f"the gang gives way to the earlier one of application {to.id.name!r}, which excludes it"
    if gang.originator is not None:
        model.record(gang.originator, "GangGaveWay", "Scheduling", message)
    for own in _held(application):
        if own.slot is None:
            continue
        own.slot.failures = max(own.slot.failures, FAILURES)
        slots.stand_in(model, own)
        model.effects.append(DeletePod(own.name))
