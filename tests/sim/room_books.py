"""Counts from facts alone what is used, kept and about to be free: on nodes and in queues, at every point of a history.

The rules about reservations and preemption speak of the moment at which something was decided; views show the end of a
step only.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedulerd.core.language.commands import (
    Command,
    NewAsk,
    RegisterResourceManager,
    UpdateAllocations,
    UpdateConfiguration,
)
from schedulerd.core.language.facts.configuration import ConfigurationUpdated
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    Fact,
    NodeChanged,
    ReleaseCause,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
)
from schedulerd.core.language.facts.preemption import Preempted, RoomMade
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnded
from schedulerd.core.language.lifecycles import NodeState, ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PartitionSpec, QueueProperties, QueueSpec
from schedulerd.core.views.values import QueueView
from tests.reference.changes import changed
from tests.reference.queue_paths import is_below
from tests.sim.clusters import TIMEOUTS

PartitionName = tuple[str, str]
"""Resource manager and partition."""


class Place(NamedTuple):
    """For which ask room is kept on which node; the number tells apart what is kept for several allocations of one."""

    application_id: str
    allocation_key: str
    node_id: str
    number: int

    @classmethod
    def of(cls, fact: Reserved | ReservationEnded | Preempted | RoomMade) -> Place:
        return cls(fact.application_id, fact.allocation_key, fact.node_id, fact.number)

    def is_of(self, fact: Allocated) -> bool:
        """Whether it is that of the allocation, which does not say the number."""
        return self[:3] == (fact.application_id, fact.allocation_key, fact.node_id)


@dataclass
class Kept:
    """Room that is kept for an ask."""

    fact: Reserved
    since_ns: int
    until_ns: int
    """When that ends, if nobody is on the way out for it."""
    victims: set[str] = field(default_factory=set)
    """Those asked to go for its sake that are still there."""
    asked_ns: int = 0
    """When the first of them was."""


@dataclass
class RoomBook:
    """One partition."""

    allocations: dict[str, Allocated] = field(default_factory=dict)
    """In the order in which they came, by UUID."""
    unclaimed: dict[str, AllocationUnclaimed] = field(default_factory=dict)
    leaving: dict[str, ReleaseRequested] = field(default_factory=dict)
    """Those of them that the RM was asked to release."""
    reservations: dict[Place, Kept] = field(default_factory=dict)
    """In the order in which they were made."""
    nodes: dict[str, NodeChanged] = field(default_factory=dict)
    spec: PartitionSpec | None = None
    """What the queue file says; None before it was heard of."""
    properties: dict[str, QueueProperties] = field(default_factory=dict)
    """By path, of the queues that the queue file names or named."""

    def available(self, node_id: str) -> Resources:
        node = self.nodes[node_id]
        left = node.capacity.minus(node.occupied)
        there: tuple[Allocated | AllocationUnclaimed, ...] = (*self.allocations.values(), *self.unclaimed.values())
        for one in there:
            if one.node_id == node_id:
                left.subtract(one.resources.items())
        return left

    def leaving_from(self, node_id: str) -> Resources:
        return _sum(self.allocations[uuid] for uuid in self._going() if self.allocations[uuid].node_id == node_id)

    def kept_on(self, node_id: str, *, but: Place | None = None, firm_only: bool = False) -> Resources:
        return _sum(
            one.fact
            for place, one in self.reservations.items()
            if place.node_id == node_id and place != but and (one.fact.entitled or not firm_only)
        )

    def before(self, place: Place) -> Resources:
        """What is kept on the node for those who are served before this one: firm ones first, then in their order."""
        mine = self.reservations[place].fact.entitled
        kept = Resources()
        is_earlier = True
        for other, one in self.reservations.items():
            is_earlier = is_earlier and other != place
            if other.node_id == place.node_id and other != place and (one.fact.entitled, is_earlier) > (mine, False):
                kept.add(one.fact.resources.items())
        return kept

    def used(self, path: str) -> Resources:
        return _sum(one for one in self.allocations.values() if is_below(one.queue, path))

    def staying(self, path: str) -> Resources:
        """What will be used when all has gone that was asked to."""
        going = _sum(self.allocations[uuid] for uuid in self._going() if is_below(self.allocations[uuid].queue, path))
        return self.used(path).minus(going)

    def quota_reserved(self, path: str, *, but: Place | None = None) -> Resources:
        """What asks below have a reserved right to."""
        return _sum(
            one.fact
            for place, one in self.reservations.items()
            if one.fact.entitled and place != but and is_below(one.fact.queue, path)
        )

    def entitled_reservations(self, application_id: str, key: str) -> int:
        """For how many allocations of the ask room is kept firmly."""
        same = (one for place, one in self.reservations.items() if place[:2] == (application_id, key))
        return sum(one.fact.entitled for one in same)

    def places(self, application_id: str, key: str) -> list[Place]:
        """Where room is kept for the ask."""
        return [place for place in self.reservations if place[:2] == (application_id, key)]

    def kept_for(self, path: str) -> Resources:
        """For asks below, firmly or not."""
        return _sum(one.fact for one in self.reservations.values() if is_below(one.fact.queue, path))

    def forget_queues(self, there: Container[str]) -> None:
        """Another queue of the same name as one that is gone starts anew."""
        self.properties = {path: one for path, one in self.properties.items() if path in there}

    def _going(self) -> Iterator[str]:
        """Whose room nobody takes in exchange."""
        return (uuid for uuid, request in self.leaving.items() if request.cause is not ReleaseCause.REPLACED)


class RoomBooks:
    """The books of all partitions, and what was ever asked for."""

    def __init__(self) -> None:
        self.by_name: dict[PartitionName, RoomBook] = {}
        self._asked: dict[tuple[str, str, str], list[NewAsk]] = {}
        self._sizes_asked: dict[str, Mapping[str, int]] = {}
        """The resources that an allocation was asked with, by UUID, if they or the UUID changed since."""
        self._specs: tuple[PartitionSpec, ...] = ()

    def hear(self, command: Command) -> None:
        """What the command says that no fact repeats."""
        self._specs = command.partitions if isinstance(command, RegisterResourceManager | UpdateConfiguration) else ()
        if isinstance(command, UpdateAllocations):
            for ask in command.asks:
                self._asked.setdefault((command.rm_id, ask.application_id, ask.allocation_key), []).append(ask)

    def asked(self, rm_id: str, application_id: str, key: str, size: Mapping[str, int], priority: int) -> list[NewAsk]:
        """All asks that may be meant: of these no fact tells apart the ones that minded ending from the others."""
        asks = self._asked.get((rm_id, application_id, key), [])
        return [one for one in asks if one.resources == size and one.priority == priority]

    def asked_for(self, one: Allocated) -> list[NewAsk]:
        """All asks that the allocation may be for. A resize changes its resources and nothing else."""
        size = self._sizes_asked.get(one.uuid, one.resources)
        return self.asked(one.rm_id, one.application_id, one.allocation_key, size, one.priority)

    def take(self, fact: Fact, now_ns: int) -> None:
        if isinstance(fact, AllocationChanged):
            self._sizes_asked[fact.uuid] = self._sizes_asked.pop(fact.old_uuid, fact.old_resources)
        match fact:
            case ResourceManagerChanged():
                if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
                    self.by_name = {name: book for name, book in self.by_name.items() if name[0] != fact.rm_id}
                    self._configure(fact.rm_id)
            case ConfigurationUpdated():
                self._configure(fact.rm_id)
            case (
                Allocated()
                | AllocationChanged()
                | ReleaseRequested()
                | Released()
                | AllocationUnclaimed()
                | UnclaimedEnded()
                | NodeChanged()
                | Reserved()
                | ReservationEnded()
                | Preempted()
            ):
                _enter(self.by_name.setdefault((fact.rm_id, fact.partition), RoomBook()), fact, now_ns)

    def _configure(self, rm_id: str) -> None:
        for spec in self._specs:
            book = self.by_name.setdefault((rm_id, spec.name), RoomBook())
            book.spec = spec
            book.properties.update(_properties(spec.root, ""))


def _enter(
    book: RoomBook,
    fact: Allocated
    | AllocationChanged
    | ReleaseRequested
    | Released
    | AllocationUnclaimed
    | UnclaimedEnded
    | NodeChanged
    | Reserved
    | ReservationEnded
    | Preempted,
    now_ns: int,
) -> None:
    match fact:
        case Allocated():
            book.allocations[fact.uuid] = fact
        case AllocationChanged():
            before = book.allocations.pop(fact.old_uuid)
            book.allocations[fact.uuid] = changed(before, fact)
            if fact.node_id != fact.old_node_id:
                for one in book.reservations.values():
                    one.victims.discard(fact.old_uuid)
        case ReleaseRequested():
            book.leaving[fact.uuid] = fact
        case Released():
            book.allocations.pop(fact.uuid, None)
            book.leaving.pop(fact.uuid, None)
            for one in book.reservations.values():
                one.victims.discard(fact.uuid)
        case AllocationUnclaimed():
            book.unclaimed[fact.uuid] = fact
        case UnclaimedEnded():
            book.unclaimed.pop(fact.uuid, None)
        case NodeChanged(state=NodeState.REMOVED):
            book.nodes.pop(fact.node_id, None)
        case NodeChanged():
            book.nodes[fact.node_id] = fact
        case Reserved():
            book.reservations[Place.of(fact)] = Kept(fact, now_ns, now_ns + TIMEOUTS.reservation_ns)
        case ReservationEnded():
            book.reservations.pop(Place.of(fact), None)
        case Preempted() if Place.of(fact) in book.reservations:
            kept = book.reservations[Place.of(fact)]
            kept.asked_ns = kept.asked_ns if kept.victims else now_ns
            kept.victims.update(uuid for _, uuid in fact.victims)


def exceeded(queue: QueueView, used: Resources, size: Resources) -> str | None:
    """The first resource of which the queue's own max has no room for so much."""
    over = (name for name, amount in size.items() if amount and used[name] + amount > queue.max.get(name, 2**63))
    return next(over, None)


def _sum(things: Iterable[Allocated | Reserved]) -> Resources:
    total = Resources()
    for one in things:
        total.add(one.resources.items())
    return total


def _properties(spec: QueueSpec, above: str) -> Iterator[tuple[str, QueueProperties]]:
    path = f"{above}{spec.name}"
    yield path, spec.properties
    for child in spec.children:
        yield from _properties(child, f"{path}.")
