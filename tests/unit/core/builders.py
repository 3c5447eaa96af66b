"""Builders for tests of the core: specs, commands, and a conversation with a real scheduler.

A `Conversation` checks all invariants after every step, so that every flow tests them without saying so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from schedulerd.config import matches
from schedulerd.core.autoscaling import summary as autoscaling
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import (
    AllocationRelease,
    ApplicationRemoval,
    AskRelease,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RingAlarms,
    RunCycle,
    StopCause,
    StopResourceManager,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated, ApplicationChanged, Fact
from schedulerd.core.language.lifecycles import ApplicationState, NodeState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    Acl,
    ApplicationOrder,
    LimitSpec,
    NodeOrder,
    PartitionSpec,
    QueueProperties,
    QueueSpec,
    Timeouts,
)
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.model.node import Node, Scoring
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import PendingClass, RequestClass
from schedulerd.core.state.quotas.quota_key import PLAIN
from schedulerd.core.views import view
from schedulerd.core.views.values import ApplicationView, NodeView, PartitionView, QueueView

Kind = TypeVar("Kind")

RM = "rm-1"
EVERYBODY = Acl(everybody=True)
NOBODY = Acl()


def a_request_class(**amounts: int) -> RequestClass:
    return RequestClass(Resources(amounts).canonical())


def a_pending_class(**amounts: int) -> PendingClass:
    return PendingClass(a_request_class(**amounts), PLAIN)


def a_queue_spec(
    name: str,
    *children: QueueSpec,
    max: dict[str, int] | None = None,
    guaranteed: dict[str, int] | None = None,
    order: ApplicationOrder = ApplicationOrder.FIFO,
    submit_acl: Acl = NOBODY,
    max_applications: int = 0,
    limits: tuple[LimitSpec, ...] = (),
    **properties: Any,
) -> QueueSpec:
    """`properties` are those of `QueueProperties`."""
    return QueueSpec(
        name=name,
        parent=bool(children),
        guaranteed=Resources(guaranteed or {}),
        max=Limits(max or {}),
        properties=QueueProperties(application_order=order, **properties),
        submit_acl=submit_acl,
        max_applications=max_applications,
        limits=limits,
        children=children,
    )


def a_root(*children: QueueSpec, max: dict[str, int] | None = None) -> QueueSpec:
    """A root that lets everybody in, with one leaf `a` unless told otherwise."""
    leaves = children or (a_queue_spec("a"),)
    return a_queue_spec("root", *leaves, max=max, submit_acl=EVERYBODY)


def a_partition_spec(
    root: QueueSpec | None = None, name: str = "default", node_order: NodeOrder = NodeOrder.FAIR
) -> PartitionSpec:
    return PartitionSpec(name, root or a_root(), node_order=node_order)


def a_node(
    node_id: str = "n1",
    capacity: dict[str, int] | None = None,
    *existing: ExistingAllocation,
    action: NodeAction = NodeAction.CREATE,
    occupied: dict[str, int] | None = None,
    attributes: dict[str, str] | None = None,
    partition: str = "",
) -> NodeUpdate:
    return NodeUpdate(
        node_id=node_id,
        action=action,
        partition=partition,
        capacity=None if capacity is None else Resources(capacity),
        occupied=None if occupied is None else Resources(occupied),
        attributes=attributes or {},
        existing=list(existing),
    )


def a_model_node(node_id: str, capacity: dict[str, int], scoring: Scoring | None = None) -> Node:
    """A node as the core keeps it, outside any partition."""
    node = Node(node_id, scoring or Scoring(NodeOrder.FAIR, {"memory": 1.0, "vcore": 1.0}))
    node.state = NodeState.SCHEDULABLE
    node.offer(Resources(capacity), None)
    return node


def an_app(application_id: str = "app", queue: str = "root.a", **fields: Any) -> NewApplication:
    fields.setdefault("user", "somebody")
    return NewApplication(application_id, queue, **fields)


def an_ask(key: str = "k", memory: int = 10, count: int = 1, app: str = "app", **fields: Any) -> NewAsk:
    fields.setdefault("resources", Resources(memory=memory))
    return NewAsk(application_id=app, allocation_key=key, max_allocations=count, **fields)


def a_placeholder(key: str = "p", memory: int = 10, count: int = 1, app: str = "app", **fields: Any) -> NewAsk:
    fields.setdefault("task_group", "group")
    return an_ask(key, memory, count, app, placeholder=True, **fields)


def an_existing(
    uuid: str = "e1", key: str = "k", app: str = "app", memory: int = 10, **fields: Any
) -> ExistingAllocation:
    return ExistingAllocation(app, key, uuid, Resources(memory=memory), **fields)


def of(kind: type[Kind], facts: Sequence[Fact]) -> list[Kind]:
    """The facts of one kind, in order."""
    return [fact for fact in facts if isinstance(fact, kind)]


def only(kind: type[Kind], facts: Sequence[Fact]) -> Kind:
    """The one fact of this kind there has to be."""
    [found] = of(kind, facts)
    return found


def states(facts: Sequence[Fact], application_id: str = "app") -> list[ApplicationState]:
    """The states the application entered, in order."""
    return [fact.state for fact in of(ApplicationChanged, facts) if fact.application_id == application_id]


def placed(facts: Sequence[Fact]) -> list[tuple[str, str, str]]:
    """(application, key, node) of what was placed, in order."""
    return [(fact.application_id, fact.allocation_key, fact.node_id) for fact in of(Allocated, facts)]


def numbered(prefix: str = "uuid") -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers)}"


class Conversation:
    """What a resource manager and the clock say to a scheduler, and what it answers."""

    def __init__(self, scheduler: Scheduler, rm_id: str = RM) -> None:
        self.scheduler = scheduler
        self.rm_id = rm_id
        self.now_ns = 1_000

    def step(self, command: Command) -> list[Fact]:
        facts = self.scheduler.step(self.now_ns, command)
        for error in self.scheduler.failed_checks:
            raise error
        assert violations(self.scheduler) == []
        return facts

    def register(self, *partitions: PartitionSpec) -> list[Fact]:
        return self.step(RegisterResourceManager(self.rm_id, partitions or (a_partition_spec(),)))

    def connect(self) -> list[Fact]:
        return self.step(ConnectResourceManager(self.rm_id))

    def nodes(self, *nodes: NodeUpdate) -> list[Fact]:
        return self.step(UpdateNodes(self.rm_id, list(nodes)))

    def apps(self, *new: NewApplication) -> list[Fact]:
        return self.step(UpdateApplications(self.rm_id, new=list(new)))

    def remove(self, *application_ids: str, partition: str = "") -> list[Fact]:
        return self.step(
            UpdateApplications(self.rm_id, remove=[ApplicationRemoval(one, partition) for one in application_ids])
        )

    def asks(self, *asks: NewAsk) -> list[Fact]:
        return self.step(UpdateAllocations(self.rm_id, asks=list(asks)))

    def release(self, **fields: Any) -> list[Fact]:
        """One release of allocations; of the application `app` unless told otherwise."""
        fields.setdefault("application_id", "app")
        return self.step(UpdateAllocations(self.rm_id, releases=[AllocationRelease(**fields)]))

    def release_asks(self, **fields: Any) -> list[Fact]:
        """One release of asks; of the application `app` unless told otherwise."""
        fields.setdefault("application_id", "app")
        return self.step(UpdateAllocations(self.rm_id, ask_releases=[AskRelease(**fields)]))

    def disconnect(self) -> list[Fact]:
        return self.step(DisconnectResourceManager(self.rm_id))

    def stop(self, cause: StopCause) -> list[Fact]:
        return self.step(StopResourceManager(self.rm_id, cause))

    def cycle(self, placements_max: int = 1_000) -> list[Fact]:
        return self.step(RunCycle(placements_max))

    def schedule(self) -> list[Fact]:
        """Cycles until nothing that is pending could move."""
        facts: list[Fact] = []
        while self.scheduler.wants_cycle():
            facts += self.cycle()
        return facts

    def sleep(self, ns: int) -> list[Fact]:
        """Time goes by; every alarm that is due rings, each at its own deadline."""
        facts: list[Fact] = []
        end_ns = self.now_ns + ns
        while (deadline_ns := self.scheduler.next_deadline_ns()) is not None and deadline_ns <= end_ns:
            self.now_ns = deadline_ns
            facts += self.step(RingAlarms())
        self.now_ns = end_ns
        return facts

    def model(self, name: str = "default") -> Partition:
        return self.scheduler.cluster.resource_managers[self.rm_id].partitions[name]

    def view(self, name: str = "default") -> PartitionView:
        return view.partition(self.scheduler.cluster, self.rm_id, name)

    def outstanding(self) -> list[tuple[str, str, int]]:
        """(application, key, count) of the asks that lack nothing but room on nodes."""
        return autoscaling.asks(self.scheduler.cluster, self.rm_id, "default")

    def app(self, application_id: str = "app") -> ApplicationView:
        [found] = [one for one in self.view().applications if one.application_id == application_id]
        return found

    def node(self, node_id: str = "n1") -> NodeView:
        [found] = [one for one in self.view().nodes if one.node_id == node_id]
        return found

    def queue(self, path: str = "root.a") -> QueueView:
        [found] = [one for one in self.view().queues if one.path == path]
        return found


def a_scheduler(timeouts: Timeouts | None = None) -> Scheduler:
    return Scheduler(timeouts or Timeouts(), numbered(), matches)


def a_conversation(
    *nodes: NodeUpdate,
    root: QueueSpec | None = None,
    node_order: NodeOrder = NodeOrder.FAIR,
    timeouts: Timeouts | None = None,
) -> Conversation:
    """A connected resource manager with these nodes, and the application `app` in root.a if there is such a queue."""
    talk = Conversation(a_scheduler(timeouts))
    talk.register(a_partition_spec(root, node_order=node_order))
    talk.connect()
    talk.nodes(*nodes)
    if root is None or any(child.name == "a" and child.is_leaf for child in root.children):
        talk.apps(an_app())
    return talk
