"""Which ask gets a reservation next, and on which node.

Asks with a required node get theirs at once. Other asks that found no node for a while get the node that lacks least,
if their quotas have room and not too many nodes are reserved. Due asks are enqueued a few at a time, so very many
waiting asks in a full cluster cost nothing while no more room can be reserved.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter

from schedulerd.core.state.actions import predicate_checks, reservations, single_slots, slot_room, slots
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck, Purpose
from schedulerd.core.state.nodes.own_room import fits_beside_own, gang_fits
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.parent_entity import ParentEntity
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.quotas.rules import blocked_by_limits, highest_blocked
from schedulerd.core.state.step_context import StepContext

RETRY_LIST_MAX = 64
"""Maximum number of asks without a required node in the retry list."""
ASKS_MAX = 2_000
"""Maximum number of asks of one pending class visited at a time. The rest follows after `reservation_delay_s`."""


def collect_due(context: StepContext, partition: Partition) -> None:
    """Enqueues the asks of all due pending classes that have waited long enough. Classes that are due at the same time
    come in the order in which their first asks would be allocated."""
    timers = partition.retry_timers
    pending_classes = timers.reservations_due
    due = []
    while (at_ns := pending_classes.next_ns()) is not None and (
        pending_class := pending_classes.pop(context.now_ns)
    ) is not None:
        if not pending_class.unschedulable:
            continue
        if partition.largest().lacks(pending_class.items) is not None:
            timers.unreservable[pending_class] = None
            continue
        firsts = (
            (*one.sort_position(), one.groups[ask.group_key].key())
            for one, ask in _asks_of(partition, partition.root, pending_class)
        )
        due.append((at_ns, next(firsts, ()), pending_class))
    for _, _, pending_class in sorted(due, key=itemgetter(0, 1)):
        _enqueue_class(context, partition, pending_class)


def _enqueue_class(context: StepContext, partition: Partition, pending_class: PendingClass) -> None:
    """Enqueues the asks of the pending class that have waited long enough, in the order of allocation."""
    timers, delay_ns = partition.retry_timers, context.cluster.timeouts.reservation_delay_ns
    retry_list = timers.to_reserve_required if pending_class.request_class.required_node else timers.to_reserve
    visits, again_ns = 0, None
    for application, ask in islice(_asks_of(partition, partition.root, pending_class), ASKS_MAX):
        if not pending_class.request_class.required_node and len(retry_list) >= RETRY_LIST_MAX:
            timers.overflow[pending_class] = None
            break
        visits += 1
        due_ns = reservations.due_ns(context, ask)
        if due_ns <= context.now_ns:
            retry_list.append((application, ask))
        elif again_ns is None or due_ns < again_ns:
            again_ns = due_ns
    timers.budget.visits += visits
    if visits == ASKS_MAX:
        again_ns = context.now_ns + delay_ns if again_ns is None else min(again_ns, context.now_ns + delay_ns)
    if again_ns is not None:
        timers.reservations_due.set_earlier(pending_class, again_ns)


def _asks_of(
    partition: Partition, ancestor: ParentEntity, pending_class: PendingClass
) -> Iterator[tuple[Application, Ask]]:
    """The asks of the class at or below `ancestor`, in order, that lack a reservation and that a reservation may
    help."""
    if isinstance(ancestor, Application) and partition.retry_timers.is_not_helped(ancestor, pending_class):
        return
    for entity in ancestor.pending_index.in_order(pending_class):
        if isinstance(entity, AskGroup):
            assert isinstance(ancestor, Application)
            for ask in entity.in_order():
                if ask.unreserved > 0:
                    yield ancestor, ask
        elif isinstance(entity, ParentEntity):
            yield from _asks_of(partition, entity, pending_class)


def reserve_next(context: StepContext, partition: Partition, visits_end: int) -> bool:
    """Makes the next possible reservation; False if there is none, or none was found before the visits reached
    `visits_end`."""
    timers = partition.retry_timers
    while timers.to_reserve_required:
        application, ask = timers.to_reserve_required.popleft()
        if _needs_reservation(application, ask):
            required = _required_node(partition, ask)
            if required is not None:
                _reserve_required(context, application, ask, required)
                return True
            timers.unreservable[application.groups[ask.group_key].pending_class] = None
    while partition.reservable_nodes > 0 and (timers.to_reserve or timers.overflow):
        if timers.budget.visits >= visits_end:
            return False
        if not timers.to_reserve:
            pending_class = next(iter(timers.overflow))
            del timers.overflow[pending_class]
            if pending_class.unschedulable and pending_class not in timers.unreservable:
                _enqueue_class(context, partition, pending_class)
            continue
        application, ask = timers.to_reserve.popleft()
        if not _needs_reservation(application, ask) or reservations.due_ns(context, ask) > context.now_ns:
            continue
        pending_class = application.groups[ask.group_key].pending_class
        if timers.is_not_helped(application, pending_class):
            continue
        node = None if pending_class in timers.unreservable else _best_node(context, partition, application, ask)
        if node is None:
            if not timers.is_not_helped(application, pending_class) and not _postpone_if_refused(
                context, application, ask
            ):
                timers.unreservable[pending_class] = None
            continue
        if slot_room.are_held_together(application) and ask.placeholder:
            if not single_slots.hold_singly(context, partition, application, slots.ask_each):
                timers.unreservable[pending_class] = None
                continue
            return True
        if (
            ask.spec.slot
            and ask.no_reservation_before_ns
            and single_slots.hold_together(context, partition, application)
        ):
            return True
        if ask.unreserved > 1 and not partition.wants_predicates(ask.request_class):
            timers.to_reserve.appendleft((application, ask))
        _reserve(context, application, ask, node)
        return True
    return False


def _reserve(context: StepContext, application: Application, ask: Ask, node: Node) -> None:
    """At once, or when the resource manager agrees where it has a say."""
    if not _asks_to_reserve(context, application, ask, node):
        reservations.reserve(context, application, ask, node, is_entitled=False)


def _reserve_required(context: StepContext, application: Application, ask: Ask, node: Node) -> None:
    """Reserves room on the required node for all pending allocations that it could hold and quotas let in together."""
    if not _asks_to_reserve(context, application, ask, node):
        _reserve_all(context, application, ask, node)


def _asks_to_reserve(context: StepContext, application: Application, ask: Ask, node: Node) -> bool:
    if not context.partition_of(application).wants_predicates(ask.request_class):
        return False
    predicate_checks.begin(context, predicate_checks.new_check(context, application, ask, node, Purpose.RESERVE))
    return True


def _reserve_all(context: StepContext, application: Application, ask: Ask, node: Node) -> None:
    """The first whatever quotas say. With more than they let in, all would wait for what is reserved for the others."""
    partition, pending_class = context.partition_of(application), application.groups[ask.group_key].pending_class
    while ask.unreserved > 0 and _required_node(partition, ask) is node:
        if ask.reservations and highest_blocked(application.queue, pending_class.items, pending_class.quota_key):
            return
        reservations.reserve(context, application, ask, node, is_entitled=True)


def reserve_agreed(context: StepContext, predicate_check: PredicateCheck, _index: int) -> None:
    """The RM agreed: reserves room on the node, if the ask still waits and the node is still suitable."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    partition = context.partition_of(application)
    if not _needs_reservation(application, ask):
        return
    if ask.request_class.required_node:
        _reserve_all(context, application, ask, node)
        return
    is_within = partition.reservable_nodes > 0 and _is_within_quotas(partition, application, ask)
    is_good = partition.nodes.get(node.node_id) is node and _may_reserve(context, partition, ask, node)
    if (
        is_within
        and is_good
        and gang_fits(partition, application)
        and fits_beside_own(application, ask.request_class, node)
    ):
        reservations.reserve(context, application, ask, node, is_entitled=False)
    if ask.unreserved > 0:
        partition.retry_timers.to_reserve.appendleft((application, ask))


def reserve_refused(context: StepContext, predicate_check: PredicateCheck, _reason: str) -> None:
    """The RM refused the node: the next best node is tried; if there is none, the same one after a while."""
    application, ask = predicate_check.application, predicate_check.ask
    if not _needs_reservation(application, ask):
        return
    is_remembered = ask.predicate_history is not None and ask.predicate_history.is_refused(predicate_check.node)
    if ask.request_class.required_node or not is_remembered:
        _postpone_reservation(context, application, ask)
    else:
        context.partition_of(application).retry_timers.to_reserve.appendleft((application, ask))


def _postpone_if_refused(context: StepContext, application: Application, ask: Ask) -> bool:
    """Whether the ask has no reservation because the RM refused nodes for this ask only. Then it gets a retry time, and
    equal asks are not affected."""
    if ask.predicate_history is None or not ask.predicate_history.refused:
        return False
    _postpone_reservation(context, application, ask)
    return True


def _postpone_reservation(context: StepContext, application: Application, ask: Ask) -> None:
    """The ask gets no reservation until the retry time; then the RM is asked about all nodes again."""
    partition = context.partition_of(application)
    if ask.predicate_history is not None:
        predicate_checks.clear_refusals(partition, ask.predicate_history)
    ask.no_reservation_before_ns = max(
        ask.no_reservation_before_ns, context.now_ns + context.cluster.timeouts.predicate_retry_delay_ns
    )
    partition.retry_timers.reservations_due.set_earlier(
        application.groups[ask.group_key].pending_class, ask.no_reservation_before_ns
    )


def _needs_reservation(application: Application, ask: Ask) -> bool:
    group = application.groups.get(ask.group_key)
    if (
        group is None
        or ask not in group
        or not group.needs
        or not group.pending_class.unschedulable
        or ask.unreserved <= 0
    ):
        return False
    return ask.predicate_history is None or not ask.predicate_history.predicate_checks


def _required_node(partition: Partition, ask: Ask) -> Node | None:
    """The required node of the ask, if one more reservation there makes sense: with all others of the ask it would fit
    if nothing ran there."""
    node = partition.nodes.get(ask.request_class.required_node)
    if node is None or not node.ready or not node.is_reservable:
        return None
    if not node.can_ever_fit(ask.request_class.resources.times(len(ask.reservations) + 1).canonical()):
        return None
    if ask.predicate_history is not None and ask.predicate_history.is_refused(node):
        return None
    return node if partition.objection(ask.request_class, node) is None else None


def _best_node(context: StepContext, partition: Partition, application: Application, ask: Ask) -> Node | None:
    """The node that lacks least for the ask. None if there is none, or if the quotas have no room for it beside all
    other reservations.

    If the own allocations or the gang of the application are the reason, that is noted for the whole application.
    """
    if not _is_within_quotas(partition, application, ask):
        return None
    is_own_fault = not gang_fits(partition, application)
    asks = not (ask.placeholder and slot_room.are_held_together(application))
    """Nothing is reserved for slots that are held together: they are to be held one by one."""

    def may(node: Node) -> bool:
        nonlocal is_own_fault
        if not _may_reserve(context, partition, ask, node, asks=asks):
            return False
        is_beside_own = fits_beside_own(application, ask.request_class, node)
        is_own_fault = is_own_fault or not is_beside_own
        return is_beside_own

    nodes = partition.candidates(ask.request_class)
    before = nodes.visits
    found = None if is_own_fault else nodes.least_short(ask.request_class, may)
    partition.retry_timers.budget.visits += nodes.visits - before
    if found is None and is_own_fault:
        unhelped = partition.retry_timers.not_helped_by_reservation.setdefault(application, {})
        unhelped[application.groups[ask.group_key].pending_class] = None
    return found


def _may_reserve(context: StepContext, partition: Partition, ask: Ask, node: Node, *, asks: bool = True) -> bool:
    if (
        node.reservations
        or node.no_reservation_before_ns > context.now_ns
        or not node.can_ever_fit(ask.request_class.items)
    ):
        return False
    if asks and partition.wants_predicates(ask.request_class) and not _may_ask_to_reserve(ask, node):
        return False
    return partition.objection(ask.request_class, node) is None


def _may_ask_to_reserve(ask: Ask, node: Node) -> bool:
    """Whether to ask the RM about a reservation. Not on a node with room, where an allocation is checked instead, and
    for one ask at a time on each node."""
    if node.free.lacks(ask.request_class.items) is None or (
        ask.predicate_history is not None and ask.predicate_history.is_refused(node)
    ):
        return False
    return not any(one.purpose is Purpose.RESERVE for one in node.predicate_checks)


def _is_within_quotas(partition: Partition, application: Application, ask: Ask) -> bool:
    """Whether all quotas have room for the ask beside all reservations, and the limits of its user have room now.

    A limit without room would end the reservation as soon as the node has room.
    """
    pending_class = application.groups[ask.group_key].pending_class
    for queue in application.queue.path_to_root:
        if blocked_by_limits(queue, pending_class.items, pending_class.quota_key) is not None:
            return False
        if queue.max:
            used = queue.allocated.plus(queue.quota_reserved)
            for one in partition.reservations:
                if not one.is_entitled and queue in one.application.queue.path_to_root:
                    used.add(one.items)
            if queue.max.exceeded_by(used, ask.request_class.items) is not None:
                return False
    return True
