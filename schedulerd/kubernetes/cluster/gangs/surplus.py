"""Members of a gang get nodes, and each of them needs one placeholder less.

The daemon takes a placeholder away for each member that it places. It does not for a member that somebody else has
bound, or that was created with its node: that member's placeholder would hold room for nobody, and the others would
wait for it. So one is given up here. None comes back when such a member ends, as none does after a swap.

A member that is deleted before it has a node keeps its placeholder: as many members are wanted as before, and the pod
that is made in its place takes it. The pods of a PodGroup all exist, so there none is kept for long: if no such pod
comes, a gang that waits is formed anew of the pods that are left, and one that runs needs one placeholder less.
"""

from __future__ import annotations

from collections import Counter

from schedulerd.kubernetes.cluster import joining
from schedulerd.kubernetes.cluster.asking import task_group_of
from schedulerd.kubernetes.cluster.gangs import slots
from schedulerd.kubernetes.cluster.gangs.declaration import age
from schedulerd.kubernetes.cluster.gangs.membership import SUCCESSOR_WAIT_NS, is_made_again
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangStage, Slot, SlotState
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod


def allocated(model: Model, own: OwnPod) -> None:
    """The daemon has placed the pod: mostly by a swap, and then no placeholder is left over."""
    gang = own.application.gang if own.application is not None else None
    if gang is not None and not own.is_placeholder:
        gang.was_complete = True  # real pods wait for that
    if own.application is not None and gang is not None and _is_new(gang, own):
        _count(model, own.application, gang, own)
        _count_in(gang, own.task_group)


def runs_elsewhere(model: Model, own: OwnPod) -> None:
    """The pod has a node where the daemon has not placed it."""
    gang = own.application.gang if own.application is not None else None
    if own.application is None or gang is None or joining.is_of_other_user(model, own.application, own):
        return  # somebody else cannot make the gang smaller
    if _is_new(gang, own):
        _count(model, own.application, gang, own)
        name = task_group_of(model, own)
        if gang.key is None:
            _count_in(gang, name)
        else:
            gang.elsewhere.append(name)


def give_up_surplus(model: Model, application: Application, gang: Gang) -> None:
    """Once for all members that were counted in this step: there may be thousands."""
    if not gang.has_counted:
        return
    gang.has_counted = False
    for name in _groups_with_one_less(model, application, gang):
        _count_in(gang, name)
    surplus = [group for group in gang.groups.values() if group.left + group.placed > group.slots]
    left = _left(gang) if surplus else {}
    for group in surplus:
        # Some may be on their way out: a swap may have been under way for one of these very pods.
        of_group = left.get(group.name, [])
        _give_up(model, application, gang, of_group, len(of_group) + group.placed - group.slots)


def lacks_successors(model: Model, application: Application, gang: Gang) -> bool:
    """No pods have come in the place of those that have left the PodGroup, and the gang has to be formed anew."""
    if gang.left_ns is None or model.now_ns < gang.left_ns + SUCCESSOR_WAIT_NS:
        return False
    gang.left_ns = None
    if gang.stage not in (GangStage.RESERVING, GangStage.OPEN):
        return False
    waiting = (own for own in application.pods.values() if not own.is_placeholder and not own.node)
    taken = Counter(task_group_of(model, own) for own in waiting)
    too_many = {group: group.left - taken[group.name] for group in gang.groups.values()}
    if not gang.has_run:
        return any(number > 0 for number in too_many.values())
    left = _left(gang)
    for group, number in too_many.items():
        _give_up(model, application, gang, left.get(group.name, []), number)
    return False


def _is_new(gang: Gang, own: OwnPod) -> bool:
    if own.is_placeholder or gang.is_past or own.uid in gang.placed:
        return False
    return any(group.left for group in gang.groups.values())


def _count(model: Model, application: Application, gang: Gang, own: OwnPod) -> None:
    gang.placed[own.uid] = None
    gang.has_counted = True
    model.gangs_due[application.id] = None


def _count_in(gang: Gang, name: str) -> None:
    if (group := gang.groups.get(name)) is not None:
        group.placed += 1


def _give_up(model: Model, application: Application, gang: Gang, left: list[Slot], number: int) -> None:
    for slot in sorted(left, key=_use)[: max(0, number)]:
        slots.give_up(model, application, gang, slot)


def _left(gang: Gang) -> dict[str, list[Slot]]:
    """By task group."""
    found: dict[str, list[Slot]] = {}
    for slot in gang.slots.values():
        if slot.state is not SlotState.SPENT and (slot.own is None or is_made_again(gang, slot.own)):
            found.setdefault(slot.group, []).append(slot)
    return found


def _use(slot: Slot) -> tuple[bool, bool, int]:
    """Those that hold room are given up last."""
    return slot.own is not None and bool(slot.own.uuid), slot.own is not None, -slot.index


def _groups_with_one_less(model: Model, application: Application, gang: Gang) -> list[str]:
    """Of a PodGroup the oldest pods without a node keep their placeholders, as after a start: for each pod with a node
    elsewhere its own group, if it has more than these need, else the last one that has."""
    names, gang.elsewhere = gang.elsewhere, []
    if not names:
        return []
    number = max(0, sum(group.left for group in gang.groups.values()) - len(names))
    others = (own for own in application.pods.values() if not own.is_placeholder and not own.node)
    wanted = Counter(task_group_of(model, own) for own in sorted(others, key=age)[:number])
    surplus = {group.name: group.left - wanted[group.name] for group in gang.groups.values()}
    with_more = [name for name, number in surplus.items() if number > 0]
    found = []
    for name in names:
        while with_more and not surplus[with_more[-1]]:
            with_more.pop()
        if surplus.get(name, 0) > 0 or with_more:
            found.append(name if surplus.get(name, 0) > 0 else with_more[-1])
            surplus[found[-1]] -= 1
    return found
