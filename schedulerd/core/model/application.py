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
from schedulerd.core.model.host import Host
from schedulerd.core.model.line import Key
from schedulerd.core.model.party import Party, group_of, party_of
from schedulerd.core.model.shape import Shape
from schedulerd.core.model.user_usage import UsageLedger
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


class Application(Host):
    __slots__ = (
        "alarm",
        "allocated",
        "allocations",
        "application_id",
        "asks",
        "footprint",
        "gang",
        "gang_alarm",
        "group",
        "groups",
        "has_run",
        "needs_place",
        "on_trial",
        "parked",
        "partition",
        "party",
        "pending",
        "placeholder_allocated",
        "placeholders",
        "queue",
        "reservations",
        "run_alarm",
        "serial",
        "spec",
        "state",
        "state_log",
        "submitted_at_ns",
        "usage_ledgers",
        "waits_its_turn",
    )

    def __init__(
        self, spec: NewApplication, partition: Partition, queue: Queue | None, serial: int, now_ns: int
    ) -> None:
        super().__init__(host=queue)
        self.application_id = spec.application_id
        self.spec = spec
        self.partition = partition
        self.queue = queue
        """Its leaf; kept after it has left the queue, so that one can still tell where it was. None if rejected."""
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
        self.groups: dict[tuple[Shape, str, bool], AskGroup] = {}
        """Its pending asks by what makes them interchangeable (`Ask.band`); no empty groups."""
        self.gang: Gang | None = None
        """From its first placeholder on, asked for or recovered."""
        self.has_run = False
        """Whether anything but placeholders was ever allocated to it."""
        self.parked = 0
        """How many allocations of its asks wait for a placeholder to go."""
        self.allocations: dict[str, Allocation] = {}
        self.allocated = Resources()
        """By real allocations."""
        self.placeholder_allocated = Resources()
        self.placeholders = 0
        """How many of its allocations only hold room for a task group."""
        self.pending = Resources()
        self.on_trial = Resources()
        """What its asks hold tentatively until there is a verdict: it counts in its order as if they were placed."""
        self.usage_ledgers: list[UsageLedger] = []
        """Its user's and its group's ledgers for its queue and all above, from its first allocation on."""
        self.group = group_of(queue, spec.groups) if queue is not None else ""
        """The group whose usage counts for it, '' if none; found once, whatever limits come later."""
        self.party: Party | None = None
        """On whose account it runs; None if no limits are for it."""
        self.needs_place = False
        """Whether the number of running applications is limited where it runs."""
        self.waits_its_turn = False
        """True in a state-aware leaf while another application is the one that may start."""

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def is_idle(self) -> bool:
        """Neither real allocations nor pending asks; placeholders are not activity (gang design, Definition)."""
        return not self.groups and not self.parked and len(self.allocations) == self.placeholders

    # waiting --------------------------------------------------------------------------------------------------------

    @property
    def passes_on(self) -> bool:
        return self.state in SCHEDULABLE_STATES and not self.waits_its_turn

    def key(self) -> Key:
        """Its place in its leaf."""
        assert self.queue is not None
        queue = self.queue
        used = self.allocated.plus(self.on_trial) if self.on_trial else self.allocated
        return application_key(queue.properties, self.priority, used, queue.guaranteed, self.serial)

    def place(self) -> tuple[object, ...]:
        """Where it stands in its partition: of any two at one moment, the smaller is placed first."""
        assert self.queue is not None
        return *(queue.key() for queue in reversed(self.queue.lineage[:-1])), self.key()

    def usage_changed(self) -> None:
        """Gives it its new place where that depends on what it uses."""
        if self.queue is not None and self.queue.properties.application_order is ApplicationOrder.FAIR:
            self.rekey()

    def line_up(self) -> None:
        """Lets all its groups wait again after `start_anew`."""
        self.account()
        for group in self.groups.values():
            group.forget_place()
            group.priority = None
            self._stand(group)
        self._claim_again()

    def wait_for(self, ask: Ask) -> None:
        """The ask has something pending: it waits with the others of its band."""
        assert self.queue is not None
        band = ask.band
        group = self.groups.get(band)
        if group is not None:
            group.add(ask)
            if not group.is_behind(ask):
                self.lines.rekey(group, group.key())
                self._show_priority(group)
                if not group.needs and self.may_stand(group):
                    self._offer(group)
            if self.gang is not None and group.task_group and not group.placeholder:
                self.gang.line_up(group)
        else:
            group = self.groups[band] = AskGroup(ask.shape, ask.task_group, placeholder=ask.placeholder)
            group.add(ask)
            self._stand(group)
            if self.gang is not None and group.task_group and not group.placeholder:
                self.gang.wait(group)
        if ask.pending:
            group.demand(self.queue, ask.pending)
        if group.shape.turned_down:
            self.partition.turned_down.add(self, ask)
        if group.kind.parked:
            self.partition.patience.expect(group.kind, ask.asked_at_ns)
        if ask.spec.allow_preempt_other:
            self.claim_later(ask)
        if self.gang is not None:
            self.look_for_swaps()

    def claim_later(self, ask: Ask) -> None:
        """When the ask is old enough, and still waits, others may have to end for it, if it allows that."""
        if ask.spec.allow_preempt_other and self.partition.spec.preemption_enabled and not ask.shape.required_node:
            self.partition.patience.attempts_due.hurry(self, self.claims_from_ns(ask))

    def claims_from_ns(self, ask: Ask) -> int:
        """From when on others may have to end for the ask."""
        assert self.queue is not None
        return max(ask.asked_at_ns + self.queue.properties.preemption_delay_ns, ask.claim_rests_until_ns)

    def _claim_again(self) -> None:
        """Its asks are looked at from now on: who was not when it was old enough may claim room now."""
        for group in self.groups.values():
            if group.claims:
                self.claim_later(next(ask for ask in group if ask.spec.allow_preempt_other))

    def stop_waiting_for(self, ask: Ask) -> None:
        """The ask has nothing pending any more, or waits with others from now on."""
        group = ask.group
        assert group is not None
        if ask.pending:
            assert self.queue is not None
            group.demand(self.queue, -ask.pending)
        if group.shape.turned_down:
            self.partition.turned_down.discard(ask)
        group.discard(ask)
        if group.stands and group.needs:
            key = group.key()
            if -key[0] != group.priority:
                self._show_priority(group)
            self.lines.rekey(group, key)
        else:
            self._show_priority(group)
        if group:
            if not group.stands or not group.needs:
                self._restand(group)
            if self.gang is not None and group.task_group and not group.placeholder:
                self.gang.line_up(group)
            return
        del self.groups[group.shape, group.task_group, group.placeholder]
        if not self.groups:
            self.partition.patience.forget_application(self)
        if group.needs:
            self.withdraw(group, group.kind)
            self._count(group)
        if group.kind is not group.shape:
            self.partition.shapes.disuse(group.kind)
        self.partition.shapes.disuse(group.shape)
        if self.gang is not None and group.task_group and not group.placeholder:
            del self.gang.task_group(group.task_group).waiting[group]
            self.partition.denied.pop(group, None)

    def review(self, ask: Ask) -> None:
        """What of the ask waits for a verdict changed: while all that is pending does, it does not stand in line."""
        group = ask.group
        if group is None or group.is_aside(ask) is (ask.untried <= 0):
            return
        if group.is_aside(ask):
            group.come_back(ask)
        else:
            group.step_aside(ask)
        self._show_priority(group)
        self._restand(group)
        if self.gang is not None and group.task_group and not group.placeholder:
            self.gang.line_up(group)
            self.look_for_swaps()
        assert self.queue is not None
        self.partition.touch(self.queue)

    def turn(self, ask: Ask, *, down: bool) -> None:
        """From now on the ask waits with those that were refused on every node with room, or with them no longer."""
        self.stop_waiting_for(ask)
        ask.shape = self.partition.shapes.turned(ask.shape, down=down)
        self.wait_for(ask)
        self.review(ask)
        assert self.queue is not None
        for one in self.queue.lineage:  # it may be of another priority than all others that wait
            one.rekey()

    def look_for_swaps(self) -> None:
        """Something may have come together: a real ask, a placeholder for it, and nothing they have to wait for."""
        if self in self.partition.swaps:
            return
        if self.gang is not None and self.passes_on and self.gang.next_swap() is not None:
            self.partition.swaps[self] = None

    def may_stand(self, group: AskGroup) -> bool:
        """Whether the group is looked at: somebody of it is to be placed next, and is let."""
        return group.stands and self.lets_stand(group)

    def lets_stand(self, group: AskGroup) -> bool:
        """Real asks wait while placeholders are to be placed (SEMANTICS G3); those wait while they are held back."""
        if group.placeholder:
            return self.held_back_by is None
        return self.gang is None or not self.gang.pending

    @property
    def held_back_by(self) -> Application | None:
        """The application of an earlier gang for which it has to wait with placeholders: later ones gave way for it."""
        first = self.partition.favoured
        return first if first is not None and first.serial < self.serial else None

    def restand(self, *, placeholders: bool) -> None:
        """Whether these groups are looked at may have changed."""
        self.partition.check_reservations(self)
        self._claim_again()
        for group in self.groups.values():
            if group.placeholder is placeholders and bool(group.needs) is not self.may_stand(group):
                self._show_priority(group)
                if group.needs:
                    self.withdraw(group, group.kind)
                else:
                    self.offer(group, group.key(), group.kind)
                    self.partition.patience.look_soon(group.kind)
                self._count(group)

    def _stand(self, group: AskGroup) -> None:
        group.kind = self._kind(group)
        self.partition.shapes.use(group.shape)
        if group.kind is not group.shape:
            self.partition.shapes.use(group.kind)
        self._show_priority(group)
        if self.may_stand(group):
            self.offer(group, group.key(), group.kind)
            self._count(group)

    def _restand(self, group: AskGroup) -> None:
        """Whoever is the first of the group to be placed may have changed, or whether anybody is."""
        if group.stands:
            self.lines.rekey(group, group.key())
            if not group.needs and self.may_stand(group):
                self._offer(group)
        elif group.needs:
            self.withdraw(group, group.kind)
            self._count(group)

    def _offer(self, group: AskGroup) -> None:
        self.offer(group, group.key(), group.kind)
        self.partition.patience.look_soon(group.kind)
        self._count(group)

    def _count(self, group: AskGroup) -> None:
        """Whether what is pending in the group is looked at may have changed."""
        assert self.queue is not None
        group.show(self.queue, counted=bool(group.needs) and group.kind in self.needs)

    def _show_priority(self, group: AskGroup) -> None:
        before = self.priority
        self.show_priority(group, group.highest_priority() if self.may_stand(group) else None)
        if self.priority != before and self.priority is not None:
            self.rekey()

    def account(self) -> None:
        """Finds out on whose account it runs, and whether it needs a free place to start; its limits may be new."""
        queue = self.queue
        assert queue is not None
        self.waits_its_turn = False
        self.party = party_of(queue, self.spec.user, self.group)
        limits = [] if self.party is None else [one for q in queue.lineage for one, _, _ in self.party.limits_at(q)]
        self.needs_place = any(one.max_applications for one in queue.lineage) or any(
            limit.max_applications for limit in limits
        )

    def regroup(self) -> None:
        """It started, or stopped waiting to: its asks stand in line for another kind of shape from now on."""
        shapes = self.partition.shapes
        for group in self.groups.values():
            old, new, shape = group.kind, self._kind(group), group.shape
            if old is new:
                continue
            stands = bool(group.needs)
            if stands:
                self.withdraw(group, old)
                self._count(group)
            if old is not shape:
                shapes.disuse(old)
            group.kind = new
            if new is not shape:
                shapes.use(new)
            if stands:
                self.offer(group, group.key(), new)
                self._count(group)
                self.partition.patience.look_soon(new)

    def _kind(self, group: AskGroup) -> Shape:
        """The shape as it stands in line: on its account, and with the start it would mean, where that matters."""
        starts = self.needs_place and self.state is ApplicationState.ACCEPTED and not self.usage_ledgers
        gate: Items = ()
        if group.placeholder and self.gang_alarm is None:
            whole = self.spec.placeholder_ask
            gate = (self.gang.still_to_come(whole) if self.gang is not None else whole).canonical()
        return self.partition.shapes.gated(group.shape, self.party, starts=starts, gate=gate)

    def reconsider(self) -> None:
        """Its state changed: its asks are looked at from now on, or not any longer.

        While they are not, nothing that happens above reaches here, so closings repeated here are forgotten first.
        """
        if self.queue is None:
            return
        if self.needs_place:
            self.regroup()
        for shape in list(self.lines.closed):
            self.lines.reopen(shape)
        if self.gang is not None:
            self.partition.gangs_touched[self] = None
        self.look_for_swaps()
        self.partition.check_reservations(self)
        passes_on = self.passes_on
        if passes_on:
            self._claim_again()
        for shape in self.lines.shapes():
            if passes_on and shape not in self.needs:
                self.queue.offer(self, self.key(), shape)
                self.partition.patience.look_soon(shape)
            elif not passes_on and shape in self.needs:
                self.queue.withdraw(self, shape)
        for group in self.groups.values():
            self._count(group)
