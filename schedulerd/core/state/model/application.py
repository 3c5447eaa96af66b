"""An application: its asks and allocations, its state, and its position in its leaf queue."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import NewApplication
from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState, GangState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.footprint import Footprint
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.parent_entity import ParentEntity
from schedulerd.core.state.pending.pending_index import Key
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.pending.sort_keys import APPLICATION_ORDERS, application_key, short_gang_key
from schedulerd.core.state.quotas.limit_subject import LimitSubject, group_of, limit_subject_of
from schedulerd.core.state.quotas.usage import UsageLedger

if TYPE_CHECKING:
    from schedulerd.core.state.model.queue import Queue
    from schedulerd.core.state.model.reservation import Reservation

SCHEDULABLE_STATES = frozenset({ApplicationState.ACCEPTED, ApplicationState.STARTING, ApplicationState.RUNNING})
"""States in which asks of an application are allocated."""

DISRUPTION_TAG, DISRUPTED_AS_ONE = "schedulerd.io/disruption", "gang"
"""Tag of an application, and its value: its allocations are preempted all together or not at all."""

STATE_LOG_MAX = 100
"""States remembered of one application. The oldest are dropped first, because a service may start and complete work for
years."""


Age: TypeAlias = tuple[int, str]
"""Since when an application is there, in the time of the steps, and its id. The smaller of two is the older one."""


def is_above_min(allocation: Allocation) -> bool:
    """Whether it is a member of a gang that declares its task groups, and one of the newest of its task group, which
    has so many more than its min. Those that are being released do not count."""
    application, gang = allocation.application, allocation.application.gang
    if gang is None or allocation.spec.task_group not in gang.declared or allocation.placeholder:
        return False
    if gang.above_min is None:
        gang.above_min = above_min(application, gang)
    return allocation in gang.above_min


def above_min(application: Application, gang: Gang) -> dict[Allocation, None]:
    """The newest members of each task group beyond its min, without those that are being released."""
    members = [one for one in application.allocations.values() if not one.placeholder and one.releasing is None]
    counts = Counter(one.spec.task_group for one in members)
    found: dict[Allocation, None] = {}
    for one in reversed(members):
        group = gang.declared.get(one.spec.task_group)
        if group is not None and counts[group.name] > group.min:
            counts[group.name] -= 1
            found[one] = None
    return found


class Application(ParentEntity):
    __slots__ = (
        "age",
        "alarm",
        "allocated",
        "allocations",
        "application_id",
        "asks",
        "awaiting_placeholder",
        "awaits_start",
        "blocked_since_ns",
        "footprint",
        "gang",
        "gang_alarm",
        "gang_total",
        "group",
        "groups",
        "has_run",
        "lets_next_start",
        "limit_subject",
        "limited_starts",
        "partition_name",
        "peak",
        "pending",
        "placeholder_allocated",
        "placeholders",
        "predicate_reserved",
        "priority_max",
        "queue",
        "reservations",
        "rm_id",
        "run_alarm",
        "serial",
        "spec",
        "start_alarm",
        "starts_after",
        "state",
        "state_log",
        "submitted_at_ns",
        "usage_ledgers",
        "user_usages",
    )

    def __init__(
        self, spec: NewApplication, rm_id: str, partition_name: str, queue: Queue, serial: int, now_ns: int
    ) -> None:
        super().__init__(ancestor=queue)
        self.application_id = spec.application_id
        self.spec = spec
        self.rm_id = rm_id
        self.partition_name = partition_name
        """Short name, without the resource manager. `StepContext.partition_of` returns the partition."""
        self.queue = queue
        """Its leaf queue; kept after the application has left it, to show where it was."""
        self.serial = serial
        """Identifies it in the partition, when others had its id before."""
        self.submitted_at_ns = now_ns
        since_ns = now_ns if spec.asked_at_ns is None else min(spec.asked_at_ns, now_ns)
        self.age: Age = since_ns, spec.application_id
        """Its place in all orders: never in the future, whatever the clocks of its sender and this daemon are like."""
        self.state = ApplicationState.NEW
        self.state_log: deque[tuple[int, ApplicationState, str]] = deque(maxlen=STATE_LOG_MAX)
        self.alarm: Alarm | None = None
        """The deadline of its present state, if that state has one."""
        self.gang_alarm: Alarm | None = None
        """The deadline of its gang, while the gang has its time."""
        self.run_alarm: Alarm | None = None
        """Rings at its execution timeout, if it has one (SEMANTICS E3); from Starting until the application ends."""
        self.reservations: dict[Reservation, None] = {}
        """Reservations of its asks."""
        self.footprint: Footprint | None = None
        """What it uses on each node; None until first needed."""
        self.asks: dict[str, Ask] = {}
        self.groups: dict[tuple[RequestClass, str, bool], AskGroup] = {}
        """Its pending asks in groups of interchangeable ones (`Ask.group_key`); no empty groups."""
        self.gang: Gang | None = None
        """Set from its first placeholder on, asked for or recovered."""
        self.gang_total = spec.placeholder_ask
        """What its gang holds when it is whole: its `placeholderAsk`, or the sum of its slots."""
        self.has_run = False
        """Whether a real allocation was ever made for it."""
        self.awaiting_placeholder = 0
        """How many allocations of its asks await a placeholder."""
        self.allocations: dict[str, Allocation] = {}
        self.allocated = Resources()
        """What its real allocations use."""
        self.placeholder_allocated = Resources()
        self.placeholders = 0
        """How many of its allocations are placeholders."""
        self.peak = Resources()
        """What `most_used` was when its allocations last became fewer: an allocation costs nothing here."""
        self.pending = Resources()
        self.predicate_reserved = Resources()
        """What open predicate checks hold for its asks; its sort key counts this as allocated."""
        self.usage_ledgers: list[UsageLedger] = []
        """The ledgers of its user and its group in its queue and above; empty before its first allocation."""
        self.user_usages: tuple[Resources, ...] = ()
        """`usage` of all of `usage_ledgers`."""
        self.group = group_of([one.limits for one in queue.path_to_root], spec.groups)
        """The group whose usage counts for it, '' if none. Determined at submission and kept."""
        self.limit_subject: LimitSubject | None = None
        """The account of the application; None if no limit on its path is for its user or group."""
        self.limited_starts = False
        """Whether the number of running applications is limited somewhere on its path."""
        self.awaits_start = False
        """True in a state-aware leaf while another application may start."""
        self.starts_after: Application | None = None
        """With `awaits_start`: the application that is Starting, or that has to start first; None if the others of its
        leaf have nothing to start."""
        self.lets_next_start = False
        """True in a state-aware leaf if it has been next for long, holds nothing, and is blocked."""
        self.blocked_since_ns: int | None = None
        """In a state-aware leaf: since when no ask of it could be allocated, while others wait for its start and it
        holds nothing; None if none waits for it, or no cycle has found out."""
        self.start_alarm: Alarm | None = None
        """Rings when it may have to let the next application of its state-aware leaf start."""
        self.priority_max: int | None = None
        """In a state-aware leaf, if an older application let it start: its higher priority counts as this one, so that
        the older one is tried first."""

    @property
    def is_disrupted_as_one(self) -> bool:
        """Whether its allocations are preempted all together or not at all (tag `schedulerd.io/disruption`)."""
        return bool(self.spec.tags) and self.spec.tags.get(DISRUPTION_TAG) == DISRUPTED_AS_ONE

    def disrupted_together(self) -> list[Allocation]:
        """Its allocations that are not being released."""
        return [one for one in self.allocations.values() if one.releasing is None]

    def most_used(self) -> Resources:
        """For each resource the most that its allocations used at a time, placeholders included."""
        used = self.allocated.plus(self.placeholder_allocated)
        return Resources({name: max(used[name], self.peak[name]) for name in {**self.peak, **used}})

    @property
    def is_gang(self) -> bool:
        """Whether it announces a gang, by its `placeholderAsk` or by the tag of its task groups. Then its execution
        timeout is the time of the gang (SEMANTICS E3)."""
        return not self.spec.placeholder_ask.is_zero() or self.declares_gang

    @property
    def declares_gang(self) -> bool:
        """Whether it declares task groups, so that all of its placeholders are slots, of which no RM knows."""
        return self.gang is not None and bool(self.gang.declared)

    @property
    def held_slots(self) -> int:
        """Slots for which room is held. They count as allocations, which no RM knows."""
        return self.placeholders if self.declares_gang else 0

    @property
    def pending_of_rm(self) -> int:
        """Allocations still to come that its RM asked for, those that await a placeholder included."""
        pending = sum(group.pending for group in self.groups.values()) + self.awaiting_placeholder
        return pending if self.gang is None or not self.gang.declared else pending - self.gang.pending

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def is_idle(self) -> bool:
        """Whether it has neither real allocations nor asks, nor a gang that is tried again later; placeholders are not
        activity (gang design, Definition)."""
        waits_for_another_try = self.gang is not None and self.gang.times.requeue_alarm is not None
        is_empty = not self.groups and not self.awaiting_placeholder
        return is_empty and not waits_for_another_try and len(self.allocations) == self.placeholders

    # pending --------------------------------------------------------------------------------------------------------

    @property
    def propagates_demand(self) -> bool:
        return self.state in SCHEDULABLE_STATES and not self.awaits_start

    def key(self) -> Key:
        """Its position in its leaf queue."""
        queue, priority = self.queue, self.priority
        if self.gang is not None and self.gang.state is GangState.SHORT:
            return short_gang_key(queue.properties, self.age)
        if self.priority_max is not None and priority is not None:
            priority = min(priority, self.priority_max)
        used = self.allocated.plus(self.predicate_reserved) if self.predicate_reserved else self.allocated
        return application_key(
            queue.properties,
            priority,
            used,
            queue.guaranteed,
            queue.nearest_max,
            queue.capacity.amounts,
            self.age,
        )

    def sort_position(self) -> tuple[object, ...]:
        """Its position in the partition at this moment: of two applications, the smaller position comes first."""
        return *(queue.key() for queue in reversed(self.queue.path_to_root[:-1])), self.key()

    def usage_changed(self) -> None:
        """Gives it its new place where that depends on what it uses."""
        if APPLICATION_ORDERS[self.queue.properties.application_order].share is not None:
            self.rekey()

    def update_limits(self) -> None:
        """Finds out on whose account it runs, and whether it needs a free place to start; its limits may be new."""
        self.awaits_start = False
        self.starts_after = None
        if self.queue.properties.application_order is not ApplicationOrder.STATE_AWARE:
            self.lets_next_start = False
            self.blocked_since_ns = self.priority_max = None
        limits = [one.limits for one in self.queue.path_to_root]
        self.limit_subject = limit_subject_of(limits, self.spec.user, self.group)
        self.update_limited_starts()

    def update_limited_starts(self) -> None:
        """Finds out whether it needs a free place to start."""
        queue = self.queue
        limits = (
            []
            if self.limit_subject is None
            else [one for q in queue.path_to_root for one, _, _ in self.limit_subject.limits_among(q.limits)]
        )
        self.limited_starts = any(one.max_applications for one in queue.path_to_root) or any(
            limit.max_applications for limit in limits
        )
