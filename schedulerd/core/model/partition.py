"""A partition: a set of nodes, the queue tree that shares them, and the applications in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedulerd.core.alarms import Alarm
from schedulerd.core.commands import NewAsk
from schedulerd.core.decide import own_room
from schedulerd.core.model import requeue
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.callbacks import Callbacks
from schedulerd.core.model.constraint import constraint_of
from schedulerd.core.model.constraints import Constraints
from schedulerd.core.model.node import Node, Scoring
from schedulerd.core.model.node_order import NodeOrder
from schedulerd.core.model.parent_entity import BlockReason
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.refused_asks import RefusedAsks
from schedulerd.core.model.rejected_application import RejectedApplication
from schedulerd.core.model.request_class import PendingClass, RequestClass, RequestClasses
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.model.retry_timers import RetryTimers
from schedulerd.core.resources import Items, Resources
from schedulerd.core.specs import PartitionSpec

REQUIRED_NODE_TAG = "yunikorn.apache.org/requiredNode"
"""SI constant: the ask is for this node and no other, as a daemon's is."""

RESERVED_NODES_MIN = 8
RESERVED_NODES_PERCENT = 10
"""So many nodes may be reserved by asks that just waited for long: the rest of a large cluster stays in use."""

REMEMBERED_MAX = 10_000
"""Terminated applications kept for a look back; beyond that the oldest is forgotten before its time, so that an RM that
submits rubbish in a loop cannot fill the memory."""


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
        "callbacks",
        "capacity_changes",
        "changes",
        "cleanup_alarm",
        "considered_ns",
        "constraints",
        "denied",
        "free_slot_ns",
        "freed_nodes",
        "freed_queues",
        "gangs_changed",
        "gangs_touched",
        "moves",
        "name",
        "node_order",
        "nodes",
        "open_gangs",
        "priority_gang",
        "ready",
        "refused_asks",
        "request_classes",
        "reservations",
        "retry_timers",
        "rm_id",
        "root",
        "scoring",
        "serial",
        "short_of_quota",
        "spec",
        "swaps",
        "terminated",
        "terminated_by_id",
        "touched",
        "usages",
        "used",
    )

    def __init__(self, rm_id: str, spec: PartitionSpec, callbacks: Callbacks | None = None) -> None:
        self.rm_id = rm_id
        self.callbacks = callbacks or Callbacks()
        """What its resource manager wants to be asked, in all of its partitions."""
        self.name = spec.name
        self.spec = spec
        self.root = Queue.from_spec(spec.root)
        self.usages = self.root.usages
        self.cleanup_alarm: Alarm | None = None
        """Rings when queues that nobody needs have been empty for long enough."""
        self.scoring = Scoring(spec.node_order, spec.node_weights)
        self.nodes: dict[str, Node] = {}
        self._total: Resources | None = None
        self._largest: Resources | None = None
        self._sizes: dict[Items, int] | None = None
        self.capacity_changes = 0
        """How often a node was added, removed, opened or shut, or offered something else."""
        self.used = Resources()
        """Sum of what is really used on its nodes, of those where that was reported."""
        self.allocations_used = Resources()
        """Likewise of what its allocations really use."""
        self.node_order = NodeOrder()
        """Those of the nodes that may get new allocations."""
        self.applications: dict[str, Application] = {}
        """All that have a queue."""
        self.allocations: dict[str, Allocation] = {}
        """All of its nodes and applications, by UUID."""
        self.open_gangs: dict[Application, None] = {}
        """Those with placeholders still to be placed."""
        self.priority_gang: Application | None = None
        """The gang for which later ones gave way: until it is complete, or its time is over, they are held back."""
        self.gangs_changed = False
        """Whether nodes or gangs changed in this step, so that other gangs may fit on the nodes than before."""
        self.gangs_touched: dict[Application, None] = {}
        """Applications with a gang that may have become complete, or incomplete, in this step."""
        self.considered_ns = 0
        """When a gang was last considered for which others might give way: one at a time, as that may take a while."""
        self.free_slot_ns = 0
        """The next time at which nobody is considered yet."""
        self.reservations: dict[Reservation, None] = {}
        """All of its nodes."""
        self.aging_reservations = 0
        """How many of them are not entitled."""
        self.short_of_quota: dict[Reservation, None] = {}
        """Those whose room is there, while a quota has none yet; they are looked at when less is used."""
        self.ready: dict[Node, None] = {}
        """Nodes with reservations of which some may fit now, or are void."""
        self.request_classes = RequestClasses()
        self.constraints = Constraints(self)
        self.retry_timers = RetryTimers(self.request_classes.due)
        self.asks_tried = 0
        """How often a cycle looked for a place for the next ask; tests count with it what they must not time."""
        self.moves = 0
        """How often something was placed, asked to go or freed, or a node changed: what was found out then may be
        otherwise now."""
        self.changes = 0
        """How often a node changed in a way that matters to whom it was refused (`Node.changed`)."""
        self.refused_asks = RefusedAsks()
        self.denied: dict[AskGroup, Application] = {}
        """Real asks that no node would take in exchange for their placeholder; tried again as nodes change."""
        self.terminated: dict[int, Application | RejectedApplication] = {}
        """Completed, failed and rejected ones by serial, oldest first; their ids may be in use again."""
        self.terminated_by_id: dict[str, Application | RejectedApplication] = {}
        """The last of these for each id."""
        self.freed_nodes: dict[Node, None] = {}
        self.freed_queues: dict[Queue, None] = {}
        """Where something became free in this step for which somebody may wait."""
        self.touched: dict[Queue, None] = {}
        """Queues whose pending changed since the last cycle: they are given their new place when it matters."""
        self.swaps: dict[Application, None] = {}
        """Applications that may have a real ask and a placeholder for it; looked at before anything else is placed."""
        self.serial = 0

    @property
    def wire_name(self) -> str:
        """How the partition is called towards the RM (SEMANTICS C1)."""
        return f"[{self.rm_id}]{self.name}"

    def remember(self, application: Application | RejectedApplication) -> None:
        """The application has ended."""
        self.terminated[application.serial] = application
        self.terminated_by_id[application.application_id] = application

    def forget(self, application: Application | RejectedApplication) -> None:
        """Fine if it has not ended."""
        self.terminated.pop(application.serial, None)
        if self.terminated_by_id.get(application.application_id) is application:
            del self.terminated_by_id[application.application_id]

    def next_serial(self) -> int:
        """A number that orders what arrives in this partition."""
        self.serial += 1
        return self.serial

    def total(self) -> Resources:
        """Capacity of all its nodes; summed when it is asked for and any of them has changed."""
        if self._total is None:
            self._total = Resources()
            for node in self.nodes.values():
                self._total.add(node.capacity.items())
        return self._total

    def largest(self) -> Resources:
        """Of each resource the most that any node has room for while nothing runs there; found as the total is."""
        if self._largest is None:
            self._largest = Resources()
            for node in self.nodes.values():
                for name, amount in node.capacity.items():
                    self._largest[name] = max(self._largest[name], amount - node.occupied[name])
        return self._largest

    def sizes(self) -> dict[Items, int]:
        """How many nodes that may get new allocations offer the same, by what that is; found as the total is."""
        if self._sizes is None:
            self._sizes = {}
            for node in self.nodes.values():
                if node.ordered:
                    size = node.capacity.minus(node.occupied).canonical()
                    self._sizes[size] = self._sizes.get(size, 0) + 1
        return self._sizes

    def capacity_changed(self) -> None:
        """A node offers something else than before, or is new, or gone."""
        self._total = self._largest = None
        self._sizes = None
        self.capacity_changes += 1
        self.gangs_changed = True

    @property
    def reservable_nodes(self) -> int:
        """How many more nodes may be reserved by asks that just waited for long."""
        return max(RESERVED_NODES_MIN, len(self.nodes) * RESERVED_NODES_PERCENT // 100) - self.aging_reservations

    @property
    def may_reserve(self) -> bool:
        """Whether there may be somebody for whom room can be kept now."""
        timers = self.retry_timers
        return bool(timers.to_reserve_required) or (
            bool(timers.to_reserve or timers.overflow) and self.reservable_nodes > 0
        )

    def touch(self, queue: Queue) -> None:
        """Pending changed in `queue` and above."""
        touched = self.touched
        for one in queue.path_to_root:
            touched[one] = None

    def request_class_of(self, spec: NewAsk) -> RequestClass:
        """What makes the ask interchangeable with others here."""
        required_node = spec.tags.get(REQUIRED_NODE_TAG, "") if spec.tags else ""
        return self.request_classes.of(spec.resources, required_node, constraint_of(spec))

    def refusal(self, request_class: RequestClass, node: Node) -> str | None:
        """Why no ask of this request class may be placed on the node now, as a phrase; None if one may."""
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

    def refusal_in_exchange(self, request_class: RequestClass, node: Node) -> str | None:
        """Likewise for an ask that takes the room of a placeholder which just went from there: nobody kept that."""
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
        """What is against an ask of this request class on the node, whatever room there is; None if nothing.

        Placement constraints do not count those that will be `gone` by then.
        """
        if request_class.required_node and request_class.required_node != node.node_id:
            return "not the required node"
        return None if request_class.constraint is None else self.constraints.refusal(request_class, node, gone)

    def objection_without(self, request_class: RequestClass, node: Node, victims: Sequence[Allocation]) -> str | None:
        """Likewise, if these allocations were not there."""
        return self.objection(request_class, node, victims)

    def first_fit(self, request_class: RequestClass) -> Node | None:
        """The first node in order on which an ask of this request class may be placed, or None.

        A required node takes what requires it while it drains as well: that is how daemons get to every node.
        """
        if request_class.refused:
            return None
        if request_class.required_node:
            node = self.nodes.get(request_class.required_node)
            return node if node is not None and self.refusal(request_class, node) is None else None
        return (self.node_order if request_class.constraint is None else self.constraints).first_fit(request_class)

    def first_fit_where(self, request_class: RequestClass, may: Callable[[Node], bool]) -> Node | None:
        """Likewise, of the nodes that `may` have it."""
        if request_class.required_node:
            node = self.nodes.get(request_class.required_node)
            return node if node is not None and self.refusal(request_class, node) is None and may(node) else None
        if request_class.constraint is None:
            return self.node_order.first_fit_where(request_class, may)
        return self.constraints.first_fit(request_class, may)

    def candidates(self, request_class: RequestClass) -> NodeOrder:
        """The nodes that may get new allocations, but for those that no ask of this request class may have."""
        return self.node_order if request_class.constraint is None else self.constraints.order(request_class)

    def check_reservations(self, application: Application) -> None:
        """Whether the application waits for room may have changed."""
        for reservation in application.reservations:
            self.ready[reservation.node] = None

    def deny(self, application: Application, group: AskGroup) -> None:
        """No node would take the real asks of this group: they leave their placeholders alone until one might."""
        group.denied = True
        self.denied[group] = application

    def set_priority_gang(self, application: Application | None) -> None:
        """Holds back all open gangs that are later than this one, and nobody else."""
        self.priority_gang = application
        for one in self.open_gangs:
            one.reevaluate(placeholders=True)
            for queue in one.queue.path_to_root:
                queue.rekey()

    def mark_unschedulable(self, pending_class: PendingClass) -> None:
        """No node has room for the request class: it is not looked for anywhere until one might."""
        self.request_classes.mark_unschedulable(pending_class)
        self.root.block(pending_class, BlockReason.NODE)

    def note_free_node(self, node: Node) -> None:
        """The node has more room than before: who waits for room is looked at when the step is done."""
        self.moves += 1
        self.note_change(node)
        self.note_less_kept(node)

    def note_change(self, node: Node) -> None:
        """What was refused there may be taken now."""
        self.changes += 1
        node.changed = self.changes

    def note_less_kept(self, node: Node) -> None:
        """Likewise, if it is only kept for nobody any longer: that changes nothing for those who look past that."""
        if self.constraints.rules:
            self.constraints.more_room()
        if node.reservations:
            self.ready[node] = None
        if self.request_classes.any_unschedulable() or self.denied or self.refused_asks:
            self.freed_nodes[node] = None

    def note_free_quota(self, queue: Queue) -> None:
        """Less is used in the queue and above, or more is allowed: likewise."""
        for reservation in self.short_of_quota:
            self.ready[reservation.node] = None
        self.short_of_quota.clear()
        for one in queue.path_to_root:
            if one.pending_index.blocked_by:
                self.freed_queues[one] = None

    @property
    def wants_cycle(self) -> bool:
        """Whether a cycle might place anything, or keep or make room for somebody."""
        timers = self.retry_timers
        if self.callbacks.is_full:
            return False
        if self.ready or timers.has_due or timers.may_go_on or self.may_reserve:
            return True
        return bool(self.swaps or self.refused_asks.nodes_to_retry) or self.root.pending_index.first() is not None

    def end_of_step(self) -> None:
        """What is to be done once at the end of a step, however often things changed in it.

        Every touched queue gets its place, and lets start whose turn it is; what was closed for want of quota, or of
        room on a node, opens again where there may be some now.
        """
        if self.gangs_changed:
            self.gangs_changed = False
            own_room.recheck(self)
        self.retry_timers.look_again_at_changed()
        for queue in self.touched:
            queue.admit_next()
            queue.rekey()
        self.touched.clear()
        for queue in self.freed_queues:
            for request_class in queue.unblock_where_quota_allows():
                self.retry_timers.look_soon(request_class)
        self.freed_queues.clear()
        requeue.after_step(self)
        if self.constraints.rules:
            self.constraints.forget_idle()

    def reconfigure(self, spec: PartitionSpec) -> None:
        """The queues, or how nodes are ordered, changed: order the nodes and line everybody up anew."""
        self.spec = spec
        self.scoring = Scoring(spec.node_order, spec.node_weights)
        self.node_order = NodeOrder()
        for node in self.nodes.values():
            node.scoring = self.scoring
            node.rescore()
            if node.ordered:
                self.node_order.add(node)
        self.constraints.scored_anew()
        self.request_classes.forget_all()
        for noted in (self.touched, self.freed_queues):
            noted.clear()
        self.retry_timers.forget()
        for reservation in self.reservations:
            self.ready[reservation.node] = None
        for queue in self.root.subtree():
            queue.reset_pending()
        for application in self.applications.values():
            application.reset_pending()
        for application in self.applications.values():
            application.enqueue_all()
        for queue in self.root.subtree():
            queue.admit_next()
            self.touched[queue] = None
        for application in self.applications.values():
            application.note_possible_swap()
