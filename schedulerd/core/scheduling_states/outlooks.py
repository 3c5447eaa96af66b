"""What holds for all asks of a place, or of a group that is not in the pending index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from schedulerd.core.autoscaling.rules.outstanding import oldest_unschedulable, unschedulable_within_quotas
from schedulerd.core.language.facts.scheduling_states import SchedulingState
from schedulerd.core.scheduling_states.reasons import gang_amounts, pending_in, rule_amounts, rule_identity
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.scheduling_state_tracker import (
    GroupOutlook,
    Outlook,
    Place,
    SchedulingStateTracker,
    waiting_places,
)
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.parent_entity import BlockReason
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.pending.rules.states import Cause, PendingState, blocking_rule, slots_awaited
from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.core.views.gang_progress import GangProgress

EVERYTHING = 2**63
"""The count for a place whose allocations are all let in, so that its outlook stays equal when asks come and go."""
PLACES_MAX = 10_000
"""Maximum number of places checked in each partition."""


def outlooks(partition: Partition, *, tells_reasons: bool) -> Iterator[tuple[Place, Outlook]]:
    """The outlooks of all places whose class is blocked by a quota or unschedulable; with `tells_reasons`, also of
    those that wait for their turn."""
    lines: dict[Queue, int] = {}
    let_in: dict[Place, dict[Application | None, int]] = {}
    for leaf, pending_class, application, count in unschedulable_within_quotas(partition):
        is_all = application is None and count == partition.pending_counts.of(pending_class)[leaf]
        let_in.setdefault((leaf, pending_class), {})[application] = EVERYTHING if is_all else count
    is_counted = dict.fromkeys(oldest_unschedulable(partition), True)
    for leaf, pending_class in islice(waiting_places(partition), PLACES_MAX):
        rule = blocking_rule(leaf, pending_class) if tells_reasons else None
        short = next((queue for queue in leaf.path_to_root if _is_short(queue, pending_class)), None)
        if rule is not None:
            amounts = rule_amounts(rule)
            yield (leaf, pending_class), Outlook(rule_identity(rule), {}, pending_class.joined, amounts=amounts)
        elif short is not None:
            yield (leaf, pending_class), Outlook(short.path, {}, pending_class.joined)
        elif pending_class in is_counted:
            counts = let_in.get((leaf, pending_class), {})
            yield (leaf, pending_class), Outlook("", counts, pending_class.joined)
        elif tells_reasons and not pending_class.unschedulable:
            if leaf not in lines:
                lines[leaf] = pending_in(leaf)
            cause = f"turn {lines[leaf].bit_length()}"  # told again when the line is half as long
            yield (leaf, pending_class), Outlook(cause, {}, pending_class.joined, waits_for_turn=True)


def _is_short(queue: Queue, pending_class: PendingClass) -> bool:
    """Whether the class is blocked at this queue by one of the queue's own rules."""
    block = queue.pending_index.blocked_by.get(pending_class)
    return block is not None and block.origin is queue and block.reason is BlockReason.QUOTA


def groups_aside(
    rm: ResourceManager, states: SchedulingStateTracker
) -> Iterator[tuple[Partition, Application, AskGroup]]:
    """The groups that are not in the pending index, without slots; those of gangs that declare their task groups only,
    if the RM is not told reasons."""
    return (
        (partition, application, group)
        for partition in rm.partitions.values()
        for application in (partition.applications.values() if states.tells_reasons else partition.declared_gangs)
        for group in application.groups.values()
        if not group.counted and not (group.placeholder and application.declares_gang)
    )


def group_outlook(
    places: Mapping[Place, Outlook],
    application: Application,
    group: AskGroup,
    state: PendingState,
    cause: Cause,
    progress: GangProgress | None,
) -> GroupOutlook | None:
    """Members whose slots have no room are told what the first of these slots is. None if nothing is told."""
    slots = slots_awaited(application, group)
    if slots is not None and isinstance(cause, Blocked):
        return GroupOutlook(f"{state} {rule_identity(cause)}", group.joined, amounts=rule_amounts(cause))
    if slots is not None and state in (PendingState.UNSCHEDULABLE, PendingState.PREDICATE_FAILED):
        told = SchedulingState.FAILED if _is_let_in(places, application, slots) else SchedulingState.SKIPPED
        return GroupOutlook(state.value, group.joined, told, gang_amounts(progress) if progress is not None else ())
    if state not in (PendingState.AWAITING_GANG, PendingState.APPLICATION_INACTIVE):
        return None
    awaited = cause.application_id if isinstance(cause, Application) else str(cause)
    first = application.starts_after
    awaited = awaited if first is None else f"{awaited} {first.application_id}"
    if progress is None or cause is not application:
        return GroupOutlook(f"{state} {awaited}", group.joined)
    kind = "requeued" if progress.is_requeued else progress.gang_state
    return GroupOutlook(f"{state} {awaited} {kind}", group.joined, amounts=gang_amounts(progress))


def _is_let_in(places: Mapping[Place, Outlook], application: Application, slots: AskGroup) -> bool:
    """Whether quotas and limits would let these unschedulable slots in after all that comes before them."""
    known = places.get((application.queue, slots.pending_class))
    return known is not None and known.counts.get(application if application in known.counts else None, 0) > 0
