"""A gang: what the task groups of an application asked for and hold, and which swaps are possible (gang design;
SEMANTICS G).

Placeholders hold room for the members of a task group until the real asks come. The counts are kept here, so finding a
swap needs no walk over the allocations or asks of the application.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import Expression, PlacementConstraint
from schedulerd.core.language.facts.fact import ReleaseCause
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.language.task_groups import TOGETHER_MAX, DeclaredGroup
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.pending_index import Key
from schedulerd.core.state.pending.request_class import RequestClass

if TYPE_CHECKING:
    from schedulerd.core.state.model.node import Node

UNBEGUN = frozenset({GangState.FORMING, GangState.GATHERING})
"""States of a gang that declares its task groups, and that has not been complete yet."""


class TaskGroup:
    """The interchangeable members of a gang, with counts of their placeholders."""

    __slots__ = (
        "_idle",
        "awaiting_placeholder",
        "gave_back",
        "members",
        "name",
        "placed",
        "placeholder_resources",
        "preempted",
        "replaced",
        "timed_out",
        "unused",
        "waiting",
        "wanted",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.placeholder_resources = Resources()
        """Amounts of its first placeholder; the others have the same as a rule."""
        self.wanted = 0
        """Placeholders asked for and not withdrawn."""
        self.placed = 0
        """Placeholders allocated so far, including those that are gone."""
        self.awaiting_placeholder = 0
        """Placeholders being released for a real ask that awaits their room."""
        self.members = 0
        """Real allocations of it; only of a gang that declares it."""
        self.replaced = 0
        self.timed_out = 0
        """Placeholders released, or withdrawn while pending, because the time of the gang was over."""
        self.unused = 0
        """Placeholders released because they were too small for their ask, or no longer needed
        (`ReleaseCause.UNUSED`)."""
        self.gave_back = 0
        """Placeholders released for an earlier gang, to be allocated again."""
        self.preempted = 0
        """Placeholders preempted for entitled asks."""
        self.waiting: dict[AskGroup, None] = {}
        """The groups of its pending real asks."""
        self._idle: dict[Items, dict[Allocation, None]] = {}
        """Idle placeholders by size, oldest first; no empty sizes."""

    @property
    def idle(self) -> int:
        """Number of idle placeholders."""
        return sum(map(len, self._idle.values()))

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    def count_release(self, cause: ReleaseCause) -> None:
        """Counts a release request for a placeholder."""
        match cause:
            case ReleaseCause.REPLACED:
                pass  # counted later, when its ask has the room
            case ReleaseCause.TIMED_OUT:
                self.timed_out += 1
            case ReleaseCause.TOO_SMALL | ReleaseCause.UNUSED:
                self.unused += 1
            case ReleaseCause.GAVE_WAY:
                self.gave_back += 1
            case ReleaseCause.PREEMPTED:
                self.preempted += 1

    def count_timed_out(self, count: int) -> None:
        """`count` pending placeholders were withdrawn because their time was over. They still count as wanted."""
        self.wanted += count
        self.timed_out += count

    def add_idle(self, placeholder: Allocation) -> None:
        self._idle.setdefault(placeholder.request_class.items, {})[placeholder] = None

    def is_idle(self, placeholder: Allocation) -> bool:
        return placeholder in self._idle.get(placeholder.request_class.items, {})

    def drop_idle(self, placeholder: Allocation) -> None:
        """The placeholder is being released or is gone; it need not be idle."""
        of_size = self._idle.get(placeholder.request_class.items)
        if of_size is None or placeholder not in of_size:
            return
        del of_size[placeholder]
        if not of_size:
            del self._idle[placeholder.request_class.items]

    def move_last(self, placeholder: Allocation) -> None:
        """Moves an idle placeholder behind the others of its size, because an ask is being tried for it."""
        of_size = self._idle[placeholder.request_class.items]
        del of_size[placeholder]
        of_size[placeholder] = None

    def fitting(self, request_class: RequestClass) -> Allocation | None:
        """The first placeholder of `all_fitting`, or None."""
        return next(self.all_fitting(request_class), None)

    def all_fitting(self, request_class: RequestClass) -> Iterator[Allocation]:
        """The idle placeholders with room for the request class: those of exactly its size first, then size by size,
        oldest first.

        Own size first, because another size would leave a placeholder of its own size unused, and take room that is
        meant for a larger ask.
        """
        own = self._idle.get(request_class.items, {})
        yield from own
        for placeholders in self._idle.values():
            if (
                placeholders is not own
                and next(iter(placeholders)).request_class.resources.lacks(request_class.items) is None
            ):
                yield from placeholders

    def oldest(self, count: int) -> list[Allocation]:
        """Up to `count` idle placeholders."""
        return list(islice(self.all_idle(), count))

    def all_idle(self) -> Iterator[Allocation]:
        return chain.from_iterable(self._idle.values())

    def dismantle(self) -> Iterator[None]:
        for placeholders in self._idle.values():
            yield from clear_stepwise(placeholders)
        yield from clear_stepwise(self._idle, self.waiting)


class GangPlan(NamedTuple):
    """Nodes for all slots of a gang that have no room (`nodes.gang_plan`)."""

    nodes: list[tuple[AskGroup, list[Node]]]
    """The nodes for the pending slots of each group."""
    domains: dict[str, tuple[Expression, ...]]
    """By task group: the domain that a required level was decided to be."""

    @property
    def size(self) -> int:
        """How many slots get a node."""
        return sum(len(nodes) for _, nodes in self.nodes)


class Gang:
    """The task groups of one application."""

    __slots__ = (
        "_swaps",
        "_tickets",
        "above_min",
        "all_or_none",
        "asked",
        "below_min_alarm",
        "bound_ns",
        "completed_ns",
        "completion_untold",
        "deadlock_alarm",
        "declared",
        "demands",
        "domains",
        "each_has_slot",
        "first_asked_ns",
        "fits",
        "found_room",
        "gave_back",
        "has_started",
        "held",
        "idle_alarm",
        "idle_since_ns",
        "is_check_postponed",
        "pending",
        "plan",
        "promised",
        "requeue_alarm",
        "requeued",
        "short_since_ns",
        "slot_groups",
        "state",
        "task_groups",
        "was_complete",
    )

    def __init__(self) -> None:
        self.task_groups: dict[str, TaskGroup] = {}
        self.declared: dict[str, DeclaredGroup] = {}
        """The task groups that the application declares; empty if its RM asks for placeholders."""
        self.domains: dict[str, PlacementConstraint] = {}
        """By task group with a required topology: the domain that it is bound to (`actions.gang_domains`)."""
        self.each_has_slot = False
        """Whether each member has a slot of its own, with its tags; else all members of a request class share one
        ask."""
        self.above_min: dict[Allocation, None] | None = None
        """Members above the min of their task group (`application.is_above_min`); None: not known."""
        self.state: GangState | None = None
        """None if its RM asks for placeholders."""
        self.has_started = False
        """Whether a real ask of the application was allocated, other than by its RM alone, or ran before the gang was
        declared: from then on slots that are lost are not asked for again."""
        self.gave_back = 0
        """How often it gave back what it held for another gang, since it was complete or requeued."""
        self.requeue_alarm: Alarm | None = None
        """Rings when it may gather again, after its time was over."""
        self.short_since_ns: int | None = None
        """Since when it is short, while its application is active."""
        self.below_min_alarm: Alarm | None = None
        """Rings when it has been short for `gang.below-min.timeout`."""
        self.requeued = 0
        """How often its time was over."""
        self.plan: GangPlan | None = None
        """Nodes for all its slots, found in the step before."""
        self.bound_ns = 0
        """When it was bound to a domain, to hold its slots one by one there."""
        self.all_or_none: tuple[tuple[RequestClass, int], ...] = ()
        """Its slots, while room is held for all of them in one step or for none."""
        self.found_room = 0
        """How many of these had a node when they were last tried, and one had none."""
        self.slot_groups: dict[AskGroup, None] = {}
        """The groups of its slots that have no room, in the order in which they became pending."""
        self.pending = 0
        """Placeholders asked for and not allocated. While there are any, real asks wait (SEMANTICS G3)."""
        self.demands = 0
        """How often `pending` changed."""
        self.fits: tuple[tuple[int, int, int, int], bool] | None = None
        """Cached result of `gangs.rules.own_room`: the state of nodes, application and gang that it is for, and whether
        all pending placeholders would fit on the nodes if no other application used them."""
        self.asked = Resources()
        """What the pending placeholders will use."""
        self.held = Resources()
        """What the allocations of its task groups use, placeholders and real ones."""
        self.promised = Resources()
        """What is promised to the gang: the part of `placeholderAsk` still to be allocated (SEMANTICS G2). Empty before
        the gang passed the gate."""
        self.first_asked_ns: int | None = None
        """When its first placeholder was asked for; None (not known) if a placeholder was recovered."""
        self.completed_ns: int | None = None
        """When `GangCompleted` was said; None if it was not."""
        self.completion_untold = True
        """Whether `GangCompleted` may still be said."""
        self.was_complete = False
        """Whether it ever had no pending placeholders and the whole of its `placeholderAsk` (SEMANTICS I8)."""
        self.idle_alarm: Alarm | None = None
        """Rings when its placeholders may have been idle for too long; set while the gang is complete and has idle
        ones."""
        self.idle_since_ns: int | None = None
        """When it became complete, or when an ask last took one of its placeholders; None while it is incomplete or has
        no idle ones."""
        self._swaps: list[tuple[Key, int, TaskGroup, AskGroup]] = []
        """Heap of the groups of real asks by the position of their first ask; outdated entries are dropped at the
        top."""
        self._tickets = 0
        """Counter that makes all heap entries different."""
        self.is_check_postponed = False
        """Whether its deadlock check was postponed to a time of its own, because other gangs were to be checked at the
        same time."""
        self.deadlock_alarm: Alarm | None = None
        """Rings for the next deadlock check; set again while the gang has its time."""

    @property
    def waits(self) -> bool:
        """Whether its real asks wait: for placeholders, or for further members."""
        return self.pending > 0 or self.state is GangState.FORMING

    @property
    def is_large(self) -> bool:
        """Whether it needs too many members to allocate them in one step."""
        return sum(one.min for one in self.declared.values()) > TOGETHER_MAX

    def missing(self, group: DeclaredGroup) -> int:
        """How many members the task group needs beside those that are there."""
        return max(0, group.min - self.task_group(group.name).members)

    def lacking(self, group: DeclaredGroup) -> int:
        """How many members or slots the task group needs beside those that it has; negative if it has too many."""
        of = self.task_group(group.name)
        return group.min - of.members - of.awaiting_placeholder - of.idle

    @property
    def may_change_domain(self) -> bool:
        """Whether a domain was chosen for a task group that has no member there."""
        return any(not self.task_group(name).members for name in self.domains)

    def is_full(self, name: str) -> bool:
        """Whether a task group has as many members as it may have, with those that are about to take a slot."""
        group = self.declared.get(name)
        if group is None or group.max is None:
            return False
        task_group = self.task_group(name)
        return task_group.members + task_group.awaiting_placeholder >= group.max

    def put_first(self, slots: AskGroup) -> None:
        """One of these slots has no node: they are the ones that people are told of."""
        if slots in self.slot_groups and next(iter(self.slot_groups)) is not slots:
            self.slot_groups = {slots: None, **self.slot_groups}

    def still_to_come(self, whole: Resources) -> Resources:
        """What its task groups still lack of the whole `placeholderAsk`."""
        return Resources({name: amount - self.held[name] for name, amount in whole.items() if amount > self.held[name]})

    @property
    def has_idle(self) -> bool:
        return any(group.has_idle for group in self.task_groups.values())

    def idle_placeholders(self) -> Iterator[Allocation]:
        """Its placeholders that are not being replaced or released."""
        return chain.from_iterable(group.all_idle() for group in self.task_groups.values())

    def task_group(self, name: str) -> TaskGroup:
        """The task group of this name; created if it is new."""
        known = self.task_groups.get(name)
        if known is None:
            known = self.task_groups[name] = TaskGroup(name)
        return known

    def next_swap(self) -> tuple[TaskGroup, AskGroup] | None:
        """The next possible swap: the task group, and the group of the first real ask by priority and age; None if
        there is none."""
        if self.pending or self.state is GangState.FORMING:  # `waits`, for each ask that comes or goes
            return None
        swaps = self._swaps
        while swaps:
            key, _, task_group, group = swaps[0]
            waits = task_group.has_idle and group in task_group.waiting and group.has_ready and not group.denied
            if waits and not group.request_class.refused and group.key() == key:
                return task_group, group
            heappop(swaps)
        return None

    def enqueue(self, group: AskGroup) -> None:
        """The group of real asks has pending allocations: it can be swapped with idle placeholders from now on."""
        self.task_group(group.task_group).waiting[group] = None
        self.requeue(group)

    def requeue(self, group: AskGroup) -> None:
        """Enters the group, if it is ready and there are idle placeholders for it, into the heap of possible swaps: its
        position changed, or it may be tried again."""
        task_group = self.task_groups.get(group.task_group)
        if task_group is not None and task_group.has_idle and group in task_group.waiting and group.has_ready:
            self._tickets += 1
            heappush(self._swaps, (group.key(), self._tickets, task_group, group))

    def dequeue(self, group: AskGroup) -> None:
        """The group of real asks has nothing pending any more."""
        del self.task_groups[group.task_group].waiting[group]

    def dismantle(self) -> Iterator[None]:
        self.deadlock_alarm = self.plan = None
        for task_group in self.task_groups.values():
            yield from task_group.dismantle()
        yield from clear_stepwise(self._swaps, self.task_groups, self.slot_groups)

    def add_idle(self, task_group: TaskGroup, placeholder: Allocation) -> None:
        """A placeholder was allocated. If it is the first idle one of its task group, swaps become possible."""
        had_idle = task_group.has_idle
        task_group.add_idle(placeholder)
        if not had_idle:
            for group in task_group.waiting:
                self.requeue(group)
