"""Others end for those who have a right to their room (two-phase, like every release the core starts).

What is decided is a value; carrying it out means: the room is kept for the ask, and the RM is asked to end the victims.
When these are gone the ask is placed like any other with a reservation, whatever else became of them meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from itertools import islice

from schedulerd.core import commit_room
from schedulerd.core.decide.own_room import gang_fits
from schedulerd.core.decide.preemption import Decision, Search, further_for_required_node, victims_for_required_node
from schedulerd.core.decide.preemption_context import in_use
from schedulerd.core.facts import ReleaseCause
from schedulerd.core.handlers import predicate_checks, releases, reservations
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import Agreement, PredicateCheck
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.model.retry_timers import Refused
from schedulerd.core.preemption_facts import Preempted, PreemptionRefusal, PreemptionRefused, ReservationEnd
from schedulerd.core.resources import Resources
from schedulerd.core.specs import PreemptionPolicy
from schedulerd.core.step_context import StepContext

VISITS_PER_SLICE = 500
"""How many nodes and allocations are looked at before the loop gets a turn."""
ASKS_MAX = 1_000
"""How many asks of one application and request class are looked at for one that may claim room."""
BARRED_MAX = 16
"""On how many nodes the resource manager may refuse one ask until it is not looked for another one."""
BARRED_SAID_MAX = 3
"""For how many of these the reason is said."""
SEARCHES_MAX = 3
"""How often the same is searched for, if what was found does not hold any longer when the search is done."""

_REASONS = {
    PreemptionRefusal.NOT_ENTITLED: "none of its queues, up to a fence or a max that is reached, is guaranteed what "
    "it asks for",
    PreemptionRefusal.NO_VICTIMS: "no queue that it may take from uses more than it is guaranteed",
}


class Progress(Enum):
    """What became of looking whether others end for somebody."""

    NOTHING = auto()
    """There is nobody for whom that is to be looked at now."""
    DECIDED = auto()
    UNFINISHED = auto()
    """The search goes on in the next cycle."""


def enqueue_due(context: StepContext, partition: Partition) -> None:
    """Enqueues the applications that may preempt now, those first that would be placed first."""
    timers = partition.retry_timers
    due = []
    while (application := timers.attempts_due.pop(context.now_ns)) is not None:
        if application.groups and application not in timers.preemptors:
            due.append(application)
    timers.preemptors.extend(sorted(due, key=Application.sort_position))
    for key, refused in list(timers.refused.items()):
        if not key[1].is_known or (refused.moves != partition.moves and refused.until_ns <= context.now_ns):
            del timers.refused[key]


def advance(context: StepContext, partition: Partition, visits_end: int) -> Progress:
    """Goes on with the applications that are lined up, until somebody is asked to end, or as far as `visits_end`."""
    timers = partition.retry_timers
    budget = timers.budget
    while timers.preemptors:
        if budget.visits >= visits_end:
            return Progress.UNFINISHED
        application = timers.preemptors[0]
        search = timers.search
        if search is None or search.application is not application or not _is_wanted(context, search):
            if search is not None and search.predicate_check is not None:
                predicate_checks.void(context, search.predicate_check)
            search = _next_search(context, application)
            timers.set_search(search)
        if search is None:
            timers.preemptors.popleft()
            continue
        if search.predicate_check is not None:
            return Progress.NOTHING
        if not search.run(visits_end - budget.visits):
            return Progress.UNFINISHED
        timers.set_search(None)
        decision = search.decision()
        if decision is not None:
            _decide(context, search, decision)
            return Progress.DECIDED
        if search.refusal is None and search.attempt < SEARCHES_MAX:
            timers.set_search(_again(search, search.attempt + 1))
        else:
            _refuse(context, search)
    return Progress.NOTHING


def _again(search: Search, attempt: int) -> Search:
    budget, barred = search.budget, search.barred
    return Search(search.application, search.group, search.ask, budget, attempt=attempt, barred=barred)


def _decide(context: StepContext, search: Search, decision: Decision) -> None:
    """Carries it out, or asks the resource manager first where it has a say, and this is not what it agreed to."""
    timers = search.partition.retry_timers
    if not decision.victims or not search.partition.callbacks.preemption_predicates:
        _carry_out(context, decision)
        return
    agreed = search.agreed
    victims = _agreed_victims(search, decision)
    if victims:
        _carry_out(context, replace(decision, victims=victims))
        return
    search.attempt += agreed is not None
    if len(search.barred) >= BARRED_MAX or search.attempt > SEARCHES_MAX:
        search.refusal = PreemptionRefusal.NO_NODE
        _refuse(context, search)
        return
    timers.set_search(search)
    application, ask, node = decision.application, decision.ask, decision.node
    predicate_checks.preempt(context, application, ask, node, decision.victims, decision.further, search=search)


def _agreed_victims(search: Search, decision: Decision) -> tuple[Allocation, ...]:
    """Who ends by what the resource manager said of this decision; nobody if it has not, or if it wants somebody to end
    beside the victims who may not now."""
    if search.agreed is None:
        return ()
    node, agreement = search.agreed
    if (node, agreement.victims) != (decision.node, decision.victims):
        return ()
    beyond = agreement.beyond()
    if not beyond:
        return decision.up_to(agreement.last)
    return (*decision.victims, *beyond) if search.may_end_too(decision, beyond) else ()


def agreed(predicate_check: PredicateCheck, index: int) -> None:
    """The ask can run there when the victims up to this index have ended; what was decided is judged again now."""
    partition = predicate_check.application.partition
    if predicate_check.search is not None:
        predicate_check.search.agreed = predicate_check.node, predicate_check.answered(index)
    elif predicate_check.reservation is not None:
        predicate_check.reservation.answer = predicate_check.answered(index)
        partition.ready[predicate_check.node] = None


def refused(predicate_check: PredicateCheck, reason: str) -> None:
    """The ask could not run there even then: it is looked for another node, if it has not been refused too often."""
    partition, search = predicate_check.application.partition, predicate_check.search
    if predicate_check.reservation is not None:
        predicate_check.reservation.answer = predicate_check.answered(-1)
    elif search is not None and partition.retry_timers.search is search:
        search.barred[predicate_check.node] = reason
        partition.retry_timers.set_search(_again(search, search.attempt))


def _next_search(context: StepContext, application: Application) -> Search | None:
    """For the first ask of the application that may claim room now. If none may, when one will is noted."""
    partition, queue = application.partition, application.queue
    timers = partition.retry_timers
    if not gang_fits(application):
        timers.waiting_for_change[application] = context.now_ns + context.cluster.timeouts.preemption_attempt_ns
        return None
    closed = [group for group in application.groups.values() if _is_closed(application, group)]
    for group in sorted(closed, key=AskGroup.key):
        of_kind = timers.refused.get((queue, group.pending_class, None))
        for ask in islice(group.in_order(), ASKS_MAX):
            timers.budget.visits += 1
            if not ask.spec.allow_preempt_other or ask.request_class.required_node:
                continue
            if _holds(context, application, of_kind, ask):
                break
            if _holds(context, application, timers.refused.get((queue, group.pending_class, ask)), ask):
                continue
            due_ns = application.preemption_from_ns(ask)
            if due_ns > context.now_ns:
                timers.attempts_due.hurry(application, due_ns)
            elif _may_claim(context, group, ask):
                return Search(application, group, ask, timers.budget)
    return None


def _holds(context: StepContext, application: Application, refused: Refused | None, ask: Ask) -> bool:
    """Whether it need not be looked at again for this ask; when it is to be is noted."""
    timers = application.partition.retry_timers
    if refused is None or ask.spec.priority > refused.priority:
        return False
    if refused.moves == application.partition.moves:
        until_ns = timers.waiting_for_change.get(application, refused.until_ns)
        timers.waiting_for_change[application] = min(until_ns, refused.until_ns)
        return True
    if refused.until_ns > context.now_ns:
        timers.attempts_due.hurry(application, refused.until_ns)
        return True
    return False


def _is_closed(application: Application, group: AskGroup) -> bool:
    """Whether it was found out that none of the group can be placed now."""
    ancestors = (application, *application.queue.path_to_root)
    return (
        bool(group.needs)
        and application.propagates_demand
        and any(group.pending_class in ancestor.pending_index.blocked_by for ancestor in ancestors)
    )


def _may_claim(context: StepContext, group: AskGroup, ask: Ask) -> bool:
    """Whether one of the ask is pending for which nobody was asked to end yet."""
    return ask in group and ask.untried > sum(one.is_entitled for one in ask.reservations.values())


def _is_wanted(context: StepContext, search: Search) -> bool:
    """Whether the ask it is for is still as it was, and waits."""
    is_same = search.ask.spec is search.spec and gang_fits(search.application)
    return is_same and _is_closed(search.application, search.group) and _may_claim(context, search.group, search.ask)


def _carry_out(context: StepContext, decision: Decision) -> None:
    application, ask, node = decision.application, decision.ask, decision.node
    weaker = [one for one in ask.reservations.values() if not one.is_entitled]
    if weaker and (ask.unreserved <= 0 or node in ask.reservations):
        reservations.end(context, ask.reservations.get(node, weaker[-1]), ReservationEnd.NOT_NEEDED)
    reservation = reservations.keep(context, application, ask, node, is_entitled=True)
    _end(context, reservation, decision.victims, decision.why)


def for_required_node(context: StepContext, reservation: Reservation, kept: Resources) -> bool:
    """Others end for an ask that may run nowhere else; False if nobody has to, or that would not help.

    `kept` is what others on the node have a right to before it.
    """
    application, ask, node = reservation.application, reservation.ask, reservation.node
    found = victims_for_required_node(application, ask, node, kept, application.partition.retry_timers.budget)
    if found is None:
        reason = f"those that may be ended on node {node.node_id} would not make enough room"
        refuse_required_node(context, reservation, PreemptionRefusal.NO_NODE, reason)
        return False
    reservation.refused = ""
    if not found.victims:
        return False
    victims = found.victims
    if application.partition.callbacks.preemption_predicates:
        answer = reservation.answer
        further = further_for_required_node(application, ask, node, victims)
        if not _still_holds(answer, node, victims, further):
            predicate_checks.preempt(context, application, ask, node, victims, further, reservation=reservation)
            return True
        assert answer is not None
        if answer.last < 0:
            reason = f"the resource manager would not have it on node {node.node_id} even then"
            refuse_required_node(context, reservation, PreemptionRefusal.NO_NODE, reason)
            return False
        beyond = answer.beyond()
        victims = (*victims, *beyond) if beyond else Decision(application, ask, node, victims, "").up_to(answer.last)
    _end(context, reservation, victims, f"it may run on node {node.node_id} only")
    return True


def _still_holds(
    answer: Agreement | None, node: Node, victims: tuple[Allocation, ...], further: tuple[Allocation, ...]
) -> bool:
    """Whether what the resource manager said is about these victims, and nobody it wants to end may not now."""
    if answer is None or answer.victims != victims:
        return False
    is_as_it_was = answer.last >= 0 or answer.changes >= node.changed
    return is_as_it_was and all(one in further for one in answer.beyond())


def refuse_required_node(
    context: StepContext, reservation: Reservation, refusal: PreemptionRefusal, reason: str
) -> None:
    """Nobody ends for an ask that may run nowhere else; said again only when the reason is another one."""
    if reason != reservation.refused:
        reservation.refused = reason
        _say_refused(context, reservation.application, reservation.ask, refusal, reason)


def _end(context: StepContext, reservation: Reservation, victims: Sequence[Allocation], why: str) -> None:
    application, ask = reservation.application, reservation.ask
    partition, queue = application.partition, application.queue
    context.say(
        Preempted(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            node_id=reservation.node.node_id,
            victims=tuple((_queue_of(one).path, one.uuid) for one in victims),
            why=why,
        )
    )
    message = f"makes room on {reservation.node.node_id} for ask {ask.key} of application {application.application_id}"
    for victim in victims:
        commit_room.make_room(reservation, victim, context.now_ns)
        releases.request_release(context, victim, ReleaseCause.PREEMPTED, message)


def _queue_of(allocation: Allocation) -> Queue:
    return allocation.application.queue


def _refuse(context: StepContext, search: Search) -> None:
    """Nobody ends for the ask, nor for others of its kind in the leaf that do not rank above it, for a while."""
    partition, ask = search.partition, search.ask
    until_ns = context.now_ns + context.cluster.timeouts.preemption_attempt_ns
    refusal = search.refusal or PreemptionRefusal.NO_NODE
    reason = _reason(search, refusal)
    if search.barred:
        _let_rest(search, until_ns, reason)
    else:
        has_claim = any(one.is_entitled for one in ask.reservations.values())
        key = search.queue, search.group.pending_class, ask if has_claim else None
        partition.retry_timers.refused[key] = Refused(ask.spec.priority, search.moves, until_ns, reason)
    _say_refused(context, search.application, ask, refusal, reason)


def _let_rest(search: Search, until_ns: int, reason: str) -> None:
    """What the resource manager refused was this ask: others of its kind may have more luck."""
    ask = search.ask
    if ask.predicate_history is not None:
        ask.predicate_history.no_preemption = reason
    ask.preemption_retry_ns = max(ask.preemption_retry_ns, until_ns)
    search.application.schedule_preemption(ask)


def _say_refused(
    context: StepContext, application: Application, ask: Ask, refusal: PreemptionRefusal, reason: str
) -> None:
    partition, queue = application.partition, application.queue
    context.say(
        PreemptionRefused(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            refusal=refusal,
            reason=f"nobody ends for ask {ask.key}: {reason}",
        )
    )


def _reason(search: Search, refusal: PreemptionRefusal) -> str:
    """As a sentence, with the numbers if it is a matter of guarantees or quotas."""
    if refusal is PreemptionRefusal.QUOTA:
        return f"{search.limit}, whoever ends"
    if refusal is PreemptionRefusal.NO_NODE:
        considered = len(search.partition.node_order)
        said = islice(search.barred.items(), BARRED_SAID_MAX)
        barred = "".join(f"; node {node.node_id}: {why}" for node, why in said)
        return f"on no node would those that may be ended make enough room ({considered} considered){barred}"
    if refusal is not PreemptionRefusal.NOT_ENTITLED:
        return _REASONS[refusal]
    for queue in search.queue.path_to_root:
        used = in_use(queue)
        for name, amount in search.ask.request_class.items:
            if queue.guaranteed[name] and used[name] + amount > queue.guaranteed[name]:
                return f"{queue.written} would use {name} {used[name] + amount} of {queue.guaranteed[name]} guaranteed"
        if queue.properties.preemption_policy is PreemptionPolicy.FENCE:
            break
    return _REASONS[refusal]
