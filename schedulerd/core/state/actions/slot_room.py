"""Room for all slots of a gang in one step, or for none, in the domains that its topology requires.

If every slot has a member that is asked for, the members are allocated at once, in the same step, and no slot holds
anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import islice
from typing import TypeAlias

from schedulerd.core.language.facts.fact import WithdrawCause
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.actions import (
    allocating,
    gang_domains,
    gang_time,
    releases,
    retries,
    single_slots,
)
from schedulerd.core.state.constraints.affinity import Affinity
from schedulerd.core.state.constraints.expressions import first_unmet
from schedulerd.core.state.ledger import commit, commit_together
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import GangPlan
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.nodes.gang_plan import Planner
from schedulerd.core.state.nodes.placing import PlannedPlacing, RoughPlacing
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.quotas.rules import highest_blocked
from schedulerd.core.state.step_context import StepContext

PLANNED_CLASSES_MAX = 16
"""Request classes of a gang that are planned before anything is allocated; with more, the plan would cost too much."""

PLANNED_AND_MADE_MAX = 256
"""Most allocations of a gang that are planned and made in one step; more are made in the next one, if the plan still
holds then."""

HELD_AT_ONCE = 50
"""Slots of a large gang that are held by one call; a cycle makes as many calls as it may make allocations."""


class Held(Enum):
    """What became of the slots of a gang that has room for all or for none."""

    ALL = auto()
    NONE = auto()
    UNFINISHED = auto()
    """There was too much to do for one step: it goes on in the next one."""


def are_held_together(application: Application) -> bool:
    """Whether room is held for all slots of the gang in one step or for none."""
    return application.gang is not None and bool(application.gang.gathering.all_or_none)


def hold_all(
    context: StepContext, partition: Partition, application: Application, ask_each: single_slots.AskEach
) -> Held:
    """Holds room for all slots that have none, or allocates their members; if one of them has no node then, does
    nothing. Of a gang that is too large for one step, some slots are held then, as planned, and the others by the next
    calls."""
    gang = application.gang
    assert gang is not None
    placing: PlannedPlacing | _MadePlacing = PlannedPlacing(partition)
    kept, gang.gathering.plan = gang.gathering.plan, None
    if kept is not None and gang.is_large:
        _hold_some(context, partition, application, kept, ask_each)
        return Held.ALL
    if kept is not None and _still_holds(partition, application, kept):
        _carry_out(context, partition, application, kept, placing, ask_each)
        return Held.ALL
    if gang.is_large:
        placing = RoughPlacing(partition)
    elif not _can_be_planned(single_slots.waiting(application)):
        ask_each(context, partition, application)
        placing = _MadePlacing(context, partition, application)
    waiting = single_slots.waiting(application)
    planner = Planner(partition, gang, waiting, placing)
    blocked_since_ns = application.blocked_since_ns
    is_counted = planner.is_ready()
    plan = planner.plan() if is_counted and not _is_blocked(application, waiting) else None
    if is_counted and plan is None:
        placing.back_to(0)
        application.blocked_since_ns = blocked_since_ns
        is_counted = planner.is_ready(if_empty=True)
    partition.retry_timers.budget.visits += planner.visits + placing.visits
    if not is_counted:
        return Held.UNFINISHED
    gang.gathering.found_room = 0
    if plan is not None and any(partition.wants_predicates(one.request_class) for one in waiting):
        placing.back_to(0)  # the RM is asked slot by slot
        application.blocked_since_ns = blocked_since_ns
        single_slots.begin(context, partition, application, plan.domains, ask_each)
        return Held.ALL
    if plan is not None:
        if gang.is_large:
            gang_domains.bind(partition, application, plan.domains)
        is_long = kept is None and type(placing) is PlannedPlacing and plan.size > PLANNED_AND_MADE_MAX
        if gang.is_large or is_long:
            gang.gathering.plan = plan
            return Held.UNFINISHED
        _carry_out(context, partition, application, plan, placing, ask_each)
        return Held.ALL
    gang.gathering.found_room = planner.found
    if planner.short is not None:
        gang.put_first(planner.short)
    index = partition.root.pending_index
    for one in single_slots.waiting(application):
        if one.pending_class in index and one.pending_class not in index.blocked_by:
            retries.mark_unschedulable(context, partition, one.pending_class, one.first())
    return Held.NONE


def _hold_some(
    context: StepContext, partition: Partition, application: Application, plan: GangPlan, ask_each: single_slots.AskEach
) -> None:
    """Holds the next slots of a plan; if a node does not take what was planned there any longer, the others are held
    one by one, wherever they have room."""
    gang, held = application.gang, 0
    assert gang is not None
    while plan.nodes and held < HELD_AT_ONCE:
        group, nodes = plan.nodes[-1]
        if not nodes:
            plan.nodes.pop()
            continue
        node = nodes.pop()
        is_there = application.groups.get((group.request_class, group.task_group, True)) is group
        if not is_there or partition.refusal(group.request_class, node) is not None:
            single_slots.begin(context, partition, application, {}, ask_each)
            return
        allocating.allocate(context, partition, application, group.first(), node)
        held += 1
    if any(nodes for _, nodes in plan.nodes):
        gang.gathering.plan = plan


def _still_holds(partition: Partition, application: Application, plan: GangPlan) -> bool:
    """Whether a plan of an earlier step can be carried out: it is for all slots that are asked for now, and each node
    still takes all that is planned there."""
    waiting = single_slots.waiting(application)
    if len(waiting) != len(plan.nodes) or _is_blocked(application, waiting):
        return False
    taken: dict[Node, Resources] = {}
    for group, nodes in plan.nodes:
        if group not in waiting or group.pending != len(nodes):
            return False
        constraint, domain = group.request_class.constraint, plan.domains.get(group.task_group, ())
        expressions = (*(constraint.node if constraint is not None else ()), *domain)
        for node, count in Counter(nodes).items():
            if not node.ordered or (expressions and first_unmet(expressions, node.attribute) is not None):
                return False
            if len(plan.nodes) > 1:
                taken.setdefault(node, Resources()).add(group.request_class.items, count)
            elif any(node.free[name] < amount * count for name, amount in group.request_class.items):
                return False
    return all(node.free.lacks(amounts.items()) is None for node, amounts in taken.items())


def _can_be_planned(waiting: Sequence[AskGroup]) -> bool:
    """Whether a node takes an ask whatever else is allocated meanwhile, as long as it has room."""
    request_classes = {one.request_class for one in waiting}
    return len(request_classes) <= PLANNED_CLASSES_MAX and not any(
        one.required_node or one.refused or (one.constraint is not None and one.constraint.affinity is not None)
        for one in request_classes
    )


def _is_blocked(application: Application, waiting: Sequence[AskGroup]) -> bool:
    """Whether quotas and limits do not let in all of them together. The gate was passed."""
    total = Resources()
    for group in waiting:
        total.add(group.request_class.items, group.pending)
    quota_key = waiting[0].pending_class.quota_key
    starts = quota_key.starts_application and not application.allocations
    quota_key = quota_key._replace(gang_gate=(), together=(), starts_application=starts)
    return highest_blocked(application.queue, total.canonical(), quota_key) is not None


class _MadePlacing:
    """Allocates slots as they are chosen, where what is allocated decides which nodes take the next one; nothing else
    sees them before they are told or taken back."""

    __slots__ = ("_application", "_context", "_opened", "_partition", "left", "made", "visits")

    def __init__(self, context: StepContext, partition: Partition, application: Application) -> None:
        self._context = context
        self._partition = partition
        self._application = application
        self.made: list[Allocation] = []
        self._opened = {0: _copy(partition.constraints.changed)}
        """By mark: `Constraints.changed` as it was then."""
        self.left: Mapping[Node, Resources] = {}
        self.visits = 0

    def take(
        self, group: AskGroup, count: int, within: Collection[Node] | None, *, is_tight: bool = False
    ) -> list[Node]:
        partition, application, request_class = self._partition, self._application, group.request_class
        nodes: list[Node] = []
        while len(nodes) < count:
            node = (
                partition.first_fit(request_class)
                if within is None
                else partition.first_fit_where(request_class, within.__contains__)
            )
            self.visits += 1
            if node is None:
                break
            ask = application.groups[request_class, group.task_group, True].first()
            self.made.append(commit.allocate(partition, application, ask, node, self._context.cluster.new_uuid()))
            nodes.append(node)
        return nodes

    def mark(self) -> int:
        self._opened[len(self.made)] = _copy(self._partition.constraints.changed)
        return len(self.made)

    def back_to(self, mark: int) -> None:
        if len(self.made) == mark:
            return
        while len(self.made) > mark:
            commit.take_back(self._partition, self.made.pop())
        # What its own slots had closed has not opened: the gang, which lacks room, would be tried for ever.
        self._partition.constraints.changed = _copy(self._opened[mark])


def _copy(changed: Mapping[Affinity | None, Mapping[str, None]]) -> dict[Affinity | None, dict[str, None]]:
    return {affinity: dict(groups) for affinity, groups in changed.items()}


def _carry_out(
    context: StepContext,
    partition: Partition,
    application: Application,
    plan: GangPlan,
    placing: PlannedPlacing | _MadePlacing,
    ask_each: single_slots.AskEach,
) -> None:
    if isinstance(placing, _MadePlacing):
        made = placing.made
    else:
        members = _members(partition, application, [group for group, _ in plan.nodes])
        if members is not None:
            _allocate_members(context, partition, application, plan, members)
            return
        ask_each(context, partition, application)
        new_uuid = context.cluster.new_uuid
        made = [
            commit.allocate(partition, application, group.first(), node, new_uuid())
            for group, nodes in plan.nodes
            for node in nodes
        ]
    for allocation in made:
        allocating.tell(context, partition, allocation)
    gang_domains.bind(partition, application, plan.domains)


_Members: TypeAlias = list[tuple[AskGroup, list[Ask]]]


def _members(partition: Partition, application: Application, waiting: Sequence[AskGroup]) -> _Members | None:
    """For each group of slots: the group of its members, and the members that come first. None if a slot has no
    member, or the RM is to be asked about one: then the slots are held."""
    gang = application.gang
    assert gang is not None
    if application.placeholders or any(one.resources is not None for one in gang.declared.values()):
        return None
    by_demand = {
        (one.task_group, _demand(one.request_class)): one
        for one in application.groups.values()
        if not one.placeholder and not one.request_class.refused and not partition.wants_predicates(one.request_class)
    }
    found: _Members = []
    for slots in waiting:
        group = by_demand.get((slots.task_group, _demand(slots.request_class)))
        if group is None or group.pending < slots.pending:
            return None
        members = list(islice(_each(group, is_whole=group.pending == slots.pending), slots.pending))
        if len(members) < slots.pending:
            return None
        found.append((group, members))
    return found


def _demand(request_class: RequestClass) -> tuple[object, ...]:
    """What slots and their members have in common."""
    return request_class.items, request_class.required_node, request_class.constraint


def _each(group: AskGroup, *, is_whole: bool) -> Iterator[Ask]:
    """Each pending allocation of a group of which all are wanted, or the first, by its ask."""
    for ask in group if is_whole else group.in_order():
        for _ in range(ask.unchecked):
            yield ask


def _allocate_members(
    context: StepContext, partition: Partition, application: Application, plan: GangPlan, members: _Members
) -> None:
    """The members are allocated on the nodes of their slots, which are not needed any longer."""
    made: list[Allocation] = []
    for (_, nodes), (group, asks) in zip(plan.nodes, members, strict=True):
        planned = list(zip(asks, nodes, strict=True))
        made += commit_together.allocate(partition, application, group, planned, context.cluster.new_uuid)
    if len(members) > 1:
        made.sort(key=lambda one: (-one.spec.priority, one.ask.asked_at_ns, one.ask.serial))
    message = f"{len(made)} members of the gang are allocated together"
    for ask in [one for one in application.asks.values() if one.spec.slot]:
        releases.withdraw_ask(context, partition, application, ask, WithdrawCause.UPDATED, None, message)
        del application.asks[ask.key]
    gang_domains.bind(partition, application, plan.domains)
    for allocation in made:
        allocating.tell(context, partition, allocation)
    gang_time.tell_if_complete(context, application, len(made))
