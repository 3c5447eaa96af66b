"""Whether allocations of others are preempted for an ask: what the scheduler found, and what the ask may take."""

from __future__ import annotations

from itertools import islice

from schedulerd.core.explain.values import Guarantee, PreemptionFinding
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.work_budget import WorkBudget
from schedulerd.core.partition import Partition
from schedulerd.core.pending.enqueueing import preemption_from_ns
from schedulerd.core.pending.rules.states import PendingState
from schedulerd.core.preemption.rules.preemption_context import PreemptionContext, in_use

QUEUES_SEEN_MAX = 500
"""With more queues, those from which the ask may take are not looked for."""
RESERVATIONS_SEEN_MAX = 500
"""With more reservations in the partition, neither."""
TAKEN_FROM_MAX = 5
"""Queues that are named."""

_HELPED = frozenset({PendingState.UNSCHEDULABLE, PendingState.QUOTA_BLOCKED, PendingState.RESERVED})
"""States in which preemption may make room for an ask."""


def finding(
    partition: Partition, application: Application, ask: Ask, group: AskGroup, states: set[PendingState], now_ns: int
) -> PreemptionFinding:
    """`states` are those of the pending allocations of the ask."""
    reservations = list(ask.reservations.values())
    guarantees = _guarantees(application, ask)
    if any(one.victims for one in reservations):
        return PreemptionFinding("victims", "", None, guarantees, [])
    if not states & _HELPED:
        return PreemptionFinding("not_needed", "", None, [], [])
    if not partition.spec.preemption_enabled:
        return PreemptionFinding("off", "", None, [], [])
    if ask.request_class.required_node:
        reason = next((one.refused for one in reservations), "")
        return PreemptionFinding("refused" if reason else "due", reason, None, [], [])
    if not ask.spec.allow_preempt_other:
        return PreemptionFinding("not_allowed", "", None, [], [])
    queues = _may_take_from(partition, application, ask, group)
    from_ns = preemption_from_ns(application, ask)
    reason, again_ns = _refusal(partition, application, ask, group)
    if reason:
        return PreemptionFinding("refused", reason, max(from_ns, again_ns), guarantees, queues)
    if from_ns > now_ns:
        return PreemptionFinding("too_young", "", from_ns, guarantees, queues)
    return PreemptionFinding("due", "", None, guarantees, queues)


def _refusal(partition: Partition, application: Application, ask: Ask, group: AskGroup) -> tuple[str, int]:
    """Why the last attempt found nothing, and until when no other is made; ('', 0) without one."""
    if ask.predicate_history is not None and ask.predicate_history.no_preemption:
        return ask.predicate_history.no_preemption, ask.preemption_retry_ns
    for one in (None, ask):
        refused = partition.retry_timers.refused.get((application.queue, group.pending_class, one))
        if refused is not None and ask.spec.priority <= refused.priority:
            return refused.reason, refused.until_ns
    return "", 0


def _guarantees(application: Application, ask: Ask) -> list[Guarantee]:
    return [
        Guarantee(queue.written, name, queue.guaranteed[name], in_use(queue)[name], amount)
        for queue in application.queue.path_to_root
        for name, amount in ask.request_class.items
        if queue.guaranteed[name]
    ]


def _may_take_from(partition: Partition, application: Application, ask: Ask, group: AskGroup) -> list[str]:
    if len(partition.reservations) > RESERVATIONS_SEEN_MAX:
        return []
    if next(islice(partition.root.walk(), QUEUES_SEEN_MAX, None), None) is not None:
        return []
    context = PreemptionContext(partition, application, group, ask, WorkBudget())
    return [queue.written for queue in islice(context.victim_leaves(), TAKEN_FROM_MAX)]
