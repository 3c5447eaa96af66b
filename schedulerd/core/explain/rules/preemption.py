"""Whether allocations of others are preempted for an ask: what the scheduler found, and what the ask may take."""

from __future__ import annotations

from heapq import nlargest
from itertools import islice

from schedulerd.core.explain.values import Guarantee, PreemptionCandidate, PreemptionFinding
from schedulerd.core.language.resources import Resources
from schedulerd.core.preemption.rules.preemption_context import PreemptionContext, in_use, no_right
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.work_budget import WorkBudget
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import preemption_from_ns
from schedulerd.core.state.pending.retry_timers import attempts_of
from schedulerd.core.state.pending.rules.states import PendingState

QUEUES_SEEN_MAX = 500
"""With more queues, those from which the ask may take are not looked for."""
RESERVATIONS_SEEN_MAX = 500
"""With more reservations in the partition, neither."""
TAKEN_FROM_MAX = 5
"""Queues that are named."""
APPLICATIONS_SEEN_MAX = 100
"""Applications of a queue among which the largest are looked for."""
ALLOCATIONS_SEEN_MAX = 20
"""Allocations of an application of which one has to be a possible victim."""
CANDIDATES_MAX = 3
"""Applications that are named."""

_HELPED = frozenset({PendingState.UNSCHEDULABLE, PendingState.QUOTA_BLOCKED, PendingState.RESERVED})
"""States in which preemption may make room for an ask."""


def finding(
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
    reason, again_ns = _refusal(partition, application, ask, group)
    if reason:
        return PreemptionFinding("refused", reason, max(from_ns, again_ns), guarantees, queues, candidates)
    if from_ns > now_ns:
        return PreemptionFinding("too_young", "", from_ns, guarantees, queues, candidates)
    return PreemptionFinding("due", "", None, guarantees, queues, candidates)


def _refusal(partition: Partition, application: Application, ask: Ask, group: AskGroup) -> tuple[str, int]:
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
        if any(context.may_be_preempted(islice(one.allocations.values(), ALLOCATIONS_SEEN_MAX), rights))
    ]
