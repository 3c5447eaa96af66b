"""For whom room is kept next: asks that find no node for a while, and those that may run on a single one.

The first have the node kept for them that lacks least, as far as their quotas reach and as long as not too many nodes
are kept already; the others have theirs at once. Who is old enough is lined up a few at a time, so that the many who
wait in a full cluster cost nothing while no more room can be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter

from schedulerd.core.decide.own_room import fits_beside_own, gang_fits
from schedulerd.core.handlers import predicate_checks, reservations
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.node import Node
from schedulerd.core.model.parent_entity import ParentEntity
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import PredicateCheck, Purpose
from schedulerd.core.model.request_class import PendingClass
from schedulerd.core.step_context import StepContext

LINED_UP_MAX = 64
"""How many asks are lined up at most."""
ASKS_MAX = 2_000
"""How many asks of one request class are looked at in one go; if that was not all, it goes on after the usual delay."""


def enqueue_due(context: StepContext, partition: Partition) -> None:
    """Enqueues the asks that have waited for long enough, of the request classes that are due; of those due at once,
    the next in line."""
    timers = partition.retry_timers
    pending_classes, until_ns = (
        timers.reservations_due,
        context.now_ns - context.cluster.timeouts.reservation_delay_ns,
    )
    due = []
    while (at_ns := pending_classes.next_ns()) is not None and (
        pending_class := pending_classes.pop(until_ns)
    ) is not None:
        if not pending_class.unschedulable:
            continue
        if partition.largest().lacks(pending_class.items) is not None:
            timers.unreservable[pending_class] = None
            continue
        firsts = (
            (*one.sort_position(), one.groups[ask.band].key()) for one, ask in _asks_of(partition.root, pending_class)
        )
        due.append((at_ns, next(firsts, ()), pending_class))
    for _, _, pending_class in sorted(due, key=itemgetter(0, 1)):
        _line_up(context, partition, pending_class)


def _line_up(context: StepContext, partition: Partition, pending_class: PendingClass) -> None:
    """The asks of the request class that are old enough, in the order in which they would be placed."""
    timers, delay_ns = partition.retry_timers, context.cluster.timeouts.reservation_delay_ns
    line = timers.to_reserve_required if pending_class.request_class.required_node else timers.to_reserve
    looked_at, again_ns = 0, None
    for application, ask in islice(_asks_of(partition.root, pending_class), ASKS_MAX):
        if not pending_class.request_class.required_node and len(line) >= LINED_UP_MAX:
            timers.overflow[pending_class] = None
            break
        looked_at += 1
        due_ns = reservations.due_ns(context, ask)
        if due_ns <= context.now_ns:
            line.append((application, ask))
        elif again_ns is None or due_ns < again_ns:
            again_ns = due_ns
    timers.budget.visits += looked_at
    if looked_at == ASKS_MAX:
        again_ns = context.now_ns + delay_ns if again_ns is None else min(again_ns, context.now_ns + delay_ns)
    if again_ns is not None:
        timers.reservations_due.hurry(pending_class, again_ns - delay_ns)


def _asks_of(ancestor: ParentEntity, pending_class: PendingClass) -> Iterator[tuple[Application, Ask]]:
    """All that wait for a node here and below, in order, have none kept for them, and may be helped by that."""
    if isinstance(ancestor, Application) and ancestor.partition.retry_timers.is_unhelped(ancestor, pending_class):
        return
    for entity in ancestor.pending_index.in_order(pending_class):
        if isinstance(entity, AskGroup):
            assert isinstance(ancestor, Application)
            for ask in entity.in_order():
                if ask.unreserved > 0:
                    yield ancestor, ask
        elif isinstance(entity, ParentEntity):
            yield from _asks_of(entity, pending_class)


def reserve_next(context: StepContext, partition: Partition, visits_end: int) -> bool:
    """Keeps room for the next ask for which that can be done; False if there is none, or none was found up to
    `visits_end`."""
    timers = partition.retry_timers
    while timers.to_reserve_required:
        application, ask = timers.to_reserve_required.popleft()
        if _waits(application, ask):
            required = _required_node(partition, ask)
            if required is not None:
                _keep(context, application, ask, required)
                return True
            timers.unreservable[application.groups[ask.band].pending_class] = None
    while partition.reservable_nodes > 0 and (timers.to_reserve or timers.overflow):
        if timers.budget.visits >= visits_end:
            return False
        if not timers.to_reserve:
            pending_class = next(iter(timers.overflow))
            del timers.overflow[pending_class]
            if pending_class.unschedulable and pending_class not in timers.unreservable:
                _line_up(context, partition, pending_class)
            continue
        application, ask = timers.to_reserve.popleft()
        if not _waits(application, ask) or reservations.due_ns(context, ask) > context.now_ns:
            continue
        kind = application.groups[ask.band].pending_class
        if timers.is_unhelped(application, kind):
            continue
        node = None if kind in timers.unreservable else _best_node(context, partition, application, ask)
        if node is None:
            if not timers.is_unhelped(application, kind) and not _rests_for_refusals(context, application, ask):
                timers.unreservable[kind] = None
            continue
        if ask.unreserved > 1 and not partition.callbacks.predicates:
            timers.to_reserve.appendleft((application, ask))
        _keep(context, application, ask, node)
        return True
    return False


def _keep(context: StepContext, application: Application, ask: Ask, node: Node) -> None:
    """At once, or when the resource manager agrees where it has a say; firmly if the ask may run nowhere else."""
    if application.partition.callbacks.predicates:
        predicate_checks.begin(context, PredicateCheck(context.now_ns, application, ask, node, Purpose.KEEP))
    else:
        reservations.keep(context, application, ask, node, is_entitled=bool(ask.request_class.required_node))


def keep_agreed(context: StepContext, predicate_check: PredicateCheck) -> None:
    """Room may be kept there, if the ask still waits for it, and the node is still one to keep it on."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    partition = application.partition
    if not _waits(application, ask):
        return
    if ask.request_class.required_node:
        if _required_node(partition, ask) is node:
            reservations.keep(context, application, ask, node, is_entitled=True)
        return
    is_within = partition.reservable_nodes > 0 and _is_within_quotas(partition, application, ask)
    is_good = partition.nodes.get(node.node_id) is node and _may_keep(context, partition, ask, node)
    if is_within and is_good and gang_fits(application) and fits_beside_own(application, ask.request_class, node):
        reservations.keep(context, application, ask, node, is_entitled=False)
    if ask.unreserved > 0:
        partition.retry_timers.to_reserve.appendleft((application, ask))


def keep_refused(context: StepContext, predicate_check: PredicateCheck) -> None:
    """The next best node is asked about; of an ask that has no other, the same one after a while."""
    application, ask = predicate_check.application, predicate_check.ask
    if not _waits(application, ask):
        return
    is_remembered = ask.predicate_history is not None and ask.predicate_history.bars(predicate_check.node)
    if ask.request_class.required_node or not is_remembered:
        _rest(context, application, ask)
    else:
        application.partition.retry_timers.to_reserve.appendleft((application, ask))


def _rests_for_refusals(context: StepContext, application: Application, ask: Ask) -> bool:
    """Whether it is for the resource manager that no room is kept for the ask, while others of its kind may have more
    luck: then it rests."""
    if ask.predicate_history is None or not ask.predicate_history.refused:
        return False
    _rest(context, application, ask)
    return True


def _rest(context: StepContext, application: Application, ask: Ask) -> None:
    """No room is looked for where it could be kept for the ask for a while, and everywhere after that."""
    partition = application.partition
    if ask.predicate_history is not None:
        predicate_checks.forgive(partition, ask.predicate_history)
    ask.rests_until_ns = max(ask.rests_until_ns, context.now_ns + context.cluster.timeouts.refusal_ns)
    delay_ns = context.cluster.timeouts.reservation_delay_ns
    partition.retry_timers.reservations_due.hurry(
        application.groups[ask.band].pending_class, ask.rests_until_ns - delay_ns
    )


def _waits(application: Application, ask: Ask) -> bool:
    group = application.groups.get(ask.band)
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
    node = partition.nodes.get(ask.request_class.required_node)
    if node is None or node in ask.reservations or not node.ready or not node.can_ever_fit(ask.request_class.items):
        return None
    if ask.predicate_history is not None and ask.predicate_history.bars(node):
        return None
    return node if partition.objection(ask.request_class, node) is None else None


def _best_node(context: StepContext, partition: Partition, application: Application, ask: Ask) -> Node | None:
    """The node that lacks least; None if there is none, or if a quota has no room for what is kept already and it.

    If the application itself is what is in the way, that is noted.
    """
    if not _is_within_quotas(partition, application, ask):
        return None
    is_own_fault = not gang_fits(application)

    def may(node: Node) -> bool:
        nonlocal is_own_fault
        if not _may_keep(context, partition, ask, node):
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
        unhelped[application.groups[ask.band].pending_class] = None
    return found


def _may_keep(context: StepContext, partition: Partition, ask: Ask, node: Node) -> bool:
    if node.reservations or node.rests_until_ns > context.now_ns or not node.can_ever_fit(ask.request_class.items):
        return False
    if partition.callbacks.predicates and not _may_ask_to_keep(ask, node):
        return False
    return partition.objection(ask.request_class, node) is None


def _may_ask_to_keep(ask: Ask, node: Node) -> bool:
    """Where there is room it is asked for a placement, and on one node for one ask at a time."""
    if node.free.lacks(ask.request_class.items) is None or (
        ask.predicate_history is not None and ask.predicate_history.bars(node)
    ):
        return False
    return not any(one.purpose is Purpose.KEEP for one in node.predicate_checks)


def _is_within_quotas(partition: Partition, application: Application, ask: Ask) -> bool:
    for queue in application.queue.path_to_root:
        if queue.max:
            used = queue.allocated.plus(queue.quota_reserved)
            for one in partition.reservations:
                if not one.is_entitled and queue in one.application.queue.path_to_root:
                    used.add(one.items)
            if queue.max.exceeded_by(used, ask.request_class.items) is not None:
                return False
    return True
