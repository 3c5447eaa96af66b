"""What must hold after every step, as sentences about what does not.

Everything is counted anew from the allocations and asks themselves. Used by the tests, the simulator and the health
check; never by the scheduler to decide anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedulerd.core import (
    invariants_alarms,
    invariants_constraints,
    invariants_predicates,
    invariants_room,
    invariants_states,
)
from schedulerd.core.commands import TerminationType
from schedulerd.core.handlers import gang_time
from schedulerd.core.lifecycles import ApplicationState, NodeState
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import SCHEDULABLE_STATES, Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.parent_entity import BlockReason, ParentEntity
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.pending_index import Key, SchedulingEntity
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.request_class import PendingClass
from schedulerd.core.quotas.rules import blocked
from schedulerd.core.quotas.usage import Ledgers
from schedulerd.core.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.specs import ApplicationOrder


def violations(scheduler: Scheduler, partitions: Iterable[Partition] | None = None) -> list[str]:
    """One sentence per broken invariant; empty if all is well.

    With `partitions` no others are gone through; what is not of a partition is counted anyway.
    """
    found: list[str] = []
    for partition in scheduler.cluster.partitions() if partitions is None else partitions:
        for check in (
            _nodes,
            _allocations,
            _node_order,
            _applications,
            _open_gangs,
            _queues,
            _waiting,
            _shapes,
            _users,
            invariants_room.reservations,
            invariants_room.rooms,
            invariants_predicates.predicate_checks,
            invariants_constraints.constraints,
        ):
            found.extend(f"{partition.wire_name}: {sentence}" for sentence in check(partition))
    for rm in scheduler.cluster.resource_managers.values():
        found.extend(f"[{rm.rm_id}]: {sentence}" for sentence in invariants_predicates.calls(rm))
        found.extend(f"[{rm.rm_id}]: {sentence}" for sentence in invariants_states.scheduling_state_tracker(rm))
    found.extend(invariants_alarms.alarms(scheduler))
    return found


def extent(scheduler: Scheduler) -> int:
    """How many things `violations` goes through, roughly: nodes, applications, allocations and asks."""
    return sum(
        len(one.nodes) + len(one.allocations) + sum(1 + len(app.asks) for app in one.applications.values())
        for one in scheduler.cluster.partitions()
    )


def _differ(what: str, has: Resources, counted: Resources) -> list[str]:
    found = []
    if has != counted:
        found.append(f"{what} is {has.nonzero()}, counted {counted.nonzero()}")
    if has and min(has.values()) < 0:
        found.append(f"{what} is negative: {has.nonzero()}")
    return found


def _nodes(partition: Partition) -> Iterator[str]:
    offered = Resources()
    for node in partition.nodes.values():
        offered.add(node.capacity.items())
    yield from _differ("the total of the partition", partition.total(), offered)
    used = Resources()
    for node in partition.nodes.values():
        used.add(node.used.items() if node.used is not None else ())
    yield from _differ("what is used on the nodes of the partition", partition.used, used)
    for node in partition.nodes.values():
        counted = Resources()
        for uuid, allocation in node.allocations.items():
            counted.add(allocation.request_class.items)
            if allocation.node is not node or allocation.application.allocations.get(uuid) is not allocation:
                yield f"node {node.node_id} has allocation {uuid} that its application does not have there"
        yield from _differ(f"allocated of node {node.node_id}", node.allocated, counted)
        if node.available != node.capacity.minus(node.occupied).minus(node.allocated):
            yield f"available of node {node.node_id} is {node.available.nonzero()}, not capacity less what is used"


def _allocations(partition: Partition) -> Iterator[str]:
    counted = {uuid: one for node in partition.nodes.values() for uuid, one in node.allocations.items()}
    used = Resources()
    for allocation in partition.allocations.values():
        used.add(allocation.used.items() if allocation.used is not None else ())
    yield from _differ("what the allocations of the partition use", partition.allocations_used, used)
    if partition.allocations != counted:
        yield f"the partition knows {len(partition.allocations)} allocations, its nodes have {len(counted)}"


def _node_order(partition: Partition) -> Iterator[str]:
    ordered = list(partition.node_order)
    if [(node.score, node.node_id) for node in ordered] != sorted((node.score, node.node_id) for node in ordered):
        yield "the node order is not sorted by score"
    open_nodes = {node.node_id for node in partition.nodes.values() if node.state is NodeState.SCHEDULABLE}
    if {node.node_id for node in ordered} != open_nodes or len(ordered) != len(open_nodes):
        yield "the node order does not hold exactly the schedulable nodes"
    for node in ordered:
        if node.score != partition.scoring.score(node.capacity, node.unclaimed):
            yield f"score of node {node.node_id} is stale"


def _applications(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        name = f"application {app.application_id}"
        real, placeholder, pending = Resources(), Resources(), Resources()
        for uuid, allocation in app.allocations.items():
            (placeholder if allocation.placeholder else real).add(allocation.request_class.items)
            if allocation.node.allocations.get(uuid) is not allocation:
                yield f"{name} has allocation {uuid} that its node does not have"
            if allocation.ask.allocations.get(uuid) is not allocation:
                yield f"{name} has allocation {uuid} that its ask does not have"
        for ask in app.asks.values():
            pending.add(ask.request_class.items, ask.pending)
            if ask.pending < 0:
                yield f"{name} ask {ask.key} has {ask.pending} pending"
            to_come, most = ask.pending + ask.awaiting_placeholder, ask.spec.max_allocations
            if to_come and ask.placed + to_come > most:
                yield f"{name} ask {ask.key} has {ask.placed} placed and {to_come} to come, of {most}"
            if not ask.pending and not ask.allocations and not ask.awaiting_placeholder:
                yield f"{name} remembers ask {ask.key} that has nothing pending and nothing alive"
            if (ask.pending > 0) != (ask.band in app.groups and ask in app.groups[ask.band]):
                yield f"{name} ask {ask.key} has {ask.pending} pending, but its group does not say so"
        yield from _differ(f"allocated of {name}", app.allocated, real)
        yield from _differ(f"placeholders of {name}", app.placeholder_allocated, placeholder)
        yield from _differ(f"pending of {name}", app.pending, pending)
        yield from _gang(app, name)
        if app.placeholders != sum(one.placeholder for one in app.allocations.values()):
            yield f"{name} counts {app.placeholders} placeholders"
        if app.is_terminal:
            yield f"{name} is {app.state} and still has its queue"
        if app.state is ApplicationState.COMPLETING and not app.is_idle:
            yield f"{name} is Completing with asks or real allocations"
        if app.queue.applications.get(app.application_id) is not app:
            yield f"{name} is not in its queue"


def _open_gangs(partition: Partition) -> Iterator[str]:
    named = [*partition.open_gangs, *([partition.priority_gang] if partition.priority_gang is not None else [])]
    if any(partition.applications.get(app.application_id) is not app for app in named):
        yield "an application that is not there any longer counts as an open gang"


def _gang(app: Application, name: str) -> Iterator[str]:
    """Placeholders and swaps, counted anew (SEMANTICS G)."""
    awaiting: dict[Ask, int] = {}
    awaiting_behind: dict[str, int] = {}
    idle: dict[str, int] = {}
    for uuid, allocation in app.allocations.items():
        if allocation.swap is not None:
            awaiting[allocation.swap] = awaiting.get(allocation.swap, 0) + 1
            behind = allocation.spec.task_group
            awaiting_behind[behind] = awaiting_behind.get(behind, 0) + 1
            if not allocation.placeholder or allocation.releasing is not TerminationType.PLACEHOLDER_REPLACED:
                yield f"{name} has an ask awaiting a placeholder behind {uuid}, which is not being replaced"
        if allocation.placeholder and allocation.releasing is None:
            idle[allocation.spec.task_group] = idle.get(allocation.spec.task_group, 0) + 1
    for ask in {**dict.fromkeys(app.asks.values()), **awaiting}:
        if ask.awaiting_placeholder != awaiting.get(ask, 0) or app.asks.get(ask.key) is not ask:
            counted, there = ask.awaiting_placeholder, awaiting.get(ask, 0)
            yield f"{name} ask {ask.key} counts {counted} awaiting a placeholder, there are {there}"
    if app.awaiting_placeholder != sum(awaiting.values()):
        yield f"{name} counts {app.awaiting_placeholder} awaiting a placeholder, there are {sum(awaiting.values())}"
    pending = sum(ask.pending for ask in app.asks.values() if ask.placeholder)
    gang = app.gang
    if gang is None:
        if pending or app.placeholders:
            yield f"{name} has placeholders and no gang"
        return
    if gang.pending != pending:
        yield f"{name} counts {gang.pending} pending placeholders, there are {pending}"
    asked = Resources()
    for ask in app.asks.values():
        if ask.placeholder:
            asked.add(ask.request_class.items, ask.pending)
    yield from _differ(f"what pending placeholders of {name} will use", gang.asked, asked)
    for task_group in gang.task_groups.values():
        if task_group.awaiting_placeholder != awaiting_behind.pop(task_group.name, 0):
            counted = task_group.awaiting_placeholder
            yield f"{name} counts {counted} awaiting a placeholder behind placeholders of {task_group.name}"
        if task_group.idle != idle.pop(task_group.name, 0):
            yield f"{name} does not know which placeholders of {task_group.name} may be replaced"
    if idle:
        yield f"{name} has placeholders of task groups that its gang does not know"
    held = Resources()
    for allocation in app.allocations.values():
        held.add(allocation.request_class.items if allocation.spec.task_group else ())
    yield from _differ(f"held by the gang of {name}", gang.held, held)
    if gang.has_idle and app.gang_alarm is None and gang_time.needs_time(app):
        yield f"{name} has placeholders that no time ends"
    if app.gang_alarm is not None and gang_time.is_complete(app):
        yield f"{name} has its gang, and a deadline for it"
    is_limited = app.queue.properties.gang_placeholder_idle_timeout_ns > 0
    may_idle = gang.has_idle and app.state in SCHEDULABLE_STATES and gang_time.is_complete(app)
    if (gang.idle_alarm is not None) != (may_idle and is_limited) or (gang.idle_since_ns is not None) != may_idle:
        yield f"{name} has {'idle' if may_idle else 'no idle'} placeholders, and an alarm that says otherwise"
    if gang.deadlock_alarm is not None and app.gang_alarm is None:
        yield f"{name} has the retry timers of a gang that has begun, and has not"
    if (gang.pending > 0) != (app in app.partition.open_gangs):
        yield f"{name} has {gang.pending} pending placeholders, the partition thinks otherwise"
    if app.partition.priority_gang is app and not (gang.pending and app.gang_alarm):
        yield f"{name} is priority gang, though it needs nothing or has no time"
    if gang.promised and app.gang_alarm is None:
        yield f"{name} is promised {gang.promised} though its time is over"
    for resource, amount in gang.promised.items():
        if amount > max(0, app.spec.placeholder_ask[resource] - app.placeholder_allocated[resource]):
            yield f"{name} is promised {resource} {amount} and has its placeholders already"
    for task_group in gang.task_groups.values():
        for group in task_group.waiting:
            if group.denied != (app.partition.denied.get(group) is app):
                yield f"{name} has asks that nobody tries again when nodes change"
    if gang.next_swap() is not None and app.propagates_demand and app not in app.partition.swaps:
        yield f"{name} has a real ask and its placeholder, and nobody looks"


def _queues(partition: Partition) -> Iterator[str]:
    promised, running = _promised_and_running(partition)
    for queue in partition.root.subtree():
        allocated, pending = Resources(), Resources()
        for child in queue.children.values():
            allocated.add(child.allocated.items())
            pending.add(child.pending.items())
        for app in queue.applications.values():
            allocated.add(app.allocated.items())
            allocated.add(app.placeholder_allocated.items())
            pending.add(app.pending.items())
        yield from _differ(f"allocated of {queue.path}", queue.allocated, allocated)
        yield from _differ(f"pending of {queue.path}", queue.pending, pending)
        yield from _differ(f"promised in {queue.path}", queue.gang_quota_promised, promised[queue])
        if queue.is_leaf and any(not child.draining for child in queue.children.values()):
            yield f"{queue.path} is a leaf and has queues that are not draining"
        if queue.is_unneeded and partition.cleanup_alarm is None:
            yield f"nobody needs {queue.path} any longer, and nothing will remove it"
        if queue.running != running[queue]:
            yield f"{queue.path} counts {queue.running} running applications, there are {running[queue]}"
        if not queue.is_leaf and queue.applications:
            yield f"{queue.path} is a parent and has applications"
        if queue.properties.application_order is ApplicationOrder.STATE_AWARE:
            starter = queue.next_to_start()
            for app in queue.applications.values():
                if app.awaits_start != (app.state is ApplicationState.ACCEPTED and app is not starter):
                    which = "not " if app is not starter else ""
                    yield f"it is {which}the turn of {app.application_id} in {queue.path}"


def _promised_and_running(partition: Partition) -> tuple[dict[Queue, Resources], dict[Queue, int]]:
    """What is promised to gangs in each queue and below it, and how many applications run there."""
    promised: dict[Queue, Resources] = {}
    running: dict[Queue, int] = {}
    for queue in reversed(partition.root.subtree()):  # children come before their parents
        promised[queue] = total = Resources()
        running[queue] = 0
        for app in queue.applications.values():
            running[queue] += bool(app.usage_ledgers)
            if app.gang is not None:
                total.add(app.gang.promised.items())
        for child in queue.children.values():
            running[queue] += running[child]
            total.add(promised[child].items())
    return promised, running


def _waiting(partition: Partition) -> Iterator[str]:
    """Every pending ask can be found from the root, or is set aside for a reason that still holds."""
    for queue in partition.root.subtree():
        entities: list[SchedulingEntity] = [*queue.children.values(), *queue.applications.values()]
        yield from _host(queue, queue.path, entities)
    for app in partition.applications.values():
        name = f"application {app.application_id}"
        yield from _host(app, name, list(app.groups.values()))
        for group in app.groups.values():
            needs = [group.pending_class] if app.is_schedulable(group) else []
            if group.pending != sum(ask.pending for ask in group):
                yield f"{name} has a group that counts {group.pending} pending"
            if list(group.needs) != needs or group.pending_class.request_class is not group.request_class:
                yield f"{name} has a group that does not wait for its own request class"


def _host(ancestor: ParentEntity, name: str, entities: list[SchedulingEntity]) -> Iterator[str]:
    lines = ancestor.pending_index
    needy = [entity for entity in entities if entity.needs]
    in_line = list(lines)
    first = lines.first()
    if first is None and not (needy or in_line or ancestor.needs or lines.blocked_by or lines.pending_classes()):
        return
    wanted = {pending_class for entity in needy for pending_class in entity.needs}
    if wanted != set(lines.pending_classes()):
        yield f"what is needed at {name} is not what its entities need"
    if {entity for _, entity in in_line} != set(needy):
        yield f"those who stand in line at {name} are not those who need something"
    own = {pending_class for pending_class, block in lines.blocked_by.items() if block.origin is ancestor}
    if ancestor.parent_entity is not None and ancestor.needs.keys() != (
        wanted - own if ancestor.propagates_demand else set()
    ):
        yield f"{name} does not ask above for what its entities need"
    for pending_class, block in lines.blocked_by.items():
        if pending_class not in wanted:
            yield f"{name} is closed for {pending_class.request_class.resources}, which nobody needs there"
        if block.origin is not ancestor and block.origin.pending_index.blocked_by.get(pending_class) is not block:
            yield f"{name} is closed for {pending_class.request_class.resources} for a reason that is gone"
        is_for_quota = block.origin is ancestor and block.reason is BlockReason.QUOTA
        if (
            isinstance(ancestor, Queue)
            and is_for_quota
            and blocked(ancestor, pending_class.items, pending_class.quota_key) is None
        ):
            yield f"{name} is closed for {pending_class.request_class.resources} though its quota has room"
    if (wanted <= lines.blocked_by.keys()) != (first is None):
        yield f"somebody at {name} could be next and is not found, or the other way round"
    keys: list[tuple[Key, SchedulingEntity]] = []
    for key, entity in in_line:
        if isinstance(entity, (ParentEntity, AskGroup)) and key != entity.key():
            yield f"the place of somebody in line at {name} is stale"
        if not entity.needs.keys() <= lines.blocked_by.keys():
            keys.append((key, entity))
    if keys and first is not min(keys, key=lambda one: one[0])[1]:
        yield f"the first in line at {name} is not the one with the smallest key"


def _shapes(partition: Partition) -> Iterator[str]:
    uses: dict[PendingClass, int] = {}
    waiting: dict[tuple[PendingClass, Queue], int] = {}
    for app in partition.applications.values():
        for group in app.groups.values():
            if group.needs and app.propagates_demand:
                place = group.pending_class, app.queue
                waiting[place] = waiting.get(place, 0) + group.pending
            uses[group.pending_class] = uses.get(group.pending_class, 0) + 1
    if uses != {pending_class: pending_class.uses for pending_class in partition.request_classes.known()}:
        yield "the known request classes are not those that applications have asks of"
    if waiting != {
        (pending_class, leaf): n
        for pending_class in partition.request_classes.known()
        for leaf, n in pending_class.pending_by_leaf.items()
    }:
        yield "what is counted to wait by request class and leaf is not what is looked at there"
    unschedulable = list(partition.request_classes.unschedulable())
    if {pending_class for pending_class in uses if pending_class.unschedulable} != set(unschedulable):
        yield "the unschedulable request classes are not those marked unschedulable"
    for pending_class in unschedulable:
        if pending_class.request_class.refused:
            continue
        for node in partition.nodes.values() if pending_class.request_class.required_node else partition.node_order:
            if partition.refusal(pending_class.request_class, node) is None:
                what = f"request class {pending_class.request_class.resources}"
                yield f"{what} is unschedulable though node {node.node_id} has room"


def _users(partition: Partition) -> Iterator[str]:
    by_user: dict[tuple[str, str], Resources] = {}
    by_group: dict[tuple[str, str], Resources] = {}
    for app in partition.applications.values():
        for queue in app.queue.path_to_root:
            for allocation in app.allocations.values():
                by_user.setdefault((app.spec.user, queue.path), Resources()).add(allocation.request_class.items)
                if app.group:
                    by_group.setdefault((app.group, queue.path), Resources()).add(allocation.request_class.items)
    yield from _ledgers(partition, "user", partition.usages.users, by_user)
    yield from _ledgers(partition, "group", partition.usages.groups, by_group)


def _ledgers(
    partition: Partition, kind: str, ledgers: Ledgers, counted: dict[tuple[str, str], Resources]
) -> Iterator[str]:
    for name, by_path in ledgers.items():
        for path, ledger in by_path.items():
            what = f"usage of {kind} {name} in {path}"
            yield from _differ(what, ledger.usage, counted.pop((name, path), Resources()))
            for application_id in ledger.applications:
                if application_id not in partition.applications:
                    yield f"{kind} {name} runs application {application_id} in {path}, which is not there"
    for (name, path), usage in counted.items():
        if not usage.is_zero():
            yield f"usage of {kind} {name} in {path} is not kept, counted {usage.nonzero()}"
