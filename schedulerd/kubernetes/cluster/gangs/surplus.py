"""Members of a gang get nodes, and each of them needs one placeholder less.

The daemon takes a placeholder away for each member that it places. It does not for a member that somebody else has
bound, or that was created with its node: that member's placeholder would hold room for nobody, and the others would
wait for it. So one is given up here. None comes back when such a member ends, as none does after a swap.

A member that is deleted before it has a node keeps its placeholder: as many members are wanted as before, and the pod
that is made in its place takes it.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import joining
from schedulerd.kubernetes.cluster.asking import task_group_of
from schedulerd.kubernetes.cluster.gangs import slots
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangProgress
from schedulerd.kubernetes.cluster.gangs.membership import is_made_again
from schedulerd.kubernetes.cluster.gangs.model import Gang, Slot, SlotState
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod


def allocated(model: Model, own: OwnPod) -> None:
    """The daemon has placed the pod: mostly by a swap, and then no placeholder is left over."""
    gang = own.application.gang if own.application is not None else None
    if gang is not None and not own.is_placeholder:
        gang.reach(GangProgress.WAS_COMPLETE)  # real pods wait for that
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
        _count_in(gang, task_group_of(own))


def give_up_surplus(model: Model, application: Application, gang: Gang) -> None:
    """Once for all members that were counted in this step: there may be thousands."""
    surplus = [group for group in gang.groups.values() if group.left + group.placed > group.slots]
    left = _left(gang) if surplus else {}
    for group in surplus:
        # Some may be on their way out: a swap may have been under way for one of these very pods.
        of_group = left.get(group.name, [])
        _give_up(model, application, gang, of_group, len(of_group) + group.placed - group.slots)


def _is_new(gang: Gang, own: OwnPod) -> bool:
    if own.is_placeholder or gang.is_past or own.uid in gang.placed:
        return False
    return any(group.left for group in gang.groups.values())


def _count(model: Model, application: Application, gang: Gang, own: OwnPod) -> None:
    gang.placed[own.uid] = None
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
