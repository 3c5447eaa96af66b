"""Preemption: victims are released for asks that are entitled to their room (in two phases, like every release).

The decision is a value. To carry it out, room is reserved for the ask and the RM is asked to release the victims. When
they are gone, the ask is allocated like any other ask with a reservation.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from itertools import islice

from schedulerd.core.language.ask_tags import ask_name
from schedulerd.core.language.facts.preemption import PreemptionRefusal, PreemptionRefused
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PreemptionPolicy
from schedulerd.core.preemption.handlers import gang_preemption
from schedulerd.core.preemption.rules.preemption_context import in_use, is_closed, no_right
from schedulerd.core.preemption.rules.search import (
    Search,
    further_for_required_node,
    victims_for_required_node,
)
from schedulerd.core.state.actions import predicate_checks, single_slots
from schedulerd.core.state.actions.releases import release_victims
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck, VictimsAnswer, VictimSearch
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.nodes.own_room import gang_fits
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import preemption_from_ns, schedule_preemption
from schedulerd.core.state.pending.retry_timers import Refused, attempts_of
from schedulerd.core.state.plans.assuming import assumed
from schedulerd.core.state.plans.committing import commit_plan
from schedulerd.core.state.plans.plan import Plan, PlannedPreemption
from schedulerd.core.state.step_context import StepContext
from schedulerd.sentences import preemption

VISITS_PER_SLICE = 500
"""Visits of searches in one cycle, before other commands get a turn."""
ASKS_MAX = 1_000
"""Maximum number of asks of one ask group that are visited to find one that may preempt."""
BARRED_MAX = 16
"""After this many nodes that the RM refused for one ask, no further node is searched."""
BARRED_SAID_MAX = 3
"""Number of these nodes whose reason is in the message."""
SEARCHES_MAX = 3
"""Maximum number of searches if the result no longer holds at the end of a search."""


class Progress(Enum):
    """What a preemption attempt did."""

    NOTHING = auto()
    """No ask needs a search now."""
    DECIDED = auto()
    UNFINISHED = auto()
    """The search continues in the next cycle."""


def collect_due(context: StepContext, partition: Partition) -> None:
    """Enqueues the applications whose preemption attempt is due, in the order in which they would be allocated."""
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
    """Continues with the enqueued applications until one decision, or until the visits reach `visits_end`."""
    timers = partition.retry_timers
    budget = timers.budget
    while timers.preemptors:
        if budget.visits >= visits_end:
            return Progress.UNFINISHED
        application = timers.preemptors[0]
        search = _search(timers.search)
        if search is None or search.application is not application or not _is_wanted(context, search):
            if search is not None and search.predicate_check is not None:
                predicate_checks.void(context, search.predicate_check)
            search = _next_search(context, application, search)
            timers.set_search(search)
        if search is None:
            timers.preemptors.popleft()
            continue
        if search.predicate_check is not None:
            return Progress.NOTHING
        with assumed(partition, search.planned_before):
            if not search.run(visits_end - budget.visits):
                return Progress.UNFINISHED
            plan = search.plan()
        timers.set_search(None)
        if plan is not None and search.ask.spec.slot:
            found = gang_preemption.go_on(search, plan)
            if isinstance(found, Search):
                timers.set_search(found)
                continue
            plan = found
        if plan is not None:
            _decide(context, search, plan)
            return Progress.DECIDED
        if search.refusal is None and search.attempt < SEARCHES_MAX:
            timers.set_search(_again(search, search.attempt + 1))
        else:
            _refuse(context, search)
    return Progress.NOTHING


def _search(known: VictimSearch | None) -> Search | None:
    """A search that the state refers to. All of them are from here."""
    assert known is None or isinstance(known, Search)
    return known


def _again(search: Search, attempt: int) -> Search:
    if search.ask.spec.slot:
        return gang_preemption.first_search(search.partition, search.application, attempt)
    budget, barred = search.budget, search.barred
    return Search(
        search.partition, search.application, search.group, search.ask, budget, attempt=attempt, barred=barred
    )


def _decide(context: StepContext, search: Search, plan: Plan) -> None:
    """Commits the plan, or first asks the RM if it takes part and has not agreed to these victims; not about those of
    a gang."""
    timers = search.partition.retry_timers
    if search.ask.spec.slot:
        single_slots.gather_singly(search.partition, search.application)
        _commit(context, search, plan)
        return
    (planned,) = plan.preemptions
    if not planned.victims or not search.partition.wants_preemption_predicates(planned.ask.request_class):
        _commit(context, search, plan)
        return
    agreed = search.agreed
    victims = _agreed_victims(search, planned)
    if victims:
        _commit(context, search, Plan(preemptions=(replace(planned, victims=victims),)))
        return
    search.attempt += agreed is not None
    if len(search.barred) >= BARRED_MAX or search.attempt > SEARCHES_MAX:
        search.refusal = PreemptionRefusal.NO_NODE
        _refuse(context, search)
        return
    timers.set_search(search)
    application, ask, node = planned.application, planned.ask, planned.node
    predicate_checks.preempt(context, application, ask, node, planned.victims, planned.further, search=search)


def _commit(context: StepContext, search: Search, plan: Plan) -> None:
    """Nothing is preempted if the plan does not hold; the ask is retried as after any refusal."""
    if commit_plan(context, search.partition, plan) is not None:
        search.refusal = PreemptionRefusal.NO_NODE
        _refuse(context, search)


def _agreed_victims(search: Search, planned: PlannedPreemption) -> tuple[Allocation, ...]:
    """The victims that the RM agreed to for this plan; empty if it was not asked, or if it wants further victims that
    may not be preempted now."""
    if search.agreed is None:
        return ()
    node, answer = search.agreed
    if (node, answer.victims) != (planned.node, planned.victims):
        return ()
    beyond = answer.beyond()
    if not beyond:
        return planned.up_to(answer.last)
    return (*planned.victims, *beyond) if search.may_preempt_further(planned, beyond) else ()


def agreed(context: StepContext, predicate_check: PredicateCheck, index: int) -> None:
    """The RM answered that the ask can run on the node without the victims up to `index`. The plan is judged again
    later."""
    if predicate_check.search is not None:
        predicate_check.search.agreed = predicate_check.node, predicate_check.answered(index)
    elif predicate_check.reservation is not None:
        predicate_check.reservation.answer = predicate_check.answered(index)
        partition = context.partition_of(predicate_check.application)
        partition.reservations_to_check[predicate_check.node] = None


def refused(context: StepContext, predicate_check: PredicateCheck, reason: str) -> None:
    """The RM refused the node even without the victims: searches for another node."""
    search, partition = _search(predicate_check.search), context.partition_of(predicate_check.application)
    if predicate_check.reservation is not None:
        predicate_check.reservation.answer = predicate_check.answered(-1)
    elif search is not None and partition.retry_timers.search is search:
        search.barred[predicate_check.node] = reason
        partition.retry_timers.set_search(_again(search, search.attempt))


def _next_search(context: StepContext, application: Application, before: Search | None) -> Search | None:
    """A search for the first ask of the application that may preempt now. If there is none, notes when one may.

    `before` is the search until now, which is not wanted any longer.
    """
    partition = context.partition_of(application)
    timers = partition.retry_timers
    if not gang_fits(partition, application):
        timers.waiting_for_change[application] = context.now_ns + context.cluster.timeouts.preemption_attempt_ns
        return None
    if gang_preemption.gathers(application):
        return _next_gang_search(context, application, before)
    closed = [group for group in application.groups.values() if is_closed(application, group)]
    for group in sorted(closed, key=AskGroup.key):
        refused = timers.refused.get(attempts_of(application, group.pending_class))
        for ask in islice(group.in_order(), ASKS_MAX):
            timers.budget.visits += 1
            if not ask.spec.allow_preempt_other or ask.request_class.required_node:
                continue
            if _holds(context, application, refused, ask):
                break
            due_ns = preemption_from_ns(application, ask)
            if due_ns > context.now_ns:
                timers.attempts_due.set_earlier(application, due_ns)
            elif _may_preempt(context, group, ask):
                return Search(partition, application, group, ask, timers.budget)
    return None


def _next_gang_search(context: StepContext, application: Application, before: Search | None) -> Search | None:
    """A search for the gang; if none is possible, notes when one may be. If what was found for some of its slots does
    not hold any longer, only a few times."""
    partition = context.partition_of(application)
    timers = partition.retry_timers
    if not gang_preemption.may_preempt(partition, application):
        timers.waiting_for_change[application] = context.now_ns + context.cluster.timeouts.preemption_attempt_ns
        return None
    search = gang_preemption.first_search(partition, application)
    if before is not None and before.planned_before and before.application is application:
        search.attempt = before.attempt + 1
        if search.attempt > SEARCHES_MAX:
            _refuse(context, search)
    refused = timers.refused.get(attempts_of(application, search.group.pending_class))
    due_ns = gang_preemption.from_ns(partition, application)
    if _holds(context, application, refused, search.ask):
        return None
    if due_ns > context.now_ns:
        timers.attempts_due.set_earlier(application, due_ns)
        return None
    return search


def _holds(context: StepContext, application: Application, refused: Refused | None, ask: Ask) -> bool:
    """Whether the recorded refusal still covers this ask; if so, notes when the ask must be checked again."""
    partition = context.partition_of(application)
    timers = partition.retry_timers
    if refused is None or ask.spec.priority > refused.priority:
        return False
    if refused.moves == partition.moves:
        until_ns = timers.waiting_for_change.get(application, refused.until_ns)
        timers.waiting_for_change[application] = min(until_ns, refused.until_ns)
        return True
    if refused.until_ns > context.now_ns:
        timers.attempts_due.set_earlier(application, refused.until_ns)
        return True
    return False


def _may_preempt(context: StepContext, group: AskGroup, ask: Ask) -> bool:
    """Whether the ask has a pending allocation without an entitled reservation."""
    return ask in group and ask.unchecked > ask.entitled


def _is_wanted(context: StepContext, search: Search) -> bool:
    """Whether the ask of the search is unchanged and still waits."""
    is_same = search.ask.spec is search.spec and gang_fits(search.partition, search.application)
    if search.ask.spec.slot:
        return is_same and gang_preemption.is_wanted(search)
    return is_same and is_closed(search.application, search.group) and _may_preempt(context, search.group, search.ask)


def for_required_node(context: StepContext, reservation: Reservation, reserved_before: Resources) -> bool:
    """Preempts for an ask on its required node; False if no victims are needed or none would help.

    `reserved_before` is what entitled reservations before this one hold on the node.
    """
    partition = context.partition_of(reservation.application)
    application, ask, node = reservation.application, reservation.ask, reservation.node
    found = victims_for_required_node(partition, application, ask, node, reserved_before, partition.retry_timers.budget)
    if found is None:
        reason = f"the allocations that may be preempted on node {node.node_id} would not make enough room"
        _refuse_required_node(context, reservation, PreemptionRefusal.NO_NODE, reason)
        return False
    reservation.refused = ""
    if not found.victims:
        return False
    victims = found.victims
    if partition.wants_preemption_predicates(ask.request_class):
        answer = reservation.answer
        further = further_for_required_node(partition, application, ask, node, victims)
        if not _still_holds(answer, node, victims, further):
            predicate_checks.preempt(context, application, ask, node, victims, further, reservation=reservation)
            return True
        assert answer is not None
        if answer.last < 0:
            reason = f"the resource manager refuses node {node.node_id} even without the victims"
            _refuse_required_node(context, reservation, PreemptionRefusal.NO_NODE, reason)
            return False
        beyond = answer.beyond()
        victims = (
            (*victims, *beyond) if beyond else PlannedPreemption(application, ask, node, victims, "").up_to(answer.last)
        )
    release_victims(context, reservation, victims, preemption.only_there(node.node_id))
    return True


def _still_holds(
    answer: VictimsAnswer | None, node: Node, victims: tuple[Allocation, ...], further: tuple[Allocation, ...]
) -> bool:
    """Whether the RM's answer is about these victims, and all further victims that it wants may be preempted now."""
    if answer is None or answer.victims != victims:
        return False
    is_as_it_was = answer.last >= 0 or answer.changes >= node.changed
    return is_as_it_was and all(one in further for one in answer.beyond())


def _refuse_required_node(
    context: StepContext, reservation: Reservation, refusal: PreemptionRefusal, reason: str
) -> None:
    """Notes that nothing is preempted for an ask on its required node; sends the fact only when the reason changed."""
    if reason != reservation.refused:
        reservation.refused = reason
        _say_refused(context, reservation.application, reservation.ask, refusal, reason)


def refuse_for_quota(context: StepContext, reservation: Reservation, limit: str) -> None:
    """A quota, in the sentence `limit`, keeps out an ask that has a required node: nothing is preempted for it."""
    reason = f"{limit}; preemption makes room on its node, not in a quota"
    _refuse_required_node(context, reservation, PreemptionRefusal.QUOTA, reason)


def _refuse(context: StepContext, search: Search) -> None:
    """Records that nothing is preempted for the ask, nor for equal asks (`attempts_of`) with the same or a lower
    priority, until the retry time."""
    partition, ask = search.partition, search.ask
    until_ns = context.now_ns + context.cluster.timeouts.preemption_attempt_ns
    refusal = search.refusal or PreemptionRefusal.NO_NODE
    reason = _reason(search, refusal)
    if search.barred:
        _postpone_attempt(partition, search, until_ns, reason)
    else:
        group = search.planned_before[0].ask.group if search.planned_before else search.group
        key = attempts_of(search.application, (group or search.group).pending_class)
        partition.retry_timers.refused[key] = Refused(ask.spec.priority, search.moves, until_ns, reason)
    _say_refused(context, search.application, ask, refusal, reason)


def _postpone_attempt(partition: Partition, search: Search, until_ns: int, reason: str) -> None:
    """The RM refused nodes for this ask only: sets the retry time of this ask, and not that of equal asks."""
    ask = search.ask
    if ask.predicate_history is not None:
        ask.predicate_history.no_preemption = reason
    ask.preemption_retry_ns = max(ask.preemption_retry_ns, until_ns)
    schedule_preemption(partition, search.application, ask)


def _say_refused(
    context: StepContext, application: Application, ask: Ask, refusal: PreemptionRefusal, reason: str
) -> None:
    partition, queue = context.partition_of(application), application.queue
    context.emit(
        PreemptionRefused(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            refusal=refusal,
            reason=preemption.none(reason, ask_name(application.application_id, ask.key, ask.spec.tags)),
        )
    )


def _protections(search: Search) -> str:
    said = search.protections()
    return f": {', '.join(said)}" if said else ""


def _reason(search: Search, refusal: PreemptionRefusal) -> str:
    """The refusal as a sentence, with amounts for guarantees and quotas."""
    if refusal is PreemptionRefusal.QUOTA:
        return f"{search.limit}, whatever is preempted"
    if refusal is PreemptionRefusal.NO_NODE:
        considered = len(search.partition.node_order)
        said = islice(search.barred.items(), BARRED_SAID_MAX)
        barred = "".join(f"; node {node.node_id}: {why}" for node, why in said)
        return (
            f"on no node would the allocations that may be preempted make enough room ({considered} considered)"
            f"{_protections(search)}{barred}"
        )
    if refusal is not PreemptionRefusal.NOT_ENTITLED:
        return f"{preemption.NO_VICTIMS}{_protections(search)}"
    if never := no_right(search.application, search.ask):
        return never
    for queue in search.queue.path_to_root:
        used = in_use(queue)
        for name, amount in search.ask.request_class.items:
            if queue.guaranteed[name] and used[name] + amount > queue.guaranteed[name]:
                return preemption.above_guarantee(queue.written, name, used[name] + amount, queue.guaranteed[name])
        if queue.properties.preemption_policy is PreemptionPolicy.FENCE:
            break
    return preemption.NOT_ENTITLED
