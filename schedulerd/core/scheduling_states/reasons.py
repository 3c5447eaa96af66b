"""Why an ask waits, as data (`PendingReasonChanged`): its pending state, the rule or whatever else is the cause, how
far its gang is, and what is pending before it."""

from __future__ import annotations

from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingState
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rules.states import Cause, PendingState, group_state
from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.core.views.gang_progress import GangProgress


def why_pending(
    rm: ResourceManager,
    partition: Partition,
    application: Application,
    ask: Ask,
    told: SchedulingState | None,
    progress: GangProgress | None = None,
) -> PendingReasonChanged | None:
    """The reason of an ask whose scheduling state is `told`, without what is ahead of it; None if nothing is pending
    of it but what awaits predicate results. `progress`: of its gang, if that declares its task groups and the ask waits
    for it."""
    group = ask.group
    if group is None:
        return None
    state, cause = group_state(partition, rm.state, application, group)
    if told is SchedulingState.RESERVED:
        state = PendingState.RESERVED
    found = PendingReasonChanged(
        rm.rm_id,
        partition.name,
        application.application_id,
        ask.key,
        state.value,
        told,
        queue=application.queue.written,
    )
    _add_cause(found, application, cause)
    if progress is not None:
        found.gang_state, found.task_group = progress.gang_state, progress.task_group
        found.with_room, found.needed, found.members_asked = progress.placed, progress.wanted, progress.asked
    if state is PendingState.RESERVED:
        for reservation in ask.reservations:
            found.node = reservation.node.node_id
            found.victims += len(reservation.victims)
    return found


def rule_identity(rule: Blocked) -> str:
    return f"{rule.queue.path} {rule.by.value} {rule.resource} {rule.account}"


def rule_amounts(rule: Blocked | None) -> tuple[object, ...]:
    """The rule with its amounts, to be compared only; empty without a rule."""
    return () if rule is None else (rule_identity(rule), rule.used, rule.promised, rule.asked, rule.max)


def gang_amounts(progress: GangProgress) -> tuple[object, ...]:
    """How far the gang is, to be compared only."""
    return progress.placed, progress.wanted, progress.asked, progress.task_group


def reserved_identity(ask: Ask) -> str:
    """Where room is reserved for the ask, and how many allocations have to be released there first; to be compared
    only."""
    return f"reserved {[(one.node.node_id, len(one.victims)) for one in ask.reservations]}"


def _add_cause(found: PendingReasonChanged, application: Application, cause: Cause) -> None:
    match cause:
        case Blocked():
            found.rule, found.queue, found.resource = cause.by.value, cause.queue.written, cause.resource
            found.used, found.promised, found.asked, found.max = cause.used, cause.promised, cause.asked, cause.max
            found.account, found.is_group = cause.account, cause.is_group
        case Application() if cause is not application:
            found.awaited_application = cause.application_id
        case ApplicationState() | ResourceManagerState():
            found.inactive = str(cause)
            if application.starts_after is not None:
                found.awaited_application = application.starts_after.application_id


def pending_in(leaf: Queue) -> int:
    """Allocations that are pending in the queue and may be tried."""
    return sum(group.pending for one in leaf.applications.values() for group in one.groups.values() if group.counted)
