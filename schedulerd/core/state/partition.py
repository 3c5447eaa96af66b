"""A partition: a set of nodes, the queue tree that shares them, and the applications in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.ask_tags import predicate_calls
from schedulerd.core.language.commands import NewAsk, TerminationType
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.language.specs import PartitionSpec, Timeouts
from schedulerd.core.state.constraints.constraint import SentConstraints
from schedulerd.core.state.constraints.constraints import Constraints
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.callbacks import Callbacks
from schedulerd.core.state.model.node import Node, Scoring
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.refused_asks import RefusedAsks
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.model.unclaimed import UnclaimedAllocations
from schedulerd.core.state.nodes.node_order import NodeOrder
from schedulerd.core.state.nodes.room_index import RoomIndexes
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.capacity_renewal import CapacityRenewal
from schedulerd.core.state.pending.parent_entity import BlockReason
from schedulerd.core.state.pending.request_class import PendingClass, RequestClass, RequestClasses
from schedulerd.core.state.pending.retry_timers import RetryTimers

REQUIRED_NODE_TAG = "yunikorn.apache.org/requiredNode"
"""SI constant: the tag with the required node of an ask, for example of a DaemonSet's pod."""

RESERVED_NODES_MIN = 8
RESERVED_NODES_PERCENT = 10
"""Aging reservations are allowed on this percentage of the nodes, but always on `RESERVED_NODES_MIN`, so the rest of a
large cluster stays in use."""

REMEMBERED_MAX = 10_000
"""Terminated applications that are remembered. Beyond that the oldest is forgotten early, so an RM that submits rubbish
in a loop cannot fill the memory."""


class Partition:
    __slots__ = (
        "_largest",
        "_sizes",
        "_total",
        "aging_reservations",
        "allocations",
        "allocations_used",
        "applications",
        "asks_tried",
        "bound_gangs",
        "callbacks",
        "capacity",
        "capacity_changes",
        "capacity_renewal",
        "changes",
        "cleanup_alarm",
        "constraints",
        "deadlock_checked_ns",
        "declared_gangs",
        "denied",
        "domains_looked_at",
        "freed_nodes",
        "freed_queues",
        "gangs_changed",
        "gangs_to_review",
        "gangs_touched",
        "growth_held",
        "growth_tried_at",
        "moves",
        "name",
        "next_deadlock_check_ns",
        "node_order",
        "nodes",
        "open_gangs",
        "pending_counts",
        "priority_gang",
        "refused_asks",
        "request_classes",
        "reservations",
        "reservations_to_check",
        "retry_timers",
        "rm_id",
        "rooms",
        "root",
        "scoring",
        "sent_constraints",
        "serial",
        "short_of_quota",
        "slots_leaving",
        "spec",
        "start_check_due",
        "start_checks",
        "swaps",
        "terminated",
        "terminated_by_id",
        "touched",
        "unclaimed",
        "usages",
        "used",
    )

    def __init__(self, rm_id: str, spec: PartitionSpec, timeouts: Timeouts, callbacks: Callbacks | None = None) -> None:
        self.rm_id = rm_id
        self.callbacks = callbacks or Callbacks()
        """Which calls the RM takes part in; shared by all of its partitions."""
        self.name = spec.name
        self.spec = spec
        self.root = Queue.from_spec(spec.root)
        self.usages = self.root.usages
        self.capacity = self.root.capacity
        self.pending_counts = self.root.pending_counts
        self.capacity_renewal = CapacityRenewal()
        self.cleanup_alarm: Alarm | None = None
        """When empty queues that are not needed may be removed."""
        self.scoring = Scoring(spec.node_order, spec.node_weights)
        self.nodes: dict[str, Node] = {}
        self._total: Resources | None = None
        self._largest: Resources | None = None
        self._sizes: dict[Items, int] | None = None
        self.capacity_changes = 0
        """How often a node was added, removed, opened or shut, or changed what it offers."""
        self.used = Resources()
        """Sum of the real use of the nodes for which it was reported."""
        self.allocations_used = Resources()
        """Sum of the real use of the allocations for which it was reported."""
        self.rooms = RoomIndexes()
        self.node_order = NodeOrder(self.rooms.notes)
        """The nodes that accept new allocations, best score first."""
        self.applications: dict[str, Application] = {}
        """All applications that have a queue."""
        self.allocations: dict[str, Allocation] = {}
        """All allocations of the partition, by UUID; without the unclaimed ones."""
        self.unclaimed = UnclaimedAllocations()
        self.open_gangs: dict[Application, None] = {}
        """Applications with pending placeholders."""
        self.declared_gangs: dict[Application, None] = {}
        """Applications that declare their task groups."""
        self.priority_gang: Application | None = None
        """The priority gang after a gang deadlock: later gangs wait until it is complete or its time is over."""
        self.gangs_changed = False
        """Whether nodes or gangs changed in this step, so that gangs may fit on the nodes now, or no longer."""
        self.gangs_touched: dict[Application, None] = {}
        """Applications whose gang may have become complete or incomplete in this step."""
        self.deadlock_checked_ns = 0
        """When a gang was last checked for a gang deadlock; one gang at a time, because a check may take long."""
        self.next_deadlock_check_ns = 0
        """From when on a further gang can be checked for a gang deadlock."""
        self.reservations: dict[Reservation, None] = {}
        """All reservations on the nodes of the partition."""
        self.aging_reservations = 0
        """How many of the reservations are aging reservations."""
        self.short_of_quota: dict[Reservation, None] = {}
        """Reservations whose room is there while a quota still blocks; checked again when less is used."""
        self.reservations_to_check: dict[Node, None] = {}
        """Nodes where something changed for a reservation: its ask may fit now, or the reservation may be void."""
        self.request_classes = RequestClasses()
        self.sent_constraints = SentConstraints()
        self.constraints = Constraints(self)
        self.retry_timers = RetryTimers(self.request_classes.due, timeouts.reservation_delay_ns)
        self.asks_tried = 0
        """How many next asks cycles tried; tests count work with it instead of time."""
        self.moves = 0
        """Changes whenever an allocation was made, asked to be released or freed, or a node changed. A finding made at
        an older value may no longer be true."""
        self.changes = 0
        """Number of node changes that make refusals of the RM invalid; `Node.changed` has the value of a node's last
        one."""
        self.refused_asks = RefusedAsks()
        self.denied: dict[AskGroup, Application] = {}
        """Groups of real asks that no node would take in exchange for their placeholder; tried again when nodes
        change."""
        self.terminated: dict[int, Application | RejectedApplication] = {}
        """Completed, failed and rejected applications by serial, oldest first; their ids may be in use again."""
        self.terminated_by_id: dict[str, Application | RejectedApplication] = {}
        """The latest terminated application of each id."""
        self.freed_nodes: dict[Node, None] = {}
        self.freed_queues: dict[Queue, None] = {}
        """Nodes and queues where room became free in this step that waiting asks may use."""
        self.touched: dict[Queue, None] = {}
        """Queues whose pending amounts changed in this step; they get new positions at its end."""
        self.start_checks: dict[Application, None] = {}
        """Applications whose start others of their state-aware leaf wait for: a cycle has to find out whether they are
        blocked."""
        self.start_check_due = False
        """Whether one was added to `start_checks` since the last cycle that tried all asks."""
        self.domains_looked_at = 0
        """`capacity_changes` when gangs were last let look in other domains."""
        self.bound_gangs: dict[Application, None] = {}
        """Applications with a gang that gathers in domains that were chosen before it held anything."""
        self.gangs_to_review: dict[Application, None] = {}
        """Applications that declare task groups, and of which members were asked for or withdrawn in this step."""
        self.growth_held: dict[AskGroup, tuple[Application, Application]] = {}
        """Groups of members above the min of their gang that wait for a gang that gathers and is ahead in their leaf:
        their application, and the one ahead. Tried again when anything moves."""
        self.growth_tried_at = 0
        """`moves` when they were last tried again."""
        self.slots_leaving: dict[Allocation, tuple[TerminationType, str]] = {}
        """Slots of gangs to be released at the end of this step, with how and why."""
        self.swaps: dict[Application, None] = {}
        """Applications that may have a possible swap; the cycle tries swaps before it allocates."""
        self.serial = 0

    @property
    def wire_name(self) -> str:
        """The name of the partition towards the RM (SEMANTICS C1)."""
        return f"[{self.rm_id}]{self.name}"

    def remember(self, application: Application | RejectedApplication) -> None:
        """The application has terminated: remember it for a while."""
        self.terminated[application.serial] = application
        self.terminated_by_id[application.application_id] = application

    def forget(self, application: Application | RejectedApplication) -> None:
        """Forgets a terminated application; others are ignored."""
        self.terminated.pop(application.serial, None)
        if self.terminated_by_id.get(application.application_id) is application:
            del self.terminated_by_id[application.application_id]

    def next_serial(self) -> int:
        """A number that orders what arrives in this partition."""
        self.serial += 1
        return self.serial

    def total(self) -> Resources:
        """Capacity of all nodes; computed again only after a change."""
        if self._total is None:
            self._total = Resources()
            for node in self.nodes.values():
                self._total.add(node.capacity.items())
        return self._total

    def largest(self) -> Resources:
        """For each resource the largest amount that an empty node has (capacity minus occupied); cached as `total`
        is."""
        largest = self._largest
        if largest is None:
            largest = self._largest = Resources()
            known = largest.get
            for node in self.nodes.values():
                occupied = node.occupied
                for name, amount in node.capacity.items():
                    if occupied:
                        amount -= occupied[name]
                    if amount > known(name, 0):
                        largest[name] = amount
        return largest

    def sizes(self) -> dict[Items, int]:
        """Number of schedulable nodes by what an empty one has (capacity minus occupied); cached as `total` is."""
        if self._sizes is None:
            self._sizes = {}
            for node in self.nodes.values():
                if node.ordered:
                    size = node.capacity.minus(node.occupied).canonical()
                    self._sizes[size] = self._sizes.get(size, 0) + 1
        return self._sizes

    def capacity_changed(self) -> None:
        """A node was added, removed, opened or shut, or offers something else than before."""
        self._total = self._largest = None
        self._sizes = None
        self.capacity_changes += 1
        self.gangs_changed = True

    @property
    def reservable_nodes(self) -> int:
        """How many more aging reservations are allowed."""
        return max(RESERVED_NODES_MIN, len(self.nodes) * RESERVED_NODES_PERCENT // 100) - self.aging_reservations

    @property
    def wants_reservation(self) -> bool:
        """Whether an ask may be able to get a reservation now."""
        timers = self.retry_timers
        return bool(timers.to_reserve_required) or (
            bool(timers.to_reserve or timers.overflow) and self.reservable_nodes > 0
        )

    def touch(self, queue: Queue) -> None:
        """Pending amounts changed in `queue` and above."""
        touched = self.touched
        for one in queue.path_to_root:
            touched[one] = None

    def note_members(self, application: Application) -> None:
        """Asks of the application were added, changed or withdrawn: at the end of the step its slots follow them."""
        if application.gang is not None and application.gang.declared:
            self.gangs_touched[application] = None
            self.gangs_to_review[application] = None

    def request_class_of(self, spec: NewAsk) -> RequestClass:
        """The request class of the ask in this partition."""
        required_node = spec.tags.get(REQUIRED_NODE_TAG, "") if spec.tags else ""
        constraint = None
        if spec.tags or spec.constraint is not None:
            constraint = self.sent_constraints.take(spec)
        calls = predicate_calls(spec.tags) if spec.tags else ""
        return self.request_classes.of(spec.resources, required_node, constraint, predicate_calls=calls)

    def wants_predicates(self, request_class: RequestClass) -> bool:
        """Whether the resource manager is asked before an ask of this request class is placed, or room is reserved for
        it."""
        return self.callbacks.predicates and not request_class.skips_predicates

    def wants_preemption_predicates(self, request_class: RequestClass) -> bool:
        """Whether the resource manager is asked before allocations are preempted for an ask of this request class."""
        return self.callbacks.preemption_predicates and not request_class.skips_preemption_predicates

    def refusal(self, request_class: RequestClass, node: Node) -> str | None:
        """Why no ask of this request class may be allocated on the node now, as a phrase; None if one may."""
        state = self._state_refusal(request_class, node)
        if state is not None:
            return state
        if (
            request_class.constraint is not None
            and (reason := self.constraints.refusal(request_class, node)) is not None
        ):
            return reason
        room = (
            node.available.minus(node.entitled_reserved) if request_class.required_node and node.reserved else node.free
        )
        name = room.lacks(request_class.items)
        if name is not None:
            return f"not enough {name}" if node.available.lacks(request_class.items) is not None else "reserved"
        return self.objection(request_class, node)

    def refusal_for_swap(self, request_class: RequestClass, node: Node) -> str | None:
        """Why no ask of this request class may take the room of a placeholder that just left the node, as a phrase;
        None if one may. Reservations do not count, because that room was never theirs."""
        state = self._state_refusal(request_class, node)
        if state is not None:
            return state
        name = node.available.lacks(request_class.items)
        return f"not enough {name}" if name is not None else self.objection(request_class, node)

    def _state_refusal(self, request_class: RequestClass, node: Node) -> str | None:
        if node.ordered or (request_class.required_node == node.node_id and node.ready):
            return None
        return node.state.value.replace("_", " ")

    def objection(self, request_class: RequestClass, node: Node, gone: Sequence[Allocation] = ()) -> str | None:
        """Why the required node or a placement constraint rules this node out, whatever room it has; None if neither
        does.

        Placement constraints do not count the allocations in `gone`.
        """
        if request_class.required_node and request_class.required_node != node.node_id:
            return "not the required node"
        return None if request_class.constraint is None else self.constraints.refusal(request_class, node, gone)

    def objection_without(self, request_class: RequestClass, node: Node, victims: Sequence[Allocation]) -> str | None:
        """As `objection`, if the victims were gone."""
        return self.objection(request_class, node, victims)

    def first_fit(self, request_class: RequestClass) -> Node | None:
        """The first node in node order on which an ask of this request class may be allocated, or None.

        A required node takes the asks that require it also while it drains, because that is how daemons get to every
        node.
        """
        if request_class.refused:
            return None
        if request_class.required_node:
            node = self.nodes.get(request_class.required_node)
            return node if node is not None and self.refusal(request_class, node) is None else None
        return (self.node_order if request_class.constraint is None else self.constraints).first_fit(request_class)

    def first_fit_where(self, request_class: RequestClass, may: Callable[[Node], bool]) -> Node | None:
        """The first node on which an ask of this request class may be allocated and for which `may` is true, or
        None."""
        if request_class.required_node:
            node = self.nodes.get(request_class.required_node)
            return node if node is not None and self.refusal(request_class, node) is None and may(node) else None
        if request_class.constraint is None:
            return self.node_order.first_fit_where(request_class, may)
        return self.constraints.first_fit(request_class, may)

    def candidates(self, request_class: RequestClass) -> NodeOrder:
        """The schedulable nodes, or with a constraint those of them that it allows."""
        return self.node_order if request_class.constraint is None else self.constraints.order(request_class)

    def check_reservations(self, application: Application) -> None:
        """The application may no longer need its reservations: check them in the next cycle."""
        for reservation in application.reservations:
            self.reservations_to_check[reservation.node] = None

    def deny(self, application: Application, group: AskGroup) -> None:
        """No node would take the real asks of this group in a swap: they are not tried until nodes change."""
        group.denied = True
        self.denied[group] = application

    def mark_unschedulable(self, pending_class: PendingClass) -> None:
        """No node fits the class: blocks it at the root until one may."""
        self.request_classes.mark_unschedulable(pending_class)
        self.root.block(pending_class, BlockReason.NODE)

    def note_free_node(self, node: Node) -> None:
        """The node has more room than before: asks that wait for room are checked at the end of the step."""
        self.moves += 1
        self.note_change(node)
        self.note_less_reserved(node)

    def note_change(self, node: Node) -> None:
        """The node changed in a way that makes refusals of the RM there invalid."""
        self.changes += 1
        node.changed = self.changes

    def note_less_reserved(self, node: Node) -> None:
        """Room of the node is no longer reserved, or is free: asks that it may fit are checked at the end of the step.
        Refusals of the RM there remain valid."""
        if self.constraints.rules:
            self.constraints.more_room()
        if node.reservations:
            self.reservations_to_check[node] = None
        if self.request_classes.any_unschedulable() or self.denied or self.refused_asks:
            self.freed_nodes[node] = None

    def note_free_quota(self, queue: Queue) -> None:
        """Less is used in the queue and above, or more is allowed: what its quotas block is checked at the end of the
        step."""
        for reservation in self.short_of_quota:
            self.reservations_to_check[reservation.node] = None
        self.short_of_quota.clear()
        for one in queue.path_to_root:
            if one.pending_index.blocked_by:
                self.freed_queues[one] = None

    @property
    def wants_cycle(self) -> bool:
        """Whether a cycle could do something: allocate, swap, reserve room, or search for victims."""
        timers = self.retry_timers
        callbacks = self.callbacks
        if (callbacks.predicates or callbacks.preemption_predicates) and callbacks.is_full:
            return False
        if (
            self.reservations_to_check
            or timers.has_due
            or (timers.preemptors and timers.may_go_on)
            or self.wants_reservation
            or self.capacity.is_due
        ):
            return True
        waits = self.swaps or self.refused_asks.nodes_to_retry or self.start_check_due
        return bool(waits) or self.root.pending_index.first() is not None
