"""Why an ask waits, as data (`PendingReasonChanged`): its pending state, the rule or whatever else is the cause, and
what is pending before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from schedulerd.core.cluster import ResourceManager
from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.queue import Queue
from schedulerd.core.partition import Partition
from schedulerd.core.pending.rules.states import OF_RULE, Cause, PendingState, group_state
from schedulerd.core.predicates.facts import PendingReasonChanged, SchedulingState
from schedulerd.core.quotas.rules import Blocked, highest_blocked


def why_pending(
    rm: ResourceManager, partition: Partition, application: Application, ask: Ask, told: SchedulingState | None
) -> PendingReasonChanged | None:
    """The reason of an ask whose scheduling state is `told`, without what is ahead of it; None if nothing is pending
    of it but what awaits predicate results."""
    group = ask.group
    if group is None:
        return None
    state, cause = group_state(partition, rm.state, application, group)
    if told is SchedulingState.RESERVED:
        state = PendingState.RESERVED
    elif told is SchedulingState.SKIPPED and state is PendingState.UNSCHEDULABLE:
        # Only asks before it may have the room that quotas and limits leave.
        rule = highest_blocked(application.queue, group.pending_class.items, group.pending_class.quota_key)
        if rule is not None:
            state, cause = OF_RULE[rule.by], rule
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
    if state is PendingState.RESERVED:
        for reservation in ask.reservations.values():
            found.node = reservation.node.node_id
            found.victims += len(reservation.victims)
    return found


def rule_identity(rule: Blocked) -> str:
    return f"{rule.queue.path} {rule.by.value} {rule.resource} {rule.account}"


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


@dataclass(slots=True)
class _Ranks:
    """The order of the asks of one group."""

    first: int
    """Allocations that are pending in the queue before the group."""
    before: Mapping[str, int]
    """By key of an ask: allocations that are pending before it in the group."""


class WaitingLine:
    """What is pending before an ask in its leaf queue, as of the first question about the queue and about the group."""

    def __init__(self) -> None:
        self._first: dict[Queue, dict[AskGroup, int]] = {}
        self._ranks: dict[AskGroup, _Ranks] = {}

    def ahead(self, application: Application, ask: Ask) -> int:
        group = ask.group
        if group is None:
            return 0
        ranks = self._ranks.get(group)
        if ranks is None:
            in_queue = self._first.get(application.queue)
            if in_queue is None:
                in_queue = self._first[application.queue] = _first(application.queue)
            ranks = self._ranks[group] = _Ranks(in_queue.get(group, 0), _before(group))
        return ranks.first + ranks.before.get(ask.key, 0)


def pending_in(leaf: Queue) -> int:
    """Allocations that are pending in the queue and may be tried."""
    return sum(group.pending for one in leaf.applications.values() for group in one.groups.values() if group.counted)


def _first(leaf: Queue) -> dict[AskGroup, int]:
    """How many allocations are pending before each group that is in the pending index."""
    waiting = [one for one in leaf.applications.values() if any(group.counted for group in one.groups.values())]
    found: dict[AskGroup, int] = {}
    count = 0
    for application in sorted(waiting, key=Application.key):
        groups = [group for group in application.groups.values() if group.counted]
        for group in sorted(groups, key=AskGroup.key):
            found[group] = count
            count += group.pending
    return found


def _before(group: AskGroup) -> dict[str, int]:
    asks = sorted(group, key=lambda ask: (-ask.spec.priority, ask.asked_at_ns, ask.serial))
    return dict(zip((ask.key for ask in asks), accumulate((ask.pending for ask in asks), initial=0), strict=False))
