"""Keeps every count by adding and subtracting facts, and compares the books with the scheduler's own state.

It never looks into the state while counting, so drift on either side shows: a gauge derived from facts is right exactly
as long as these books are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from schedulerd.core.language.facts.configuration import (
    ConfigurationAccepted,
    ConfigurationRejected,
    ConfigurationUpdated,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationChanged,
    ApplicationForgotten,
    AskAdded,
    AskWithdrawn,
    CheckFailed,
    CycleRan,
    Fact,
    NodeChanged,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
)
from schedulerd.core.language.facts.predicates import PredicateNotWanted, SlotHeld
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnded
from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.views.values import ApplicationView, NodeView, PartitionView, ResourceManagerView

Ledger = defaultdict[str, Resources]
AskName = tuple[str, str, Items]
"""Application, key, and the size of the ask."""


@dataclass
class Books:
    """One partition, counted from facts."""

    nodes: dict[str, NodeChanged] = field(default_factory=dict)
    allocations: dict[str, Allocated] = field(default_factory=dict)
    unclaimed: dict[str, AllocationUnclaimed] = field(default_factory=dict)
    releasing: dict[str, str] = field(default_factory=dict)
    asks: Counter[AskName] = field(default_factory=Counter)
    applications: Counter[tuple[str, ApplicationState]] = field(default_factory=Counter)
    states: dict[str, ApplicationState] = field(default_factory=dict)
    """Of the applications that have a queue."""
    node_allocated: Ledger = field(default_factory=lambda: defaultdict(Resources))
    queue_allocated: Ledger = field(default_factory=lambda: defaultdict(Resources))
    queue_pending: Ledger = field(default_factory=lambda: defaultdict(Resources))
    application_allocated: Ledger = field(default_factory=lambda: defaultdict(Resources))
    application_pending: Ledger = field(default_factory=lambda: defaultdict(Resources))


_OF_NO_PARTITION = (
    CycleRan,
    ConfigurationAccepted,
    ConfigurationUpdated,
    ConfigurationRejected,
    PredicateNotWanted,
    SlotHeld,
)


class Auditor:
    def __init__(self) -> None:
        self.resource_managers: dict[str, ResourceManagerState] = {}
        self.books: defaultdict[tuple[str, str], Books] = defaultdict(Books)
        self._problems: list[str] = []

    def take(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, ResourceManagerChanged):
                self._resource_manager(fact)
            elif isinstance(fact, CheckFailed):
                self._problems.append(f"{fact.exception} while {fact.item} {fact.object_id!r} was checked")
            elif not isinstance(fact, _OF_NO_PARTITION):
                self._book(self.books[fact.rm_id, fact.partition], fact)

    def problems(self, state: Iterable[ResourceManagerView]) -> list[str]:
        """Facts that contradict each other, and counts that the views do not show, as sentences."""
        found, self._problems = self._problems, []
        shown = {rm.rm_id: rm for rm in state if rm.state != ResourceManagerState.STOPPED}
        known = {
            rm_id for rm_id, rm_state in self.resource_managers.items() if rm_state != ResourceManagerState.STOPPED
        }
        _compare(found, "resource managers", sorted(known), sorted(shown))
        for rm in shown.values():
            _compare(found, f"state of {rm.rm_id}", self.resource_managers.get(rm.rm_id), rm.state)
            for partition in rm.partitions:
                books = self.books[rm.rm_id, partition.name]
                found += [f"[{rm.rm_id}]{partition.name}: {text}" for text in _partition(books, partition)]
        return found

    def _resource_manager(self, fact: ResourceManagerChanged) -> None:
        self.resource_managers[fact.rm_id] = fact.state
        if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
            for name in [name for name in self.books if name[0] == fact.rm_id]:
                del self.books[name]

    def _book(self, books: Books, fact: Fact) -> None:
        match fact:
            case NodeChanged():
                books.nodes[fact.node_id] = fact
                if fact.state is NodeState.REMOVED:
                    del books.nodes[fact.node_id]
            case ApplicationChanged():
                self._application(books, fact)
            case ApplicationForgotten():
                books.applications[fact.queue, fact.state] -= 1
                if fact.state not in TERMINAL_STATES:
                    books.states.pop(fact.application_id, None)
            case AskAdded():
                self._pending(books, fact, fact.resources, fact.count)
            case AskWithdrawn():
                self._pending(books, fact, fact.resources, -fact.count)
            case Allocated():
                if not fact.recovered and not fact.replaces:
                    self._pending(books, fact, fact.resources, -1)
                self._allocated(books, fact)
            case AllocationChanged():
                self._changed(books, fact)
            case ReleaseRequested():
                if fact.uuid in books.releasing:
                    self._problems.append(f"release of {fact.uuid} requested twice")
                books.releasing[fact.uuid] = fact.termination.name
            case Released():
                self._released(books, fact)
            case AllocationUnclaimed():
                if fact.uuid in books.allocations or fact.uuid in books.unclaimed:
                    self._problems.append(f"{fact.uuid} is unclaimed, and is there already")
                books.unclaimed[fact.uuid] = fact
                books.node_allocated[fact.node_id].add(fact.resources.canonical())
            case UnclaimedEnded():
                self._unclaimed_ended(books, fact)

    def _unclaimed_ended(self, books: Books, fact: UnclaimedEnded) -> None:
        before = books.unclaimed.pop(fact.uuid, None)
        if before is None or (before.node_id, before.resources) != (fact.node_id, fact.resources):
            self._problems.append(f"{fact.uuid} is unclaimed no longer, and was {before}")
            return
        books.node_allocated[fact.node_id].subtract(fact.resources.canonical())

    def _application(self, books: Books, fact: ApplicationChanged) -> None:
        if fact.old_state is not None:
            books.applications[fact.queue, fact.old_state] -= 1
        books.applications[fact.queue, fact.state] += 1
        if fact.state not in TERMINAL_STATES:
            if books.states.get(fact.application_id) != fact.old_state:
                self._problems.append(f"{fact.application_id} left {fact.old_state} without being in it")
            books.states[fact.application_id] = fact.state
        elif fact.old_state is not None and fact.old_state not in TERMINAL_STATES:
            books.states.pop(fact.application_id, None)

    def _pending(self, books: Books, fact: AskAdded | AskWithdrawn | Allocated, size: Resources, count: int) -> None:
        items = size.canonical()
        books.asks[fact.application_id, fact.allocation_key, items] += count
        books.application_pending[fact.application_id].add(items, count)
        for path in _lineage(fact.queue):
            books.queue_pending[path].add(items, count)
        if books.asks[fact.application_id, fact.allocation_key, items] < 0:
            self._problems.append(f"{fact.application_id} has less than nothing pending of {fact.allocation_key}")

    def _allocated(self, books: Books, fact: Allocated) -> None:
        if fact.uuid in books.allocations:
            self._problems.append(f"{fact.uuid} allocated twice")
        books.allocations[fact.uuid] = fact
        self._move(books, fact, 1)

    def _changed(self, books: Books, fact: AllocationChanged) -> None:
        before = books.allocations.pop(fact.old_uuid, None)
        if before is None or fact.uuid in books.allocations:
            self._problems.append(f"{fact.old_uuid} changes to {fact.uuid} without being there, or that is there")
            return
        if (before.node_id, before.resources) != (fact.old_node_id, fact.old_resources):
            self._problems.append(f"{fact.old_uuid} was {before} and changes from {fact}")
        if fact.old_uuid in books.releasing:
            books.releasing[fact.uuid] = books.releasing.pop(fact.old_uuid)
        self._move(books, before, -1)
        after = replace(before, uuid=fact.uuid, node_id=fact.node_id, resources=fact.resources)
        books.allocations[fact.uuid] = after
        self._move(books, after, 1)

    def _released(self, books: Books, fact: Released) -> None:
        allocated = books.allocations.pop(fact.uuid, None)
        books.releasing.pop(fact.uuid, None)
        if allocated is None:
            self._problems.append(f"{fact.uuid} released without being allocated")
            return
        if (allocated.node_id, allocated.resources, allocated.queue) != (fact.node_id, fact.resources, fact.queue):
            self._problems.append(f"{fact.uuid} released as something else than it was allocated as")
        self._move(books, allocated, -1)

    def _move(self, books: Books, fact: Allocated, times: int) -> None:
        items = fact.resources.canonical()
        books.node_allocated[fact.node_id].add(items, times)
        books.application_allocated[fact.application_id].add(items, times)
        for path in _lineage(fact.queue):
            books.queue_allocated[path].add(items, times)


@cache
def _lineage(path: str) -> tuple[str, ...]:
    names = path.split(".")
    return tuple(".".join(names[:length]) for length in range(1, len(names) + 1))


def _compare(found: list[str], what: str, counted: object, shown: object) -> None:
    if counted != shown:
        found.append(f"{what}: facts say {counted}, the scheduler {shown}")


def _partition(books: Books, partition: PartitionView) -> list[str]:
    found: list[str] = []
    _nodes(found, books, {node.node_id: node for node in partition.nodes})
    queues = {queue.path: queue for queue in partition.queues}
    for path, queue in queues.items():
        _compare(found, f"allocated in {path}", books.queue_allocated[path], queue.allocated)
        _compare(found, f"pending in {path}", books.queue_pending[path], queue.pending)
    for path in books.queue_allocated.keys() | books.queue_pending.keys():
        if path not in queues and not (books.queue_allocated[path].is_zero() and books.queue_pending[path].is_zero()):
            found.append(f"queue {path} is gone although it holds something")
    _applications(found, books, partition)
    _users(found, books, partition)
    uuids = sorted(item.uuid for node in partition.nodes for item in node.allocations)
    _compare(found, "allocations", sorted(books.allocations), uuids)
    shown = {item.uuid: item.application_id for node in partition.nodes for item in node.unclaimed}
    _compare(found, "unclaimed", {uuid: one.application_id for uuid, one in books.unclaimed.items()}, shown)
    releasing = {item.uuid: item.releasing for node in partition.nodes for item in node.allocations if item.releasing}
    _compare(found, "being released", books.releasing, releasing)
    return found


def _nodes(found: list[str], books: Books, shown: Mapping[str, NodeView]) -> None:
    _compare(found, "nodes", sorted(books.nodes), sorted(shown))
    for node_id in books.nodes.keys() & shown.keys():
        fact, node = books.nodes[node_id], shown[node_id]
        _compare(found, f"state of {node_id}", fact.state, node.state)
        _compare(found, f"capacity of {node_id}", fact.capacity, node.capacity)
        _compare(found, f"occupied of {node_id}", fact.occupied, node.occupied)
        _compare(found, f"allocated on {node_id}", books.node_allocated[node_id], node.allocated)
        available = fact.capacity.minus(fact.occupied).minus(books.node_allocated[node_id])
        _compare(found, f"available on {node_id}", available, node.available)


def _applications(found: list[str], books: Books, partition: PartitionView) -> None:
    shown = Counter((item.queue, item.state) for item in [*partition.applications, *partition.terminated])
    counted = {(queue, state.value): count for (queue, state), count in books.applications.items() if count}
    _compare(found, "applications by queue and state", counted, dict(shown))
    states = {item.application_id: item.state for item in partition.applications}
    _compare(found, "states of applications", books.states, states)
    for item in partition.applications:
        _application(found, books, item)
    asks = {name: count for item in partition.applications for name, count in _open_asks(item)}
    _compare(found, "open asks", {name: count for name, count in books.asks.items() if count > 0}, asks)


def _users(found: list[str], books: Books, partition: PartitionView) -> None:
    """Whatever is allocated in a queue is some user's usage there."""
    used: Ledger = defaultdict(Resources)
    for user in partition.users:
        for path, usage in user.usage.items():
            used[path].add(usage.items())
    for path in books.queue_allocated.keys() | used.keys():
        _compare(found, f"usage of all users in {path}", books.queue_allocated[path], used[path])


def _application(found: list[str], books: Books, item: ApplicationView) -> None:
    allocated = Resources(item.allocated).plus(item.placeholder_allocated)
    _compare(found, f"allocated to {item.application_id}", books.application_allocated[item.application_id], allocated)
    _compare(found, f"pending of {item.application_id}", books.application_pending[item.application_id], item.pending)


def _open_asks(item: ApplicationView) -> Iterator[tuple[AskName, int]]:
    for ask in item.asks:
        yield (item.application_id, ask.allocation_key, tuple(ask.resources.items())), ask.pending
