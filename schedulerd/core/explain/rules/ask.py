"""The explanation of one ask: what its allocations wait for, the quotas on its way, room reserved for it, whether
others are preempted for it, and what is before it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Literal

from schedulerd.core.explain.causes import (
    Cause,
    GangCause,
    InactiveCause,
    Objection,
    PlaceholderCause,
    PredicateCause,
    RefusedCause,
    ReservedCause,
    RuleCause,
    StartOrderCause,
    Use,
)
from schedulerd.core.explain.rules import nodes
from schedulerd.core.explain.values import (
    AskExplanation,
    Guarantee,
    Position,
    PreemptionCandidate,
    PreemptionFinding,
    QueueRank,
    QuotaLevel,
    ReservationFinding,
    Victim,
    Waiting,
)
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.preemption.rules.preemption_context import PreemptionContext, in_use, no_right
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck, PredicateHistory
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.model.work_budget import WorkBudget
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import preemption_from_ns
from schedulerd.core.state.pending.retry_timers import attempts_of
from schedulerd.core.state.pending.rules.states import STATES, PendingState, pod_reason, slots_awaited, states_of
from schedulerd.core.state.pending.rules.states import Cause as StateCause
from schedulerd.core.state.pending.rules.states import Waiting as StateWaiting
from schedulerd.core.state.pending.start_order import next_start_ns
from schedulerd.core.state.quotas.quota_key import QuotaKey
from schedulerd.core.state.quotas.rules import Blocked, BlockedBy, all_blocked
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.core.views.gang_progress import gang_progress
from schedulerd.core.views.node_causes import reserved_before

WAITING_MAX = 50
"""States of allocations of one ask that are listed; an ask may have as many open checks and reservations as it has
allocations."""

_WANT_NODES = frozenset(
    {
        PendingState.UNSCHEDULABLE,
        PendingState.PREDICATE_FAILED,
        PendingState.RESERVED,
        PendingState.READY,
        PendingState.QUOTA_BLOCKED,
    }
)
"""States in which it matters which nodes have room: more quota is of no use where no node fits."""

RULES_MAX = 10
"""Rules that block one ask that are listed."""
USES_NAMED_MAX = 5
"""Users of a quota that are named."""
USES_SEEN_MAX = 1_000
"""Users of a quota among which the largest are looked for."""

RESERVATIONS_MAX = 20
"""Reservations of one ask that are explained."""
VICTIMS_MAX = 10
"""Victims of one reservation that are named."""
TIMED_SEEN_MAX = 500
"""Allocations of a node among which those with an execution timeout are looked for."""

QUEUES_SEEN_MAX = 500
"""With more queues, those from which the ask may take are not looked for."""
RESERVATIONS_SEEN_MAX = 500
"""With more reservations in the partition, neither."""
TAKEN_FROM_MAX = 5
"""Queues that are named."""
APPLICATIONS_SEEN_MAX = 100
"""Applications of a queue among which the largest are looked for."""
VICTIMS_SEEN_MAX = 20
"""Allocations of an application of which one has to be a possible victim."""
CANDIDATES_MAX = 3
"""Applications that are named."""

_HELPED = frozenset({PendingState.UNSCHEDULABLE, PendingState.QUOTA_BLOCKED, PendingState.RESERVED})
"""States in which preemption may make room for an ask."""

AHEAD_SEEN_MAX = 1_000
"""Applications, asks and queues that are compared with those of the ask; with more, counts are `at least`."""
AHEAD_NAMED_MAX = 5
"""Applications ahead, and queues at each level, that are named."""


def explain_ask(
    rm: ResourceManager, partition: Partition, application: Application, ask: Ask, now_ns: int
) -> Generator[None, None, AskExplanation]:
    """Everything but the nodes is found before the first stop, so it is of one moment."""
    found = explain_without_nodes(rm, partition, application, ask, now_ns)
    if ask.group is None or not {one.state for one in found.waiting} & _WANT_NODES:
        return found
    asker = _asker(application, ask)
    return replace(found, nodes=(yield from nodes.survey(partition, asker.request_class, asker)))


def _asker(application: Application, ask: Ask) -> Ask:
    """What looks for a node: the first slot without room, if the ask waits for the slots of its gang."""
    slots = slots_awaited(application, ask.group) if ask.group is not None else None
    return next(iter(slots)) if slots is not None else ask


def explain_without_nodes(
    rm: ResourceManager, partition: Partition, application: Application, ask: Ask, now_ns: int
) -> AskExplanation:
    """The explanation without a survey of the nodes: a fraction of a millisecond."""
    asker = _asker(application, ask)
    group, asking = ask.group, asker.group
    states = states_of(partition, rm.state, application, ask)
    kinds = {one.state for one in states}
    return AskExplanation(
        rm_id=rm.rm_id,
        partition=partition.name,
        application_id=application.application_id,
        allocation_key=ask.key,
        pod=pod_of(ask.spec.tags),
        queue=application.queue.written,
        user=application.spec.user,
        resources=ask.request_class.resources.nonzero(),
        priority=ask.spec.priority,
        placeholder=ask.placeholder,
        task_group=ask.spec.task_group,
        required_node=ask.request_class.required_node,
        asked_at_ns=ask.asked_at_ns,
        now_ns=now_ns,
        allocated=len(ask.allocations),
        pending=ask.pending + ask.awaiting_placeholder,
        waiting=[
            Waiting(
                state=one.state.value,
                allocations=one.allocations,
                waits_for=STATES[one.state].waits_for,
                ends_when=STATES[one.state].ends_when,
                pod_reason=pod_reason(one.state, one.cause),
                cause=cause_of(partition, application, one.cause),
            )
            for one in islice(states, WAITING_MAX)
        ],
        also_blocked_by=_further_causes(partition, application, asker, states),
        quotas=quota_levels(application.queue, ask.request_class.items),
        nodes=None,
        reservations=_reservations_of(asker),
        preemption=_preemption(partition, application, asker, asking, kinds, now_ns) if asking is not None else None,
        position=_position(application, ask, group) if group is not None else None,
    )


def _further_causes(
    partition: Partition, application: Application, ask: Ask, states: Iterable[StateWaiting]
) -> list[RuleCause]:
    """The rules that block beside that of the pending state."""
    first = next((one.cause for one in states if isinstance(one.cause, Blocked)), None)
    if ask.group is None:
        return []
    pending_class = ask.group.pending_class
    return further_causes(partition, application.queue, pending_class.items, pending_class.quota_key, first)


def cause_of(partition: Partition, application: Application, cause: StateCause) -> Cause:
    """The cause of a pending state with everything about it."""
    match cause:
        case Blocked():
            return rule_cause(partition, cause)
        case Application():
            return gang_cause(partition, cause, own=cause is application)
        case Allocation():
            return PlaceholderCause("placeholder", cause.uuid, cause.swap_node.node_id)
        case PredicateCheck():
            until_ns = cause.alarm.deadline_ns if cause.alarm is not None else None
            return PredicateCause("predicate", cause.node.node_id, cause.asked_at_ns, until_ns)
        case PredicateHistory():
            objections = [Objection(reason, count, node) for reason, (count, node) in cause.reasons.items()]
            return RefusedCause("refused", objections)
        case Reservation():
            return ReservedCause("reserved", cause.node.node_id)
        case ResourceManagerState():
            return InactiveCause("inactive", "resource manager", cause.value)
        case ApplicationState() if application.starts_after is not None:
            first = application.starts_after
            return StartOrderCause("start order", first.application_id, first.state.value, next_start_ns(first))
        case ApplicationState():
            return InactiveCause("inactive", "application", cause.value)
        case None:
            return None


def gang_cause(partition: Partition, application: Application, *, own: bool = True) -> GangCause:
    """How far the gang of the application is."""
    found = gang_progress(application)
    return GangCause(
        kind="gang",
        application_id=application.application_id,
        own=own,
        placed=found.placed,
        wanted=found.wanted,
        deadline_ns=application.gang_alarm.deadline_ns if application.gang_alarm is not None else None,
        needs=dict(found.needs),
        needs_state=found.needs_state,
        needs_rule=rule_cause(partition, found.needs_rule) if found.needs_rule is not None else None,
        is_restricted=found.is_restricted,
        gang_state=found.gang_state,
        asked=found.asked,
        task_group=found.task_group,
        lacks=found.lacks,
        level=found.level,
        domain=found.domain,
        gathers_ns=found.gathers_ns,
    )


def rule_cause(partition: Partition, found: Blocked) -> RuleCause:
    """What is known about the blocking rule."""
    queue, name = found.queue, found.resource
    if found.account:
        ledger = (partition.usages.groups if found.is_group else partition.usages.users).find(found.account, queue.path)
        ids = ledger.applications if ledger is not None else {}
        running = (partition.applications[one] for one in ids if one in partition.applications)
        uses, left_out = _largest(_of_applications(running, name), len(ids))
    else:
        uses, left_out = uses_of_queue(queue, name)
    return RuleCause(
        kind="rule",
        rule=found.by.value,
        queue=queue.written,
        resource=name,
        used=found.used,
        promised=found.promised,
        asked=found.asked,
        max=found.max,
        account=found.account,
        is_group=found.is_group,
        missing=found.used + found.promised + found.asked - found.max,
        leaving=queue.leaving[name] if found.by in (BlockedBy.QUOTA, BlockedBy.GANG_QUOTA) else 0,
        fits_alone=found.asked <= found.max,
        uses=uses,
        uses_left_out=left_out,
    )


def further_causes(
    partition: Partition, leaf: Queue, items: Items, key: QuotaKey, first: Blocked | None
) -> list[RuleCause]:
    """The rules that block beside the first one. All of them have to let the ask in before it can be placed."""
    if first is None:
        return []
    others = (one for one in all_blocked(leaf, items, key) if _rule(one) != _rule(first))
    return [rule_cause(partition, one) for one in islice(others, RULES_MAX)]


def _rule(found: Blocked) -> tuple[object, ...]:
    return found.by, found.queue, found.resource, found.account, found.is_group


def uses_of_queue(queue: Queue, name: str) -> tuple[list[Use], int]:
    """Who uses most of a resource of the queue ('': running applications), and how many more use some of it.

    A leaf is used by applications, another queue by its child queues.
    """
    if queue.is_leaf:
        return _largest(_of_applications(queue.applications.values(), name), len(queue.applications))
    children = ((child.written, child.allocated[name] if name else child.running) for child in queue.children.values())
    return _largest((Use(path, "", amount) for path, amount in children if amount), len(queue.children))


def quota_levels(leaf: Queue, items: Items) -> list[QuotaLevel]:
    """Quota and guarantee of each queue from the leaf to the root, for each resource asked for."""
    return [
        QuotaLevel(
            queue=queue.written,
            resource=name,
            guaranteed=queue.guaranteed.get(name),
            used=queue.allocated[name],
            reserved=queue.quota_reserved[name],
            asked=amount,
            max=queue.max.get(name),
        )
        for queue in leaf.path_to_root
        for name, amount in items
        if name in queue.max or name in queue.guaranteed
    ]


def _largest(uses: Iterator[Use], count_max: int) -> tuple[list[Use], int]:
    """The largest uses, and how many more there are: with more than `USES_SEEN_MAX`, `count_max` is taken for all."""
    seen = list(islice(uses, USES_SEEN_MAX + 1))
    named = nlargest(USES_NAMED_MAX, seen[:USES_SEEN_MAX], key=lambda use: use.amount)
    return named, (count_max if len(seen) > USES_SEEN_MAX else len(seen)) - len(named)


def _of_applications(applications: Iterable[Application], name: str) -> Iterator[Use]:
    for one in applications:
        amount = one.allocated[name] + one.placeholder_allocated[name] if name else int(bool(one.usage_ledgers))
        if amount:
            yield Use("", one.application_id, amount)


def _reservations_of(ask: Ask) -> list[ReservationFinding]:
    """The reservations of the ask, oldest first."""
    return [_reservation(one) for one in islice(ask.reservations, RESERVATIONS_MAX)]


def _reservation(one: Reservation) -> ReservationFinding:
    room = one.node.available.minus(reserved_before(one))
    expected, expected_ns = _expected(one.node, room, one)
    victims = [
        Victim(victim.application.application_id, victim.key, victim.uuid, victim.node.node_id)
        for victim in islice(one.victims, VICTIMS_MAX)
    ]
    return ReservationFinding(
        node_id=one.node.node_id,
        entitled=one.is_entitled,
        since_ns=one.made_at_ns,
        expires_ns=one.alarm.deadline_ns if one.alarm is not None else None,
        lacks=nodes.lacks_of(one.items, room),
        victims=victims,
        victims_left_out=len(one.victims) - len(victims),
        expected=expected,
        expected_ns=expected_ns,
    )


def _expected(
    node: Node, room: Resources, one: Reservation
) -> tuple[Literal["now", "releases", "timeouts", "unknown"], int | None]:
    """When the node has the room: what is being released first, then allocations by their execution timeouts."""
    if room.lacks(one.items) is None:
        return "now", None
    room = room.plus(node.leaving)
    if room.lacks(one.items) is None:
        return "releases", None
    seen = (each for each in islice(node.allocations.values(), TIMED_SEEN_MAX) if each.releasing is None)
    timed = [(at_ns, number, found) for number, found in enumerate(seen) if (at_ns := _ends_by_ns(found)) is not None]
    for at_ns, _, found in sorted(timed):
        room.add(found.request_class.items)
        if room.lacks(one.items) is None:
            return "timeouts", at_ns
    return "unknown", None


def _ends_by_ns(allocation: Allocation) -> int | None:
    """When the allocation reaches its own execution timeout or that of its application; None without either."""
    alarms = (allocation.alarm, allocation.application.run_alarm)
    return min((one.deadline_ns for one in alarms if one is not None and one.live), default=None)


def _preemption(
    partition: Partition, application: Application, ask: Ask, group: AskGroup, states: set[PendingState], now_ns: int
) -> PreemptionFinding:
    """`states` are those of the pending allocations of the ask."""
    reservations = list(ask.reservations)
    guarantees = _guarantees(application, ask)
    if any(one.victims for one in reservations):
        return PreemptionFinding("victims", "", None, guarantees, [], [])
    if not states & _HELPED:
        return PreemptionFinding("not_needed", "", None, [], [], [])
    if ask.request_class.required_node and partition.spec.preemption_enabled:
        reason = next((one.refused for one in reservations), "")
        return PreemptionFinding("refused" if reason else "due", reason, None, [], [], [])
    if partition.spec.preemption_enabled and ask.spec.allow_preempt_other and (never := no_right(application, ask)):
        return PreemptionFinding("no_guarantee", never, None, [], [], [])
    context = PreemptionContext(partition, application, group, ask, WorkBudget()) if _is_small(partition) else None
    leaves = list(islice(context.victim_leaves(), TAKEN_FROM_MAX)) if context is not None else []
    queues = [one.written for one in leaves]
    candidates = _candidates(context, ask, leaves) if context is not None else []
    if not partition.spec.preemption_enabled:
        return PreemptionFinding("off", "", None, guarantees, queues, candidates)
    if not ask.spec.allow_preempt_other:
        return PreemptionFinding("not_allowed", "", None, guarantees, queues, candidates)
    from_ns = preemption_from_ns(application, ask)
    reason, again_ns = _last_refusal(partition, application, ask, group)
    if reason:
        return PreemptionFinding("refused", reason, max(from_ns, again_ns), guarantees, queues, candidates)
    if from_ns > now_ns:
        return PreemptionFinding("too_young", "", from_ns, guarantees, queues, candidates)
    return PreemptionFinding("due", "", None, guarantees, queues, candidates)


def _last_refusal(partition: Partition, application: Application, ask: Ask, group: AskGroup) -> tuple[str, int]:
    """Why the last attempt found nothing, and until when no other is made; ('', 0) without one."""
    if ask.predicate_history is not None and ask.predicate_history.no_preemption:
        return ask.predicate_history.no_preemption, ask.preemption_retry_ns
    refused = partition.retry_timers.refused.get(attempts_of(application, group.pending_class))
    return (refused.reason, refused.until_ns) if refused and ask.spec.priority <= refused.priority else ("", 0)


def _guarantees(application: Application, ask: Ask) -> list[Guarantee]:
    return [
        Guarantee(queue.written, name, queue.guaranteed[name], in_use(queue)[name], amount)
        for queue in application.queue.path_to_root
        for name, amount in ask.request_class.items
        if queue.guaranteed[name]
    ]


def _is_small(partition: Partition) -> bool:
    """Whether it takes little to find from which queues an ask may take."""
    return (
        len(partition.reservations) <= RESERVATIONS_SEEN_MAX
        and next(islice(partition.root.walk(), QUEUES_SEEN_MAX, None), None) is None
    )


def _candidates(context: PreemptionContext, ask: Ask, leaves: list[Queue]) -> list[PreemptionCandidate]:
    """The largest applications of these queues that have an allocation which may be preempted."""
    rights = Resources({name: amount for name, amount in ask.request_class.items if name in context.entitled_to})
    seen = [one for leaf in leaves for one in islice(leaf.applications.values(), APPLICATIONS_SEEN_MAX)]

    def use(one: Application) -> int:
        return max((one.allocated[name] // amount for name, amount in rights.items() if amount), default=0)

    return [
        PreemptionCandidate(
            one.queue.written, one.application_id, {name: one.allocated[name] for name, _ in ask.request_class.items}
        )
        for one in nlargest(CANDIDATES_MAX, seen, key=use)
        if any(context.may_be_preempted(islice(one.allocations.values(), VICTIMS_SEEN_MAX), rights))
    ]


def _position(application: Application, ask: Ask, group: AskGroup) -> Position:
    """The position of a pending ask in its application, its leaf queue, and the queue tree."""
    leaf = application.queue
    own = application.key()
    entities = list(islice(leaf.pending_index, AHEAD_SEEN_MAX + 1))
    ahead = [(key, one) for key, one in entities[:AHEAD_SEEN_MAX] if one is not application and key < own]
    named = [one for _, one in nsmallest(AHEAD_NAMED_MAX, ahead, key=lambda item: item[0])]
    asks, all_asks_seen = _asks_ahead(application, ask, group)
    ranks = [_rank(queue) for queue in leaf.path_to_root if queue.parent is not None]
    return Position(
        applications_ahead=len(ahead),
        first_ahead=[one.application_id for one in named if isinstance(one, Application)],
        asks_ahead=asks,
        at_least=len(entities) > AHEAD_SEEN_MAX or not all_asks_seen,
        queues=ranks,
    )


def _asks_ahead(application: Application, ask: Ask, group: AskGroup) -> tuple[int, bool]:
    """Asks of the application that come before this one, and whether all were compared."""
    own, ahead, left = _order(ask), 0, AHEAD_SEEN_MAX
    for other in islice(application.groups.values(), AHEAD_SEEN_MAX):
        seen = list(islice(other, left + 1))
        ahead += sum(one is not ask and _order(one) < own for one in seen[:left])
        left -= len(seen)
        if left < 0:
            return ahead, False
    return ahead, len(application.groups) <= AHEAD_SEEN_MAX


def _order(ask: Ask) -> tuple[int, int, int]:
    return -ask.spec.priority, ask.asked_at_ns, ask.serial


def _rank(queue: Queue) -> QueueRank:
    """The place of the queue among its siblings with pending asks; it is counted itself."""
    assert queue.parent is not None
    own = queue.key()
    siblings = [one for one in islice(queue.parent.children.values(), AHEAD_SEEN_MAX) if one.needs and one is not queue]
    keyed = [(key, one.written) for one in siblings if (key := one.key()) < own]
    first = [path for _, path in nsmallest(AHEAD_NAMED_MAX, keyed, key=lambda item: item[0])]
    return QueueRank(queue.written, 1 + len(keyed), 1 + len(siblings), first)
