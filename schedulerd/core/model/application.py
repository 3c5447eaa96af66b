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
from schedulerd.core.model.host import Host
from schedulerd.core.model.line import Key
from schedulerd.core.model.party import Party, group_of, party_of
from schedulerd.core.model.shape import Shape
from schedulerd.core.model.user_usage import UsageLedger
from schedulerd.core.resources import Resources
from schedulerd.core.specs import ApplicationOrder

if TYPE_CHECKING:
    from schedulerd.core.model.partition import Partition
    from schedulerd.core.model.queue import Queue

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
        "gang_alarm",
        "group",
        "groups",
        "needs_place",
        "partition",
        "party",
        "pending",
        "placeholder_allocated",
        "placeholders",
        "queue",
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
        super().__init__()
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
        self.asks: dict[str, Ask] = {}
        self.groups: dict[Shape, AskGroup] = {}
        """Its pending asks by shape; no empty groups."""
        self.allocations: dict[str, Allocation] = {}
        self.allocated = Resources()
        """By real allocations."""
        self.placeholder_allocated = Resources()
        self.placeholders = 0
        """How many of its allocations only hold room for a task group."""
        self.pending = Resources()
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
        return not self.groups and len(self.allocations) == self.placeholders

    # waiting --------------------------------------------------------------------------------------------------------

    @property
    def host(self) -> Queue | None:
        return self.queue

    @property
    def passes_on(self) -> bool:
        return self.state in SCHEDULABLE_STATES and not self.waits_its_turn

    def key(self) -> Key:
        """Its place in its leaf."""
        assert self.queue is not None
        queue = self.queue
        return application_key(queue.properties, self.priority, self.allocated, queue.guaranteed, self.serial)

    def usage_changed(self) -> None:
        """Gives it its new place where that depends on what it uses."""
        if self.queue is not None and self.queue.properties.application_order is ApplicationOrder.FAIR:
            self.rekey()

    def line_up(self) -> None:
        """Lets all its groups wait again after `start_anew`."""
        self.account()
        for shape, group in self.groups.items():
            group.forget_place()
            group.priority = None
            group.kind = self._kind(shape)
            self.partition.shapes.use(shape)
            if group.kind is not shape:
                self.partition.shapes.use(group.kind)
            self._show_priority(group)
            self.offer(group, group.key(), group.kind)

    def wait_for(self, ask: Ask) -> None:
        """The ask has something pending: it waits with the others of its shape."""
        shape = ask.shape
        group = self.groups.get(shape)
        if group is not None:
            group.add(ask)
            self.lines.rekey(group, group.key())
            self._show_priority(group)
            return
        group = self.groups[shape] = AskGroup(self._kind(shape))
        group.add(ask)
        self.partition.shapes.use(shape)
        if group.kind is not shape:
            self.partition.shapes.use(group.kind)
        self._show_priority(group)
        self.offer(group, group.key(), group.kind)

    def stop_waiting_for(self, ask: Ask) -> None:
        """The ask has nothing pending any more."""
        shape = ask.shape
        group = self.groups[shape]
        group.discard(ask)
        self._show_priority(group)
        if group:
            self.lines.rekey(group, group.key())
            return
        del self.groups[shape]
        self.withdraw(group, group.kind)
        if group.kind is not shape:
            self.partition.shapes.disuse(group.kind)
        self.partition.shapes.disuse(shape)

    def _show_priority(self, group: AskGroup) -> None:
        before = self.priority
        self.show_priority(group, group.highest_priority())
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
        for shape, group in self.groups.items():
            old, new = group.kind, self._kind(shape)
            if old is new:
                continue
            self.withdraw(group, old)
            if old is not shape:
                shapes.disuse(old)
            group.kind = new
            if new is not shape:
                shapes.use(new)
            self.offer(group, group.key(), new)

    def _kind(self, shape: Shape) -> Shape:
        """The shape as it stands in line: on its account, and with the start it would mean, where that matters."""
        starts = self.needs_place and self.state is ApplicationState.ACCEPTED and not self.usage_ledgers
        return self.partition.shapes.gated(shape, self.party, starts=starts)

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
        passes_on = self.passes_on
        for shape in self.lines.shapes():
            if passes_on and shape not in self.needs:
                self.queue.offer(self, self.key(), shape)
            elif not passes_on and shape in self.needs:
                self.queue.withdraw(self, shape)
