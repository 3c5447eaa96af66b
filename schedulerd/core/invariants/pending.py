"""What must hold of pending asks after every step: their states, the pending index, blocks and request classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import is_schedulable
from schedulerd.core.state.pending.parent_entity import BlockReason, ParentEntity
from schedulerd.core.state.pending.pending_index import Key, SchedulingEntity
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.pending.rules.states import Cause, PendingState, StateCount, slots_awaited, states_of
from schedulerd.core.state.pending.start_order import (
    holds_nothing,
    is_blocked,
    next_to_start,
    start_candidate,
    start_deadline_ns,
)
from schedulerd.core.state.quotas.rules import Blocked, blocked
from schedulerd.core.state.step_context import ResourceManager


def states(rm: ResourceManager) -> Iterator[str]:
    """Each allocation that is still to come is in one state, and that state is true. Slots are not counted."""
    for partition in rm.partitions.values():
        counted = dict.fromkeys(PendingState, 0)
        for app in partition.applications.values():
            for ask in app.asks.values():
                found = states_of(partition, rm.state, app, ask)
                name = f"{partition.wire_name}: ask {ask.key} of {app.application_id}"
                if sum(one.allocations for one in found) != ask.pending + ask.awaiting_placeholder:
                    yield f"{name} has states for {sum(one.allocations for one in found)} of its pending allocations"
                for state, allocations, cause in found:
                    counted[state] += 0 if ask.spec.slot else allocations
                    if not _HOLDS[state](partition, app, ask, cause):
                        yield f"{name} is {state} ({cause}), which does not hold"
        count = StateCount(partition, rm.state)
        while count.advance(100):
            pass
        if count.counts != counted:
            yield f"{partition.wire_name}: the counts by state are {count.counts}, counted {counted}"


def _is_ready(_partition: Partition, app: Application, ask: Ask, _cause: Cause) -> bool:
    """The next cycles find it: nothing on the path to the root blocks its class."""
    group = ask.group
    assert group is not None
    if not group.has_ready:  # the rest of the ask comes after an ask that is being checked
        return True
    return all(group.pending_class not in one.pending_index.blocked_by for one in app.queue.path_to_root)


def _is_blocked(_partition: Partition, app: Application, ask: Ask, cause: Cause) -> bool:
    assert ask.group is not None
    pending_class = (slots_awaited(app, ask.group) or ask.group).pending_class
    return isinstance(cause, Blocked) and (
        pending_class in cause.queue.pending_index.blocked_by or pending_class.unschedulable
    )


def _is_unschedulable(partition: Partition, app: Application, ask: Ask, cause: Cause) -> bool:
    slots = slots_awaited(app, ask.group) if ask.group is not None else None
    if cause is app and slots is not None:
        return _is_unschedulable(partition, app, next(iter(slots)), None)
    is_of_gang = ask.group is not None and bool(ask.group.pending_class.quota_key.together)
    return is_of_gang or partition.first_fit(ask.request_class) is None


def _awaits_gang(_partition: Partition, app: Application, ask: Ask, cause: Cause) -> bool:
    if not isinstance(cause, Application) or cause.gang is None:
        return False
    return cause.gang.waits or (cause is app and cause.gang.is_full(ask.task_group))


def _awaits_placeholder(_partition: Partition, app: Application, ask: Ask, cause: Cause) -> bool:
    return (
        isinstance(cause, Allocation)
        and app.allocations.get(cause.uuid) is cause
        and cause.swap is ask
        and cause.releasing is TerminationType.PLACEHOLDER_REPLACED
    )


def _awaits_predicate(partition: Partition, _app: Application, ask: Ask, cause: Cause) -> bool:
    return (
        isinstance(cause, PredicateCheck)
        and cause.ask is ask
        and partition.callbacks.open_predicate_checks.get(cause.call_id) is cause
    )


def _was_refused(partition: Partition, app: Application, ask: Ask, cause: Cause) -> bool:
    slots = slots_awaited(app, ask.group) if ask.group is not None else None
    if cause is app and slots is not None:
        return slots.request_class.refused
    history = ask.predicate_history
    return history is not None and (ask in partition.refused_asks.due or history.awaits is not None)


def _is_reserved(partition: Partition, _app: Application, ask: Ask, cause: Cause) -> bool:
    return isinstance(cause, Reservation) and cause.ask is ask and cause in partition.reservations


def _is_inactive(_partition: Partition, app: Application, _ask: Ask, cause: Cause) -> bool:
    if isinstance(cause, ResourceManagerState):
        return cause is not ResourceManagerState.RUNNING
    return cause is app.state and not app.propagates_demand


_HOLDS: Mapping[PendingState, Callable[[Partition, Application, Ask, Cause], bool]] = {
    PendingState.READY: _is_ready,
    PendingState.QUOTA_BLOCKED: _is_blocked,
    PendingState.USER_LIMIT_BLOCKED: _is_blocked,
    PendingState.MAX_APPLICATIONS_BLOCKED: _is_blocked,
    PendingState.UNSCHEDULABLE: _is_unschedulable,
    PendingState.AWAITING_GANG: _awaits_gang,
    PendingState.AWAITING_PLACEHOLDER: _awaits_placeholder,
    PendingState.AWAITING_PREDICATE: _awaits_predicate,
    PendingState.PREDICATE_FAILED: _was_refused,
    PendingState.RESERVED: _is_reserved,
    PendingState.APPLICATION_INACTIVE: _is_inactive,
}
"""One check for each state: whether it is true of an ask."""


def entities(partition: Partition) -> Iterator[str]:
    """Every pending ask can be found from the root, or is left out for a reason that still holds."""
    for queue in partition.root.subtree():
        below: list[SchedulingEntity] = [*queue.children.values(), *queue.applications.values()]
        yield from _entities(queue, queue.path, below)
    for app in partition.applications.values():
        name = f"application {app.application_id}"
        yield from _entities(app, name, list(app.groups.values()))
        for group in app.groups.values():
            needs = [group.pending_class] if is_schedulable(partition, app, group) else []
            if group.pending != sum(ask.pending for ask in group):
                yield f"{name} has an ask group that counts {group.pending} pending, not the sum of its asks"
            if list(group.needs) != needs or group.pending_class.request_class is not group.request_class:
                yield f"{name} has an ask group that does not wait with its own pending class"


def _entities(ancestor: ParentEntity, name: str, entities: list[SchedulingEntity]) -> Iterator[str]:
    index = ancestor.pending_index
    with_demand = [entity for entity in entities if entity.needs]
    indexed = list(index)
    first = index.first()
    if first is None and not (with_demand or indexed or ancestor.needs or index.blocked_by or index.pending_classes()):
        return
    wanted = {pending_class for entity in with_demand for pending_class in entity.needs}
    if wanted != set(index.pending_classes()):
        yield f"the pending classes in the index of {name} are not those of its entities"
    if {entity for _, entity in indexed} != set(with_demand):
        yield f"the entities in the pending index of {name} are not those with pending demand"
    own = {pending_class for pending_class, block in index.blocked_by.items() if block.origin is ancestor}
    if ancestor.parent_entity is not None and ancestor.needs.keys() != (
        wanted - own if ancestor.propagates_demand else set()
    ):
        yield f"{name} does not propagate the demand of its entities to its parent"
    for pending_class, block in index.blocked_by.items():
        what = f"class {pending_class.request_class.resources} is blocked at {name}"
        if pending_class not in wanted:
            yield f"{what}, where no entity has demand of it"
        if block.origin is not ancestor and block.origin.pending_index.blocked_by.get(pending_class) is not block:
            yield f"{what} by a block that was lifted"
        is_for_quota = block.origin is ancestor and block.reason is BlockReason.QUOTA
        if (
            isinstance(ancestor, Queue)
            and is_for_quota
            and blocked(ancestor, pending_class.items, pending_class.quota_key) is None
        ):
            yield f"{what} though the quota has room for it"
    if (wanted <= index.blocked_by.keys()) != (first is None):
        found = "has no first entity, though a class is not" if first is None else "has a first entity, though all are"
        yield f"the pending index of {name} {found} blocked"
    keys: list[tuple[Key, SchedulingEntity]] = []
    for key, entity in indexed:
        is_due = isinstance(ancestor, Queue) and ancestor.capacity.is_due
        if isinstance(entity, (ParentEntity, AskGroup)) and not is_due and key != entity.key():
            yield f"an entity in the pending index of {name} has a key that is out of date"
        if not entity.needs.keys() <= index.blocked_by.keys():
            keys.append((key, entity))
    if keys and first is not min(keys, key=lambda one: one[0])[1]:
        yield f"the first entity in the pending index of {name} is not the one with the smallest key"


def classes(partition: Partition) -> Iterator[str]:
    """Pending classes count their ask groups, and none is unschedulable that fits a node."""
    uses: dict[PendingClass, int] = {}
    by_leaf: dict[tuple[PendingClass, Queue], int] = {}
    for app in partition.applications.values():
        for group in app.groups.values():
            if group.needs and app.propagates_demand:
                leaf = group.pending_class, app.queue
                by_leaf[leaf] = by_leaf.get(leaf, 0) + group.pending
            uses[group.pending_class] = uses.get(group.pending_class, 0) + 1
    if uses != {pending_class: pending_class.uses for pending_class in partition.request_classes.known()}:
        yield "the known pending classes are not those that applications have asks of"
    if by_leaf != {
        (pending_class, leaf): pending
        for pending_class in partition.request_classes.known()
        for leaf, pending in partition.pending_counts.of(pending_class).items()
    }:
        yield "the pending counts by class and leaf are not those of the ask groups"
    unschedulable = list(partition.request_classes.unschedulable())
    if {pending_class for pending_class in uses if pending_class.unschedulable} != set(unschedulable):
        yield "the unschedulable classes are not those marked unschedulable"
    if not partition.retry_timers.unreservable.keys() <= uses.keys():
        yield "a class without asks is remembered as unreservable"
    for pending_class in [one for one in unschedulable if not one.quota_key.together]:
        if pending_class.request_class.refused:
            continue
        for node in partition.nodes.values() if pending_class.request_class.required_node else partition.node_order:
            if partition.refusal(pending_class.request_class, node) is None:
                what = f"class {pending_class.request_class.resources}"
                yield f"{what} is unschedulable though node {node.node_id} has room"


def starts(partition: Partition) -> Iterator[str]:
    """In a leaf ordered by `stateaware`, all accepted applications but the next to start wait."""
    for queue in partition.root.subtree():
        if queue.properties.application_order is not ApplicationOrder.STATE_AWARE:
            continue
        starting = next_to_start(queue)
        for app in queue.applications.values():
            if app.awaits_start != (app.state is ApplicationState.ACCEPTED and app not in starting):
                verb = "waits" if app.awaits_start else "does not wait"
                who = ", ".join(one.application_id for one in starting) or "none"
                yield f"application {app.application_id} {verb} in {queue.path}, where the next to start is {who}"
            if app.lets_next_start and not holds_nothing(app):
                yield f"application {app.application_id} lets the next one start in {queue.path}, and has allocations"
            if app.blocked_since_ns is not None and app is not start_candidate(queue) and not app.lets_next_start:
                yield f"application {app.application_id} is noted as blocked in {queue.path}, and no other waits for it"
        candidate = start_candidate(queue)
        if candidate is not None and not _lets_next_start_in_time(partition, candidate):
            yield f"application {candidate.application_id} is blocked in {queue.path}, and nothing lets others start"


def _lets_next_start_in_time(partition: Partition, candidate: Application) -> bool:
    """A check after the next cycle is due, or after some cycle while the application is not blocked; or an alarm rings
    when it has been blocked for long."""
    if candidate in partition.start_checks:
        return partition.start_check_due or not is_blocked(candidate) or partition.wants_cycle
    alarm = candidate.start_alarm
    return alarm is not None and alarm.live and alarm.deadline_ns == start_deadline_ns(candidate)


def alarms(partition: Partition) -> Iterator[Alarm | None]:
    alarm = partition.retry_timers.alarm
    yield alarm if alarm is not None and alarm.live else None
