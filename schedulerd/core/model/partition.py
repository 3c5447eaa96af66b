"""A partition: a set of nodes, the queue tree that shares them, and the applications in it."""

from __future__ import annotations

from schedulerd.core.alarms import Alarm
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.host import ClosedFor
from schedulerd.core.model.node import Node, Scoring
from schedulerd.core.model.node_order import NodeOrder
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape, Shapes
from schedulerd.core.model.user_usage import Usages
from schedulerd.core.resources import Resources
from schedulerd.core.specs import PartitionSpec

REMEMBERED_MAX = 10_000
"""Terminated applications kept for a look back; beyond that the oldest is forgotten before its time, so that an RM that
submits rubbish in a loop cannot fill the memory."""


class Partition:
    __slots__ = (
        "allocations",
        "applications",
        "cleanup_alarm",
        "name",
        "node_order",
        "nodes",
        "rm_id",
        "root",
        "scoring",
        "serial",
        "shapes",
        "spec",
        "terminated",
        "touched",
        "usages",
    )

    def __init__(self, rm_id: str, spec: PartitionSpec) -> None:
        self.rm_id = rm_id
        self.name = spec.name
        self.spec = spec
        self.usages = Usages()
        self.root = Queue.from_spec(spec.root, self.usages)
        self.cleanup_alarm: Alarm | None = None
        """Rings when queues that nobody needs have been empty for long enough."""
        self.scoring = Scoring(spec.node_order, spec.node_weights)
        self.nodes: dict[str, Node] = {}
        self.node_order = NodeOrder()
        """Those of the nodes that may get new allocations."""
        self.applications: dict[str, Application] = {}
        """All that have a queue."""
        self.allocations: dict[str, Allocation] = {}
        """All of its nodes and applications, by UUID."""
        self.terminated: dict[int, Application] = {}
        """Completed, failed and rejected ones by serial, oldest first; their ids may be in use again."""
        self.shapes = Shapes()
        self.touched: dict[Queue, None] = {}
        """Queues whose pending changed since the last cycle: they are given their new place when it matters."""
        self.serial = 0

    @property
    def wire_name(self) -> str:
        """How the partition is called towards the RM (SEMANTICS C1)."""
        return f"[{self.rm_id}]{self.name}"

    def next_serial(self) -> int:
        """A number that orders what arrives in this partition."""
        self.serial += 1
        return self.serial

    def total(self) -> Resources:
        """Capacity of all its nodes."""
        total = Resources()
        for node in self.nodes.values():
            total.add(node.capacity.items())
        return total

    def touch(self, queue: Queue) -> None:
        """Pending changed in `queue` and above."""
        touched = self.touched
        for one in queue.lineage:
            touched[one] = None

    def park(self, shape: Shape) -> None:
        """No node has room for the shape: it is not looked for anywhere until one might."""
        self.shapes.park(shape)
        self.root.close(shape, ClosedFor.NODE)

    def wake(self, available: Resources) -> None:
        """A node has this much free, more than before: shapes that fit there may be tried again."""
        for shape in [shape for shape in self.shapes.parked() if available.lacks(shape.items) is None]:
            self.shapes.unpark(shape)
            closing = self.root.lines.closed.get(shape)
            if closing is not None and closing.reason is ClosedFor.NODE:
                self.root.reopen(shape)

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
        self.shapes = Shapes()
        self.touched.clear()
        for queue in self.root.subtree():
            queue.start_anew()
        for application in self.applications.values():
            application.start_anew()
        for application in self.applications.values():
            application.line_up()
        for queue in self.root.subtree():
            queue.give_turn()

    def settle(self) -> None:
        """Gives every touched queue its place."""
        for queue in self.touched:
            queue.rekey()
        self.touched.clear()
