"""An application: its asks and allocations, its state, and its place in its leaf queue."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from schedulerd.core.alarms import Alarm
from schedulerd.core.commands import NewApplication
from schedulerd.core.decide.shares import application_key
from schedulerd.core.lifecycles import TERMINAL_STATES, ApplicationState
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.footprint import Footprint
from schedulerd.core.model.gang import Gang
from schedulerd.core.model.parent_entity import ParentEntity
from schedulerd.core.model.pending_index import Key
from schedulerd.core.model.request_class import PendingClass, RequestClass
from schedulerd.core.quotas.limit_subject import LimitSubject, group_of, limit_subject_of
from schedulerd.core.quotas.quota_key import PLAIN, QuotaKey
from schedulerd.core.quotas.usage import UsageLedger
from schedulerd.core.resources import Items, Resources
from schedulerd.core.specs import ApplicationOrder

if TYPE_CHECKING:
    from schedulerd.core.model.partition import Partition
    from schedulerd.core.model.queue import Queue
    from schedulerd.core.model.reservation import Reservation

SCHEDULABLE_STATES = frozenset({ApplicationState.ACCEPTED, ApplicationState.STARTING, ApplicationState.RUNNING})
"""In these an application's asks are placed. One that is failing still takes asks, but gets nothing any more."""

STATE_LOG_MAX = 100
"""States remembered of one application; the oldest go first, as a service may start and complete work for years."""


class Application(ParentEntity):
    __slots__ = (
        "alarm",
        "allocated",
        "allocations",
        "application_id",
        "asks",
        "awaiting_placeholder",
        "awaits_start",
        "footprint",
        "gang",
        "gang_alarm",
        "group",
        "groups",
        "has_run",
        "limit_subject",
        "limited_starts",
        "partition",
        "pending",
        "placeholder_allocated",
        "placeholders",
        "predicate_reserved",
        "queue",
        "reservations",
        "run_alarm",
        "serial",
        "spec",
        "state",
        "state_log",
        "submitted_at_ns",
        "usage_ledgers",
    )

    def __init__(self, spec: NewApplication, partition: Partition, queue: Queue, serial: int, now_ns: int) -> None:
        super().__init__(ancestor=queue)
        self.application_id = spec.application_id
        self.spec = spec
        self.partition = partition
        self.queue = queue
        """Its leaf; kept after it has left the queue, so that one can still tell where it was."""
        self.serial = serial
        """Order of submission in the partition."""
        self.submitted_at_ns = now_ns
        self.state = ApplicationState.NEW
        self.state_log: deque[tuple[int, ApplicationState, str]] = deque(maxlen=STATE_LOG_MAX)
        self.alarm: Alarm | None = None
        """The deadline of its present state, if that state has one."""
        self.gang_alarm: Alarm | None = None
        """The deadline of its gang, while there are placeholders."""
        self.run_alarm: Alarm | None = None
        """When its execution time is over, if that is limited (SEMANTICS E3); from Starting until it ends."""
        self.reservations: dict[Reservation, None] = {}
        """Room that is kept for its asks."""
        self.footprint: Footprint | None = None
        """What it uses on each node; None until that was asked for."""
        self.asks: dict[str, Ask] = {}
        self.groups: dict[tuple[RequestClass, str, bool], AskGroup] = {}
        """Its pending asks by what makes them interchangeable (`Ask.band`); no empty groups."""
        self.gang: Gang | None = None
        """From its first placeholder on, asked for or recovered."""
        self.has_run = False
        """Whether anything but placeholders was ever allocated to it."""
        self.awaiting_placeholder = 0
        """How many allocations of its asks wait for a placeholder to go."""
        self.allocations: dict[str, Allocation] = {}
        self.allocated = Resources()
        """By real allocations."""
        self.placeholder_allocated = Resources()
        self.placeholders = 0
        """How many of its allocations only hold room for a task group."""
        self.pending = Resources()
        self.predicate_reserved = Resources()
        """What its asks hold tentatively until there is a result: it counts in its order as if they were placed."""
        self.usage_ledgers: list[UsageLedger] = []
        """Its user's and its group's ledgers for its queue and all above, from its first allocation on."""
        self.group = group_of(queue, spec.groups)
        """The group whose usage counts for it, '' if none; found once, whatever limits come later."""
        self.limit_subject: LimitSubject | None = None
        """On whose account it runs; None if no limits are for it."""
        self.limited_starts = False
        """Whether the number of running applications is limited where it runs."""
        self.awaits_start = False
        """True in a state-aware leaf while another application is the one that may start."""

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def is_idle(self) -> bool:
        """Neither real allocations nor pending asks; placeholders are not activity (gang design, Definition)."""
        return not self.groups and not self.awaiting_placeholder and len(self.allocations) == self.placeholders

    # waiting --------------------------------------------------------------------------------------------------------

    @property
    def propagates_demand(self) -> bool:
        return self.state in SCHEDULABLE_STATES and not self.awaits_start

    def key(self) -> Key:
        """Its place in its leaf."""
        queue = self.queue
        used = self.allocated.plus(self.predicate_reserved) if self.predicate_reserved else self.allocated
        return application_key(queue.properties, self.priority, used, queue.guaranteed, self.serial)

    def sort_position(self) -> tuple[object, ...]:
        """Where it stands in its partition: of any two at one moment, the smaller is placed first."""
        return *(queue.key() for queue in reversed(self.queue.path_to_root[:-1])), self.key()

    def usage_changed(self) -> None:
        """Gives it its new place where that depends on what it uses."""
        if self.queue.properties.application_order is ApplicationOrder.FAIR:
            self.rekey()

    def enqueue_all(self) -> None:
        """Lets all its groups wait again after `start_anew`."""
        self.update_limits()
        for group in self.groups.values():
            group.reset_position()
            group.priority = None
            group.pending_class = self._pending_class(group.request_class, placeholder=group.placeholder)
            self._enqueue(group)
        self._reschedule_preemption()

    def enqueue(self, ask: Ask) -> None:
        """The ask has something pending: it waits with the others of its band."""
        band = ask.band
        group = self.groups.get(band)
        if group is not None:
            group.add(ask)
            if not group.is_behind(ask):
                self.pending_index.rekey(group, group.key())
                self._show_priority(group)
                if not group.needs and self.is_schedulable(group):
                    self._offer(group)
            if self.gang is not None and group.task_group and not group.placeholder:
                self.gang.line_up(group)
        else:
            pending_class = self._pending_class(ask.request_class, placeholder=ask.placeholder)
            group = self.groups[band] = AskGroup(pending_class, ask.task_group, placeholder=ask.placeholder)
            group.add(ask)
            self._enqueue(group)
            if self.gang is not None and group.task_group and not group.placeholder:
                self.gang.wait(group)
        if ask.pending:
            group.demand(self.queue, ask.pending)
        if group.request_class.refused:
            self.partition.refused_asks.add(self, ask)
        if group.pending_class.unschedulable:
            self.partition.retry_timers.expect_reservation(group.pending_class, ask.asked_at_ns)
        if ask.spec.allow_preempt_other:
            self.schedule_preemption(ask)
        if self.gang is not None:
            self.note_possible_swap()

    def schedule_preemption(self, ask: Ask) -> None:
        """When the ask is old enough, and still waits, others may have to end for it, if it allows that."""
        if (
            ask.spec.allow_preempt_other
            and self.partition.spec.preemption_enabled
            and not ask.request_class.required_node
        ):
            self.partition.retry_timers.attempts_due.hurry(self, self.preemption_from_ns(ask))

    def preemption_from_ns(self, ask: Ask) -> int:
        """From when on others may have to end for the ask."""
        return max(ask.asked_at_ns + self.queue.properties.preemption_delay_ns, ask.preemption_retry_ns)

    def _reschedule_preemption(self) -> None:
        """Its asks are looked at from now on: who was not when it was old enough may claim room now."""
        for group in self.groups.values():
            if group.preempting_asks:
                self.schedule_preemption(next(ask for ask in group if ask.spec.allow_preempt_other))

    def dequeue(self, ask: Ask) -> None:
        """The ask has nothing pending any more, or waits with others from now on."""
        group = ask.group
        assert group is not None
        if ask.pending:
            group.demand(self.queue, -ask.pending)
        if group.request_class.refused:
            self.partition.refused_asks.discard(ask)
        group.discard(ask)
        if group.has_ready and group.needs:
            key = group.key()
            if -key[0] != group.priority:
                self._show_priority(group)
            self.pending_index.rekey(group, key)
        else:
            self._show_priority(group)
        if group:
            if not group.has_ready or not group.needs:
                self._requeue(group)
            if self.gang is not None and group.task_group and not group.placeholder:
                self.gang.line_up(group)
            return
        del self.groups[group.request_class, group.task_group, group.placeholder]
        if not self.groups:
            self.partition.retry_timers.forget_application(self)
        if group.needs:
            self.remove_demand(group, group.pending_class)
            self._count(group)
        self.partition.request_classes.disuse(group.pending_class)
        if self.gang is not None and group.task_group and not group.placeholder:
            del self.gang.task_group(group.task_group).waiting[group]
            self.partition.denied.pop(group, None)

    def review_predicate_wait(self, ask: Ask) -> None:
        """What of the ask waits for a result changed: while all that is pending does, it does not stand in line."""
        group = ask.group
        if group is None or group.awaits_predicate(ask) is (ask.untried <= 0):
            return
        if group.awaits_predicate(ask):
            group.end_predicate_wait(ask)
        else:
            group.await_predicate(ask)
        self._show_priority(group)
        self._requeue(group)
        if self.gang is not None and group.task_group and not group.placeholder:
            self.gang.line_up(group)
            self.note_possible_swap()
        self.partition.touch(self.queue)

    def reclassify(self, ask: Ask, *, down: bool) -> None:
        """From now on the ask waits with those that were refused on every node with room, or with them no longer."""
        self.dequeue(ask)
        ask.request_class = self.partition.request_classes.refused_variant(ask.request_class, down=down)
        self.enqueue(ask)
        self.review_predicate_wait(ask)
        for one in self.queue.path_to_root:  # it may be of another priority than all others that wait
            one.rekey()

    def note_possible_swap(self) -> None:
        """Something may have come together: a real ask, a placeholder for it, and nothing they have to wait for."""
        if self in self.partition.swaps:
            return
        if self.gang is not None and self.propagates_demand and self.gang.next_swap() is not None:
            self.partition.swaps[self] = None

    def is_schedulable(self, group: AskGroup) -> bool:
        """Whether the group is looked at: somebody of it is to be placed next, and is let."""
        return group.has_ready and self.admits_group(group)

    def admits_group(self, group: AskGroup) -> bool:
        """Real asks wait while placeholders are to be placed (SEMANTICS G3); those wait while they are held back."""
        if group.placeholder:
            return self.gang_ahead is None
        return self.gang is None or not self.gang.pending

    @property
    def gang_ahead(self) -> Application | None:
        """The application of an earlier gang for which it has to wait with placeholders: later ones gave way for it."""
        first = self.partition.priority_gang
        return first if first is not None and first.serial < self.serial else None

    def reevaluate(self, *, placeholders: bool) -> None:
        """Whether these groups are looked at may have changed."""
        self.partition.check_reservations(self)
        self._reschedule_preemption()
        for group in self.groups.values():
            if group.placeholder is placeholders and bool(group.needs) is not self.is_schedulable(group):
                self._show_priority(group)
                if group.needs:
                    self.remove_demand(group, group.pending_class)
                else:
                    self.add_demand(group, group.key(), group.pending_class)
                    self.partition.retry_timers.look_soon(group.pending_class)
                self._count(group)

    def _enqueue(self, group: AskGroup) -> None:
        self.partition.request_classes.use(group.pending_class)
        self._show_priority(group)
        if self.is_schedulable(group):
            self.add_demand(group, group.key(), group.pending_class)
            self._count(group)

    def _requeue(self, group: AskGroup) -> None:
        """Whoever is the first of the group to be placed may have changed, or whether anybody is."""
        if group.has_ready:
            self.pending_index.rekey(group, group.key())
            if not group.needs and self.is_schedulable(group):
                self._offer(group)
        elif group.needs:
            self.remove_demand(group, group.pending_class)
            self._count(group)

    def _offer(self, group: AskGroup) -> None:
        self.add_demand(group, group.key(), group.pending_class)
        self.partition.retry_timers.look_soon(group.pending_class)
        self._count(group)

    def _count(self, group: AskGroup) -> None:
        """Whether what is pending in the group is looked at may have changed."""
        group.show(self.queue, counted=bool(group.needs) and group.pending_class in self.needs)

    def _show_priority(self, group: AskGroup) -> None:
        before = self.priority
        self.show_priority(group, group.highest_priority() if self.is_schedulable(group) else None)
        if self.priority != before and self.priority is not None:
            self.rekey()

    def update_limits(self) -> None:
        """Finds out on whose account it runs, and whether it needs a free place to start; its limits may be new."""
        queue = self.queue
        self.awaits_start = False
        self.limit_subject = limit_subject_of(queue, self.spec.user, self.group)
        limits = (
            []
            if self.limit_subject is None
            else [one for q in queue.path_to_root for one, _, _ in self.limit_subject.limits_at(q)]
        )
        self.limited_starts = any(one.max_applications for one in queue.path_to_root) or any(
            limit.max_applications for limit in limits
        )

    def update_pending_classes(self) -> None:
        """It started, or stopped waiting to: its asks stand in line for another kind of request class from now on."""
        request_classes = self.partition.request_classes
        for group in self.groups.values():
            old = group.pending_class
            new = self._pending_class(group.request_class, placeholder=group.placeholder)
            if old is new:
                continue
            stands = bool(group.needs)
            if stands:
                self.remove_demand(group, old)
                self._count(group)
            request_classes.use(new)
            request_classes.disuse(old)
            group.pending_class = new
            if stands:
                self.add_demand(group, group.key(), new)
                self._count(group)
                self.partition.retry_timers.look_soon(new)

    def _pending_class(self, request_class: RequestClass, *, placeholder: bool) -> PendingClass:
        """The class on its account, and with the start that an allocation of it would mean, where that matters."""
        starts = self.limited_starts and self.state is ApplicationState.ACCEPTED and not self.usage_ledgers
        gate: Items = ()
        if placeholder and self.gang_alarm is None:
            whole = self.spec.placeholder_ask
            gate = (self.gang.still_to_come(whole) if self.gang is not None else whole).canonical()
        key = (
            PLAIN
            if self.limit_subject is None and not starts and not gate
            else QuotaKey(self.limit_subject, starts, gate)
        )
        return self.partition.request_classes.pending_class(request_class, key)

    def on_state_changed(self) -> None:
        """Its state changed: its asks are looked at from now on, or not any longer.

        While they are not, nothing that happens above reaches here, so blocks repeated here are forgotten first.
        """
        if self.limited_starts:
            self.update_pending_classes()
        for request_class in list(self.pending_index.blocked_by):
            self.pending_index.unblock(request_class)
        if self.gang is not None:
            self.partition.gangs_touched[self] = None
        self.note_possible_swap()
        self.partition.check_reservations(self)
        propagates_demand = self.propagates_demand
        if propagates_demand:
            self._reschedule_preemption()
        for request_class in self.pending_index.pending_classes():
            if propagates_demand and request_class not in self.needs:
                self.queue.add_demand(self, self.key(), request_class)
                self.partition.retry_timers.look_soon(request_class)
            elif not propagates_demand and request_class in self.needs:
                self.queue.remove_demand(self, request_class)
        for group in self.groups.values():
            self._count(group)
