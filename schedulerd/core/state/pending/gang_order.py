"""Which of two gangs is served before the other, where both cannot be complete at a time (gang deadlock).

Gangs that declare their task groups come in the order in which the root would serve them: by priority, with the offsets
and fences of their queues, and by the shares of these, as their lowest common ancestor sees them, then by age. What the
gang itself holds is no part of a share, or gangs would go ahead of each other in turns. Two gangs of which one is of
placeholders come by age.
"""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.state.model.application import Age, Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.nodes.own_room import gang_fits
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.sort_keys import QUEUE_ORDERS


class _Standing(NamedTuple):
    """How a gang stands where its way to the root meets that of another one."""

    priority: int
    share: int
    is_by_priority: bool
    """Whether priority comes before the share."""

    def place(self) -> tuple[int, int]:
        """The smaller one comes first."""
        return (-self.priority, self.share) if self.is_by_priority else (self.share, -self.priority)


def is_ahead(one: Application, other: Application) -> bool:
    """Whether `one` is served before `other`."""
    if not (_is_declared(one) and _is_declared(other)):
        return one.age < other.age
    if one.queue is other.queue and not one.queue.properties.priority_sort:
        return (one.age, -_priority(one)) < (other.age, -_priority(other))
    ancestor = _common_ancestor(one, other)
    return (_standing(ancestor, one).place(), one.age) < (_standing(ancestor, other).place(), other.age)


def are_equal(one: Application, other: Application) -> bool:
    """Whether no priority puts one before the other."""
    if not (_is_declared(one) and _is_declared(other)):
        return True
    ancestor = _common_ancestor(one, other)
    return _standing(ancestor, one).priority == _standing(ancestor, other).priority


def before_growth(partition: Partition, application: Application, group: AskGroup) -> Application | None:
    """The gang whose room members of the group may not take: it gathers in the same leaf, is ahead there, and waits for
    nodes that could hold it. None if there is none, or if the gang of the application needs these members."""
    assert application.gang is not None
    declared = application.gang.declared.get(group.task_group)
    if declared is None or group.placeholder or application.gang.lacking(declared) > 0:
        return None
    own = _place_in_leaf(application, group.first().spec.priority)
    for one in partition.open_gangs:
        if one.queue is not application.queue or one.gang is None or one.gang.state is not GangState.GATHERING:
            continue
        slots = (of.pending_class for of in one.groups.values() if of.placeholder)
        is_ahead_here = _place_in_leaf(one, _priority(one)) < own
        if is_ahead_here and any(slot.unschedulable for slot in slots) and gang_fits(partition, one):
            return one
    return None


def _place_in_leaf(application: Application, priority: int) -> tuple[int, Age]:
    return (-priority if application.queue.properties.priority_sort else 0), application.age


def _is_declared(application: Application) -> bool:
    return application.gang is not None and bool(application.gang.declared)


def _common_ancestor(one: Application, other: Application) -> Queue:
    return next(queue for queue in one.queue.path_to_root if queue in other.queue.path_to_root)


def _priority(application: Application) -> int:
    return max((ask.spec.priority for ask in application.asks.values() if ask.spec.slot), default=0)


def _standing(ancestor: Queue, application: Application) -> _Standing:
    """As if the gang were all that waits below the ancestor on its way."""
    shown, below = _priority(application), None
    for queue in application.queue.path_to_root:
        if queue is ancestor:
            break
        shown, below = queue.shown_priority(shown), queue
    if below is None:
        return _Standing(shown, 0, True)
    used = below.allocated.minus(application.placeholder_allocated)
    share = QUEUE_ORDERS[ancestor.properties.queue_order](
        used, below.guaranteed, below.nearest_max, below.capacity.amounts
    )
    return _Standing(shown, share, ancestor.properties.priority_sort)
