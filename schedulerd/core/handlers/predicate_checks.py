"""Asking the resource manager for its say on an ask and a node, and what becomes of the ask meanwhile (SEMANTICS B4).

No cycle waits for an answer. The ask holds the room it would get, leaves its line, and everybody else goes on. A
refusal is of one ask on one node and says nothing about others; it holds until the node changes. An ask that was
refused on every node with room is set aside, and tried again on nodes that change, and on all of them after a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from schedulerd.core import commit_room
from schedulerd.core.alarm_events import PredicateTimeout, RefusedAsksDue
from schedulerd.core.callback_facts import (
    PredicateAnswered,
    PredicateNotWanted,
    PredicateOutcome,
    PredicateWanted,
    PreemptionPredicateWanted,
)
from schedulerd.core.model import requeue
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import NEVER, PredicateCheck, PredicateHistory, Purpose
from schedulerd.core.model.refused_asks import REMEMBERED_MAX
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.resources import Resources
from schedulerd.core.specs import SECOND_NS
from schedulerd.core.step_context import StepContext

if TYPE_CHECKING:
    from schedulerd.core.decide.preemption import Search

AWAITED_MAX = 64
"""At how many open predicate checks it is looked whether an ask may wait for their room."""
CALLED_BACK_MAX = 64
"""How many asks that have rested for long enough are called back at a time."""
CALL_BACK_EACH_NS = SECOND_NS
"""Between two such times."""


def attempt(context: StepContext, application: Application, ask: Ask, node: Node) -> None:
    """Lets the ask be tried on the node, which is the first with room for its request class, or on the first after it
    that did not refuse this ask; if there is none, it is set aside."""
    found = free_node(application.partition, ask, node)
    if found is not None:
        begin(context, PredicateCheck(context.now_ns, application, ask, found, Purpose.PLACE))
    else:
        set_aside(context, application, ask)


def free_node(partition: Partition, ask: Ask, first: Node | None) -> Node | None:
    """The first node with room where the ask was not refused. `first` is the first of those with room."""
    predicate_history = ask.predicate_history
    if first is None or predicate_history is None or not predicate_history.bars_with_room(first):
        return first
    return partition.first_fit_where(ask.request_class, lambda node: not predicate_history.bars_with_room(node))


def set_aside(context: StepContext, application: Application, ask: Ask) -> None:
    """No node with room takes the ask: it waits for the end of a predicate check on another one, if there is one, else
    rests."""
    assert ask.predicate_history is not None
    awaited = _awaited(application.partition, ask)
    if awaited is None:
        _rest(context, application, ask)
    else:
        ask.predicate_history.awaits = awaited
        awaited.awaited_by[ask] = application
    application.reclassify(ask, down=True)


def place_in(context: StepContext, reservation: Reservation) -> None:
    """Asks whether the ask may be placed in the room that is kept for it."""
    predicate_check = PredicateCheck(
        context.now_ns, reservation.application, reservation.ask, reservation.node, Purpose.PLACE
    )
    predicate_check.reservation = reservation
    begin(context, predicate_check)


def swap(context: StepContext, application: Application, ask: Ask, placeholder: Allocation, node: Node) -> None:
    """Asks whether the ask may run on the node if the placeholder, there or elsewhere, is given up for it."""
    predicate_check = PredicateCheck(context.now_ns, application, ask, node, Purpose.SWAP)
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
    search: Search | None = None,
    reservation: Reservation | None = None,
) -> None:
    """Asks whether the ask may run on the node once the victims have ended, or how many of the further ones have to as
    well; for a search, or for a reservation."""
    predicate_check = PredicateCheck(context.now_ns, application, ask, node, Purpose.PREEMPT)
    predicate_check.victims, predicate_check.further = victims, further
    predicate_check.search, predicate_check.reservation = search, reservation
    begin(context, predicate_check)


def begin(context: StepContext, predicate_check: PredicateCheck) -> None:
    """Asks; there is an answer, or the time for it is over."""
    deadline_ns = context.now_ns + context.cluster.timeouts.predicates_ns
    predicate_check.alarm = context.cluster.alarms.set(deadline_ns, PredicateTimeout(predicate_check))
    commit_room.put_on_trial(predicate_check)
    partition = predicate_check.application.partition
    place = (
        partition.rm_id,
        partition.name,
        predicate_check.application.application_id,
        predicate_check.ask.key,
        predicate_check.node.node_id,
        predicate_check.call_id,
    )
    if predicate_check.purpose is Purpose.PREEMPT:
        keys = tuple(one.key for one in (*predicate_check.victims, *predicate_check.further))
        context.say(PreemptionPredicateWanted(*place, victim_keys=keys, start_index=len(predicate_check.victims) - 1))
    else:
        context.say(PredicateWanted(*place, allocate=predicate_check.purpose is not Purpose.KEEP))


def finish(context: StepContext, predicate_check: PredicateCheck, outcome: PredicateOutcome, reason: str) -> None:
    """The call is over, and nothing is held for it any longer. What comes of that is for the caller."""
    context.cluster.alarms.cancel(predicate_check.alarm)
    commit_room.end_trial(predicate_check)
    for ask, application in list(predicate_check.awaited_by.items()):
        application.reclassify(ask, down=False)
    partition = predicate_check.application.partition
    if predicate_check.purpose is Purpose.SWAP and partition.denied:
        requeue.try_denied_again(partition)
    if predicate_check.purpose is Purpose.KEEP:
        partition.retry_timers.look_again(
            predicate_check.node, context.now_ns - context.cluster.timeouts.reservation_delay_ns
        )
    context.say(
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


def give_back(predicate_check: PredicateCheck) -> None:
    """After `finish`, if nothing came of it: the room is for everybody again, and the ask stands in its line."""
    commit_room.note_less_held(predicate_check)
    predicate_check.application.review_predicate_wait(predicate_check.ask)
    for reservation in predicate_check.ask.reservations.values():
        predicate_check.application.partition.ready[reservation.node] = None
    if predicate_check.placeholder is not None:
        predicate_check.application.note_possible_swap()


def remember(context: StepContext, predicate_check: PredicateCheck, reason: str) -> None:
    """The ask was refused on the node. Where too much is remembered already, it rests instead."""
    application, ask = predicate_check.application, predicate_check.ask
    assert ask.predicate_history is not None
    refused_asks = application.partition.refused_asks
    refused_asks.remembered += predicate_check.node not in ask.predicate_history.refused
    ask.predicate_history.remember(predicate_check, reason)
    if refused_asks.remembered <= REMEMBERED_MAX:
        return
    if ask.untried > 0 and not ask.request_class.refused:
        _rest(context, application, ask)
        application.reclassify(ask, down=True)
    else:
        forgive(application.partition, ask.predicate_history)


def void(context: StepContext, predicate_check: PredicateCheck) -> None:
    """The result does not matter any longer: the ask, if it is still wanted, is where it was before."""
    finish(context, predicate_check, PredicateOutcome.VOID, "")
    context.say(PredicateNotWanted(predicate_check.application.partition.rm_id, predicate_check.call_id))
    give_back(predicate_check)
    partition, ask = predicate_check.application.partition, predicate_check.ask
    if predicate_check.reservation is not None and predicate_check.reservation in partition.reservations:
        partition.ready[predicate_check.node] = None
    elif predicate_check.purpose is Purpose.KEEP and ask.group is not None:
        partition.retry_timers.expect_reservation(ask.group.pending_class, ask.asked_at_ns)


def void_all(context: StepContext, open_predicate_checks: Iterable[PredicateCheck]) -> None:
    for predicate_check in list(open_predicate_checks):
        void(context, predicate_check)


def review(context: StepContext, application: Application, ask: Ask) -> None:
    """Less of the ask is pending: no more results are waited for than it needs, the last ones asked for go first, and
    none if it needs nothing; then nothing is remembered of it either."""
    predicate_history = ask.predicate_history
    assert predicate_history is not None
    for predicate_check in reversed(list(predicate_history.predicate_checks)):
        if not ask.pending or (predicate_check.takes_one and ask.untried < 0):
            void(context, predicate_check)
    if ask.pending:
        application.review_predicate_wait(ask)
    else:
        forget(application.partition, ask)


def forget(partition: Partition, ask: Ask) -> None:
    """What it was refused for is not remembered any longer."""
    if ask.predicate_history is not None and not ask.predicate_history.predicate_checks:
        forgive(partition, ask.predicate_history)
        ask.predicate_history = None
        if ask.request_class.refused:
            ask.request_class = partition.request_classes.refused_variant(ask.request_class, down=False)


def forgive(partition: Partition, predicate_history: PredicateHistory) -> None:
    """It may be asked again about every node that was refused."""
    partition.refused_asks.remembered -= len(predicate_history.refused)
    predicate_history.refused.clear()


def forget_all(context: StepContext, rm: ResourceManager) -> None:
    """Whoever gave the results is gone: nothing is waited for, and nobody was refused anything."""
    void_all(context, rm.callbacks.open_predicate_checks.values())
    for partition in rm.partitions.values():
        partition.retry_timers.set_search(None)
        for reservation in partition.reservations:
            reservation.agreed_at, reservation.answer = NEVER, None
            partition.ready[reservation.node] = None
        for application, ask in list(partition.refused_asks):
            application.reclassify(ask, down=False)
        for application in partition.applications.values():
            for ask in application.asks.values():
                forget(partition, ask)


def on_rested(context: StepContext, partition: Partition) -> None:
    """Some that were turned down have rested for long enough: they are tried everywhere anew, a few at a time."""
    refused_asks = partition.refused_asks
    for _ in range(CALLED_BACK_MAX):
        ask = refused_asks.due.pop(context.now_ns)
        if ask is None:
            break
        assert ask.predicate_history is not None
        ask.predicate_history.since = NEVER
        refused_asks.application_of(ask).reclassify(ask, down=False)
    next_ns = refused_asks.due.next_ns()
    if next_ns is not None:
        deadline_ns = max(next_ns, context.now_ns + CALL_BACK_EACH_NS)
        refused_asks.alarm = context.cluster.alarms.set(deadline_ns, RefusedAsksDue(partition))


def _awaited(partition: Partition, ask: Ask) -> PredicateCheck | None:
    """A predicate check on a node that did not refuse the ask and would have room for it without this one and those
    before it."""
    predicate_history = ask.predicate_history
    assert predicate_history is not None
    without: dict[Node, Resources] = {}
    for predicate_check in islice(partition.callbacks.open_predicate_checks.values(), AWAITED_MAX):
        node = predicate_check.node
        if (
            not predicate_check.items
            or predicate_check.application.partition is not partition
            or predicate_history.bars_with_room(node)
        ):
            continue
        if partition.objection(ask.request_class, node) is not None:
            continue
        free = without[node] = without.get(node, node.free).plus(dict(predicate_check.items))
        if node.free.lacks(ask.request_class.items) is not None and free.lacks(ask.request_class.items) is None:
            return predicate_check
    return None


def _rest(context: StepContext, application: Application, ask: Ask) -> None:
    """Which nodes refused it needs not be remembered one by one: all that had room did, as they are now."""
    predicate_history, partition = ask.predicate_history, application.partition
    assert predicate_history is not None
    refused_asks = partition.refused_asks
    forgive(partition, predicate_history)
    predicate_history.since = partition.changes
    deadline_ns = context.now_ns + context.cluster.timeouts.refusal_ns
    refused_asks.due.set(ask, deadline_ns)
    if refused_asks.alarm is None or not refused_asks.alarm.live:
        refused_asks.alarm = context.cluster.alarms.set(deadline_ns, RefusedAsksDue(partition))
