"""How predicate checks begin and end, and what happens to the ask meanwhile (SEMANTICS B4).

No cycle waits for an answer: the check holds the room that the ask would get, and other asks go on. A refusal is about
one ask on one node and holds until the node changes. An ask that is refused on every node with room is set aside. It is
tried again on nodes that change, and on all nodes after the retry time.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from schedulerd.core.language.facts.predicates import (
    PredicateAnswered,
    PredicateNotWanted,
    PredicateOutcome,
    PredicateWanted,
    PreemptionPredicateWanted,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.alarm_events import PredicateTimeout, RefusedAsksDue
from schedulerd.core.state.ledger import commit_room
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import NEVER, PredicateCheck, PredicateHistory, Purpose, VictimSearch
from schedulerd.core.state.model.refused_asks import REMEMBERED_MAX
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import note_possible_swap, reclassify, update_predicate_wait
from schedulerd.core.state.pending.end_of_step import try_denied_again
from schedulerd.core.state.step_context import ResourceManager, StepContext

AWAITED_MAX = 64
"""Maximum number of open checks visited to find one whose room an ask may wait for."""
CALLED_BACK_MAX = 64
"""Maximum number of asks called back at a time after their retry time."""
CALL_BACK_EACH_NS = SECOND_NS
"""Time between two such batches."""


def attempt(context: StepContext, application: Application, ask: Ask, node: Node) -> None:
    """Starts a check of the ask on the first node with room that did not refuse it; sets the ask aside if there is
    none. `node` is the first node with room for its request class."""
    found = free_node(context.partition_of(application), ask, node)
    if found is not None:
        begin(context, new_check(context, application, ask, found, Purpose.ALLOCATE))
    else:
        set_aside(context, application, ask)


def free_node(partition: Partition, ask: Ask, first: Node | None) -> Node | None:
    """The first node with room where the RM has not refused the ask. `first` is the first node with room."""
    predicate_history = ask.predicate_history
    if first is None or predicate_history is None or not predicate_history.is_refused_with_room(first):
        return first
    return partition.first_fit_where(ask.request_class, lambda node: not predicate_history.is_refused_with_room(node))


def set_aside(context: StepContext, application: Application, ask: Ask) -> None:
    """Sets aside an ask that the RM refused on all nodes with room. It awaits the end of an open check on another
    node if that would give it room; else it rests."""
    partition = context.partition_of(application)
    assert ask.predicate_history is not None
    awaited = _awaited(partition, ask)
    if awaited is None:
        _set_aside_resting(context, application, ask)
    else:
        ask.predicate_history.awaits = awaited
        awaited.awaited_by[ask] = application
    reclassify(partition, application, ask, refused=True)


def place_in(context: StepContext, reservation: Reservation) -> None:
    """Starts a check whether the ask may be allocated in its reserved room."""
    predicate_check = new_check(context, reservation.application, reservation.ask, reservation.node, Purpose.ALLOCATE)
    predicate_check.reservation = reservation
    begin(context, predicate_check)


def swap(context: StepContext, application: Application, ask: Ask, placeholder: Allocation, node: Node) -> None:
    """Starts a check whether the ask may run on the node if the placeholder, there or elsewhere, is released for it."""
    predicate_check = new_check(context, application, ask, node, Purpose.SWAP)
    predicate_check.placeholder = placeholder
    begin(context, predicate_check)


def preempt(
    context: StepContext,
    application: Application,
    ask: Ask,
    node: Node,
    victims: tuple[Allocation, ...],
    further: tuple[Allocation, ...],
    *,
    search: VictimSearch | None = None,
    reservation: Reservation | None = None,
) -> None:
    """Starts a check whether the ask can run on the node without the victims, and if needed without some of the further
    candidates. It is for a search or for a reservation."""
    predicate_check = new_check(context, application, ask, node, Purpose.PREEMPT)
    predicate_check.victims, predicate_check.further = victims, further
    predicate_check.search, predicate_check.reservation = search, reservation
    begin(context, predicate_check)


def new_check(context: StepContext, application: Application, ask: Ask, node: Node, purpose: Purpose) -> PredicateCheck:
    """A new check; `begin` sends it."""
    partition = context.partition_of(application)
    call_id = partition.callbacks.next_call_id()
    return PredicateCheck(call_id, partition.changes, context.now_ns, application, ask, node, purpose)


def begin(context: StepContext, predicate_check: PredicateCheck) -> None:
    """Sends the question to the RM and sets its timeout. If the check holds room, the room is booked."""
    deadline_ns = context.now_ns + context.cluster.timeouts.predicates_ns
    predicate_check.alarm = context.cluster.alarms.set(deadline_ns, PredicateTimeout(predicate_check))
    partition = context.partition_of(predicate_check.application)
    commit_room.begin_predicate_check(partition, predicate_check)
    place = (
        partition.rm_id,
        partition.name,
        predicate_check.application.application_id,
        predicate_check.ask.key,
        predicate_check.node.node_id,
        predicate_check.call_id,
    )
    spec = predicate_check.ask.spec
    slot_of = spec.task_group if spec.slot else ""
    if predicate_check.purpose is Purpose.PREEMPT:
        victims = (*predicate_check.victims, *predicate_check.further)
        keys = tuple(one.uuid if one.spec.slot else one.key for one in victims)
        first = len(predicate_check.victims) - 1
        context.emit(PreemptionPredicateWanted(*place, victim_keys=keys, start_index=first, slot_of=slot_of))
    else:
        is_to_allocate = predicate_check.purpose is not Purpose.RESERVE
        context.emit(PredicateWanted(*place, allocate=is_to_allocate, slot_of=slot_of))


def finish(context: StepContext, predicate_check: PredicateCheck, outcome: PredicateOutcome, reason: str) -> None:
    """Ends the check and frees what it held. The caller handles the consequences."""
    partition = context.partition_of(predicate_check.application)
    context.cluster.alarms.cancel(predicate_check.alarm)
    commit_room.end_predicate_check(partition, predicate_check)
    for ask, application in list(predicate_check.awaited_by.items()):
        reclassify(partition, application, ask, refused=False)
    if predicate_check.purpose is Purpose.SWAP and partition.denied:
        try_denied_again(partition)
    if predicate_check.purpose is Purpose.RESERVE:
        partition.retry_timers.retry_on_node(predicate_check.node, context.now_ns)
    context.emit(
        PredicateAnswered(
            rm_id=partition.rm_id,
            partition=partition.name,
            application_id=predicate_check.application.application_id,
            allocation_key=predicate_check.ask.key,
            node_id=predicate_check.node.node_id,
            call_id=predicate_check.call_id,
            outcome=outcome,
            reason=reason,
            waited_ns=context.now_ns - predicate_check.asked_at_ns,
        )
    )


def return_ask(partition: Partition, predicate_check: PredicateCheck) -> None:
    """After `finish`, if the ask was not allocated: the room is free for all asks, and the ask is pending again."""
    commit_room.note_check_room_free(partition, predicate_check)
    update_predicate_wait(partition, predicate_check.application, predicate_check.ask)
    for reservation in predicate_check.ask.reservations:
        partition.reservations_to_check[reservation.node] = None
    if predicate_check.placeholder is not None:
        note_possible_swap(partition, predicate_check.application)


def remember(context: StepContext, predicate_check: PredicateCheck, reason: str) -> None:
    """Records that the RM refused the ask on the node. If too many refusals are remembered already, the ask rests
    instead."""
    partition = context.partition_of(predicate_check.application)
    application, ask = predicate_check.application, predicate_check.ask
    assert ask.predicate_history is not None
    refused_asks = partition.refused_asks
    refused_asks.remembered += predicate_check.node not in ask.predicate_history.refused
    ask.predicate_history.remember(predicate_check, reason)
    if refused_asks.remembered <= REMEMBERED_MAX:
        return
    if ask.unchecked > 0 and not ask.request_class.refused:
        _set_aside_resting(context, application, ask)
        reclassify(partition, application, ask, refused=True)
    else:
        clear_refusals(partition, ask.predicate_history)


def void(context: StepContext, predicate_check: PredicateCheck) -> None:
    """Ends a check whose result is no longer needed. The ask, if it is still pending, is where it was before."""
    partition, ask = context.partition_of(predicate_check.application), predicate_check.ask
    finish(context, predicate_check, PredicateOutcome.VOID, "")
    context.emit(PredicateNotWanted(partition.rm_id, predicate_check.call_id))
    return_ask(partition, predicate_check)
    if predicate_check.reservation is not None and predicate_check.reservation in partition.reservations:
        partition.reservations_to_check[predicate_check.node] = None
    elif predicate_check.purpose is Purpose.RESERVE and ask.group is not None:
        partition.retry_timers.schedule_reservation(ask.group.pending_class, ask.asked_at_ns)


def void_all(context: StepContext, open_predicate_checks: Iterable[PredicateCheck]) -> None:
    for predicate_check in list(open_predicate_checks):
        void(context, predicate_check)


def review(context: StepContext, application: Application, ask: Ask) -> None:
    """Less of the ask is pending: voids the checks that it no longer needs, the latest first. If nothing is pending,
    voids all of them and forgets its refusals."""
    partition = context.partition_of(application)
    predicate_history = ask.predicate_history
    assert predicate_history is not None
    for predicate_check in reversed(list(predicate_history.predicate_checks)):
        if not ask.pending or (predicate_check.uses_allocation and ask.unchecked < 0):
            void(context, predicate_check)
    if ask.pending:
        update_predicate_wait(partition, application, ask)
    else:
        forget(partition, ask)


def forget(partition: Partition, ask: Ask) -> None:
    """Forgets what the RM refused of the ask."""
    if ask.predicate_history is not None and not ask.predicate_history.predicate_checks:
        clear_refusals(partition, ask.predicate_history)
        ask.predicate_history = None
        if ask.request_class.refused:
            ask.request_class = partition.request_classes.refused_variant(ask.request_class, refused=False)


def clear_refusals(partition: Partition, predicate_history: PredicateHistory) -> None:
    """Forgets the refusals in the history, so that the RM may be asked about these nodes again."""
    partition.refused_asks.remembered -= len(predicate_history.refused)
    predicate_history.refused.clear()


def forget_all(context: StepContext, rm: ResourceManager) -> None:
    """The callback stream is gone or replaced: all checks are void, and all refusals and answers are forgotten."""
    void_all(context, rm.callbacks.open_predicate_checks.values())
    for partition in rm.partitions.values():
        partition.retry_timers.set_search(None)
        for reservation in partition.reservations:
            reservation.agreed_at, reservation.answer = NEVER, None
            partition.reservations_to_check[reservation.node] = None
        for application, ask in list(partition.refused_asks):
            reclassify(partition, application, ask, refused=False)
        for application in partition.applications.values():
            for ask in application.asks.values():
                forget(partition, ask)


def on_retry_due(context: StepContext, partition: Partition) -> None:
    """The retry time of some refused asks has come: they are tried on every node again, a few at a time."""
    refused_asks = partition.refused_asks
    for _ in range(CALLED_BACK_MAX):
        ask = refused_asks.due.pop(context.now_ns)
        if ask is None:
            break
        assert ask.predicate_history is not None
        ask.predicate_history.refused_everywhere_at_change = NEVER
        reclassify(partition, refused_asks.application_of(ask), ask, refused=False)
    next_ns = refused_asks.due.next_ns()
    if next_ns is not None:
        deadline_ns = max(next_ns, context.now_ns + CALL_BACK_EACH_NS)
        refused_asks.alarm = context.cluster.alarms.set(deadline_ns, RefusedAsksDue(partition))


def _awaited(partition: Partition, ask: Ask) -> PredicateCheck | None:
    """The first open check, on a node that did not refuse the ask, whose end would give the ask room together with the
    end of all earlier checks there."""
    predicate_history = ask.predicate_history
    assert predicate_history is not None
    without: dict[Node, Resources] = {}
    for predicate_check in islice(partition.callbacks.open_predicate_checks.values(), AWAITED_MAX):
        node = predicate_check.node
        if predicate_check.application.partition_name != partition.name or not predicate_check.items:
            continue
        if predicate_history.is_refused_with_room(node):
            continue
        if partition.objection(ask.request_class, node) is not None:
            continue
        free = without[node] = without.get(node, node.free).plus(dict(predicate_check.items))
        if node.free.lacks(ask.request_class.items) is not None and free.lacks(ask.request_class.items) is None:
            return predicate_check
    return None


def _set_aside_resting(context: StepContext, application: Application, ask: Ask) -> None:
    """The ask rests: one number, the change counter of the partition, replaces its single refusals, because it
    was refused on all nodes with room."""
    predicate_history, partition = ask.predicate_history, context.partition_of(application)
    assert predicate_history is not None
    refused_asks = partition.refused_asks
    clear_refusals(partition, predicate_history)
    predicate_history.refused_everywhere_at_change = partition.changes
    deadline_ns = context.now_ns + context.cluster.timeouts.predicate_retry_delay_ns
    refused_asks.due.set(ask, deadline_ns)
    if refused_asks.alarm is None or not refused_asks.alarm.live:
        refused_asks.alarm = context.cluster.alarms.set(deadline_ns, RefusedAsksDue(partition))
