"""Who had best be preempted for whom, worked out the slow way: every set of victims of every node.

It hears the facts, knows the specs of the queue file and what was asked for, and shares nothing else with the
scheduler. Nothing is kept up to date but lists of what runs, waits and is kept; all sums are made anew, and the rules
are those of the reference of entitlement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    AskAdded,
    AskWithdrawn,
    Fact,
    NodeChanged,
    Released,
    ReleaseRequested,
)
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import OptOut, QueueSpec
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.property.naive import exceeds
from tests.reference.entitlement import (
    OPTED_OUT,
    ORDINARY,
    ORIGINATOR,
    Cost,
    Demand,
    Entitlement,
    Occupant,
    QueueRules,
    cost,
)
from tests.reference.queue_paths import is_below, path_to_root

Order: TypeAlias = tuple[Cost, int, list[int]]
"""Of sets of one node: cost, number of victims, and their ages, the oldest first."""


@dataclass(eq=False)
class Running:
    """An allocation."""

    uuid: str
    ask: NewAsk
    queue: str
    node_id: str
    leaves: bool = False
    """It was asked to end."""


@dataclass
class Waiting:
    """An ask of which something is pending."""

    ask: NewAsk
    queue: str
    asked_at_ns: int
    pending: int = 0


@dataclass(frozen=True)
class Choice:
    """A set of victims that lets an ask in."""

    node_id: str
    victims: frozenset[str]
    order: Order
    lacks_room: bool
    """Whether the node itself does; else it is a quota for which they end, or for nothing that nobody does."""


def required_node(ask: NewAsk) -> str:
    return ask.tags.get(REQUIRED_NODE_TAG, "")


class Bench:
    """One partition as its facts tell it, and the rules of ending one for another."""

    def __init__(self, specs: Mapping[str, QueueSpec], opt_out: OptOut) -> None:
        self.specs = specs
        self.opt_out = opt_out
        self.now_ns = 0
        self.known_asks: dict[str, NewAsk] = {}
        """Everything that was ever asked for, by key."""
        self.nodes: dict[str, NodeChanged] = {}
        self.running: dict[str, Running] = {}
        """In the order in which they began."""
        self.waiting: dict[str, Waiting] = {}
        self.kept: dict[tuple[str, str, int], bool] = {}
        """Whether what is kept of a node (its id) for an ask (its key) is kept firmly; numbers tell apart what is kept
        for several allocations of one."""

    def hear(self, fact: Fact) -> None:
        match fact:
            case NodeChanged():
                self.nodes[fact.node_id] = fact
            case AskAdded():
                ask = self.known_asks[fact.allocation_key]
                waiting = self.waiting.setdefault(ask.allocation_key, Waiting(ask, fact.queue, self.now_ns))
                waiting.pending += fact.count
            case AskWithdrawn():
                self._less_pending(fact.allocation_key, fact.count)
            case Allocated():
                ask = self.known_asks[fact.allocation_key]
                self.running[fact.uuid] = Running(fact.uuid, ask, fact.queue, fact.node_id)
                self._less_pending(fact.allocation_key, 1)
            case AllocationChanged():
                one = self.running.pop(fact.old_uuid)
                ask = replace(one.ask, resources=fact.resources)
                self.running[fact.uuid] = replace(one, uuid=fact.uuid, ask=ask, node_id=fact.node_id)
            case ReleaseRequested():
                self.running[fact.uuid].leaves = True
            case Released():
                del self.running[fact.uuid]
            case Reserved():
                self.kept[fact.allocation_key, fact.node_id, fact.number] = fact.entitled
            case ReservationEnded():
                del self.kept[fact.allocation_key, fact.node_id, fact.number]

    def _less_pending(self, key: str, count: int) -> None:
        self.waiting[key].pending -= count
        if not self.waiting[key].pending:
            del self.waiting[key]

    # sums -----------------------------------------------------------------------------------------------------------

    def used(self, queue: str, *, stays: bool) -> Resources:
        """What is allocated in the queue and below: all of it, or what was not asked to end."""
        sizes = (one.ask.resources for one in self.running.values() if is_below(one.queue, queue))
        leaving = (one.ask.resources for one in self.running.values() if one.leaves and is_below(one.queue, queue))
        return summed(sizes).minus(summed(leaving)) if stays else summed(sizes)

    def quota_reserved(self, queue: str) -> Resources:
        """What asks of the queue and below will use that have a right to a node."""
        return summed(
            self.known_asks[key].resources
            for (key, _, _), entitled in self.kept.items()
            if entitled and is_below(self.waiting[key].queue, queue)
        )

    def entitled_reserved(self, key: str, node_id: str = "") -> int:
        """For how many allocations of the ask room is kept firmly: on all nodes, or on that one."""
        return sum(entitled for (one, node, _), entitled in self.kept.items() if one == key and node_id in ("", node))

    def lacking(self, ask: NewAsk, node_id: str, number: int = 0) -> dict[str, int]:
        """What the node lacks for the ask when all that was asked to end has ended.

        What others have a right to there is not to be had; those who may run on that node only stand in line for it.
        What is kept there for the ask with this number is meant for this allocation.
        """
        node = self.nodes[node_id]
        room = node.capacity.minus(node.occupied)
        for one in self.on(node_id):
            if not one.leaves:
                room = room.minus(one.ask.resources)
        entitled = [place for place, is_entitled in self.kept.items() if is_entitled and place[1] == node_id]
        if number:
            own = entitled.index((ask.allocation_key, node_id, number))
            entitled = entitled[:own] + ([] if required_node(ask) else entitled[own + 1 :])
        room = room.minus(summed(self.known_asks[key].resources for key, _, _ in entitled))
        return {name: amount - room[name] for name, amount in ask.resources.items() if amount > room[name]}

    def gets_room(self, waiting: Waiting, node_id: str) -> bool:
        """Whether the node has room when all that was asked to end has ended, beside all that is kept for others."""
        key = waiting.ask.allocation_key
        aging = [
            one for (one, node, _), entitled in self.kept.items() if node == node_id and not entitled and one != key
        ]
        node = self.nodes[node_id]
        stays = summed(one.ask.resources for one in self.on(node_id) if not one.leaves)
        entitled_ones = [one for (one, where, _), entitled in self.kept.items() if where == node_id and entitled]
        room = node.capacity.minus(node.occupied).minus(stays)
        room = room.minus(summed(self.known_asks[one].resources for one in (*aging, *entitled_ones)))
        return room.lacks(waiting.ask.resources.canonical()) is None

    def on(self, node_id: str) -> list[Running]:
        """Oldest first."""
        return [one for one in self.running.values() if one.node_id == node_id]

    def numbers_of(self, key: str) -> list[int]:
        """The numbers of what is kept firmly for the ask, in order."""
        return [number for (one, _, number), entitled in self.kept.items() if entitled and one == key]

    # rules ----------------------------------------------------------------------------------------------------------

    def exceeds_quota(self, waiting: Waiting, *, stays: bool = False) -> bool:
        """Whether a quota does not let it in, with all entitled reservations; its own is the last of these.

        With `stays`, not even when all that was asked to end has ended.
        """
        own = waiting.ask.resources if self.entitled_reserved(waiting.ask.allocation_key) else Resources()
        for path in path_to_root(waiting.queue):
            used = self.used(path, stays=stays).plus(self.quota_reserved(path)).minus(own)
            if exceeds(used, waiting.ask.resources, self.specs[path].max):
                return True
        return False

    def entitlement(self, waiting: Waiting) -> Entitlement:
        """What the rules say of the ask as things are."""
        ask = waiting.ask
        demand = Demand(ask.application_id, waiting.queue, ask.priority, ask.resources, required_node(ask))
        return Entitlement(demand, self._rules, self, self.opt_out)

    def staying(self, queue: str) -> Resources:
        return self.used(queue, stays=True)

    def reserved(self, queue: str) -> Resources:
        return self.quota_reserved(queue)

    def _rules(self, path: str) -> QueueRules:
        spec = self.specs[path]
        one = spec.properties
        return QueueRules(
            spec.guaranteed,
            spec.max,
            one.preemption_policy,
            one.priority_policy,
            one.priority_offset,
            one.preemption_within_queue,
        )

    # the best -------------------------------------------------------------------------------------------------------

    def choices_on(self, waiting: Waiting, node_id: str, number: int = 0) -> list[Choice]:
        """All sets that let the ask in on the node, but for those with more in them than another; `number` as for
        `lacking`.

        They run there, or anywhere if the node does not lack anything but a quota does.
        """
        lacking = self.lacking(waiting.ask, node_id, number)
        here = self.on(node_id)
        entitlement = self.entitlement(waiting)
        need = entitlement.need(lacking)
        if required_node(waiting.ask):
            total: Mapping[str, int] = self.nodes[node_id].capacity
        else:
            total = summed(node.capacity for node in self.nodes.values())
            here = here if lacking else list(self.running.values())
        may = [one for one in map(occupant, here) if entitlement.objection(one, need) is None]
        return [
            Choice(node_id, frozenset(one.uuid for one in victims), order(victims, here, total), bool(lacking))
            for victims in entitlement.victim_sets(need, may)
        ]

    def choices(self, waiting: Waiting) -> Iterator[Choice]:
        """All sets of all nodes that let the ask in; none if it has no right to anything, or no quota, nor by priority
        alone if a node gets room."""
        entitlement = self.entitlement(waiting)
        has_priority_only = not entitlement.has_guarantee and not entitlement.lacking
        if has_priority_only and any(
            self.may_preempt(waiting, one) and self.gets_room(waiting, one) for one in self.nodes
        ):
            return
        for node_id in self.nodes:
            if self.may_preempt(waiting, node_id):
                yield from self.choices_on(waiting, node_id)

    def may_preempt(self, waiting: Waiting, node_id: str) -> bool:
        """Whether the ask has any right, and would fit on the node if no other application ran there."""
        node, ask = self.nodes[node_id], waiting.ask
        own = summed(one.ask.resources for one in self.on(node_id) if one.ask.application_id == ask.application_id)
        fits = node.capacity.minus(node.occupied).minus(own).lacks(ask.resources.canonical()) is None
        return fits and node.state is NodeState.SCHEDULABLE and self.entitlement(waiting).is_entitled

    def best(self, waiting: Waiting) -> Choice | None:
        """The one that does least cost; of equal nodes one with room, and then the first: by id in this world."""
        return min(self.choices(waiting), key=lambda one: (one.order[:2], one.lacks_room, one.node_id), default=None)


def summed(sizes: Iterable[Resources]) -> Resources:
    total = Resources()
    for size in sizes:
        total = total.plus(size)
    return total


def occupant(one: Running) -> Occupant:
    ask = one.ask
    kind = ORIGINATOR if ask.originator else ORDINARY if ask.allow_preempt_self else OPTED_OUT
    return Occupant(
        one.uuid,
        ask.application_id,
        one.queue,
        one.node_id,
        ask.priority,
        ask.resources,
        kind,
        not ask.allow_preempt_self,
        one.leaves,
        bool(required_node(ask)),
    )


def order(victims: tuple[Occupant, ...], here: list[Running], total: Mapping[str, int]) -> Order:
    """The smaller the better."""
    places = {one.uuid: at for at, one in enumerate(here)}
    ages = sorted((len(here) - places[one.uuid] for one in victims), reverse=True)
    return cost(victims, total), len(victims), ages
