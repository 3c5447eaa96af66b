"""Who may be ended for whom, and who had best be, worked out the slow way: every set of every node, by the rules alone.

It hears the facts, knows the specs of the queue file and what was asked for, and shares nothing else with the
scheduler. Nothing is kept up to date but lists of what runs, waits and is kept; all sums are made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from schedulerd.core.commands import NewAsk
from schedulerd.core.facts import (
    Allocated,
    AskAdded,
    AskWithdrawn,
    Fact,
    NodeChanged,
    Released,
    ReleaseRequested,
)
from schedulerd.core.lifecycles import NodeState
from schedulerd.core.model.partition import REQUIRED_NODE_TAG
from schedulerd.core.preemption_facts import ReservationEnded, Reserved
from schedulerd.core.resources import Resources
from schedulerd.core.specs import OptOut, PreemptionPolicy, PriorityPolicy, QueueSpec
from tests.property.naive import exceeds, is_within, path_to_root

Cost: TypeAlias = list[tuple[tuple[int, int], Fraction]]
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


def below(queue: str, common: str) -> list[str]:
    """The queue and those above it, up to but without `common`, leaf first."""
    return [path for path in reversed(path_to_root(queue)) if path != common and is_within(path, common)]


def common_queue(one: str, other: str) -> str:
    """The lowest queue that holds both."""
    return [path for path in path_to_root(one) if is_within(other, path)][-1]


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
        self.kept: dict[tuple[str, str], bool] = {}
        """Whether what is kept of a node (its id) for an ask (its key) is kept firmly."""

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
            case ReleaseRequested():
                self.running[fact.uuid].leaves = True
            case Released():
                del self.running[fact.uuid]
            case Reserved():
                self.kept[fact.allocation_key, fact.node_id] = fact.entitled
            case ReservationEnded():
                del self.kept[fact.allocation_key, fact.node_id]

    def _less_pending(self, key: str, count: int) -> None:
        self.waiting[key].pending -= count
        if not self.waiting[key].pending:
            del self.waiting[key]

    # sums -----------------------------------------------------------------------------------------------------------

    def used(self, queue: str, *, stays: bool) -> Resources:
        """What is allocated in the queue and below: all of it, or what was not asked to end."""
        sizes = (one.ask.resources for one in self.running.values() if is_within(one.queue, queue))
        leaving = (one.ask.resources for one in self.running.values() if one.leaves and is_within(one.queue, queue))
        return summed(sizes).minus(summed(leaving)) if stays else summed(sizes)

    def claimed(self, queue: str) -> Resources:
        """What asks of the queue and below will use that have a right to a node."""
        return summed(
            self.known_asks[key].resources
            for (key, _), entitled in self.kept.items()
            if entitled and is_within(self.waiting[key].queue, queue)
        )

    def entitled_reserved(self, key: str, node_id: str = "") -> int:
        """On how many nodes, or whether on that one, room is kept firmly for the ask."""
        return sum(entitled for (one, node), entitled in self.kept.items() if one == key and node_id in ("", node))

    def lacking(self, ask: NewAsk, node_id: str) -> dict[str, int]:
        """What the node lacks for the ask when all that was asked to end has ended.

        What others have a right to there is not to be had; those who may run on that node only stand in line for it.
        """
        node = self.nodes[node_id]
        room = node.capacity.minus(node.occupied)
        for one in self.on(node_id):
            if not one.leaves:
                room = room.minus(one.ask.resources)
        claims = [key for (key, where), entitled in self.kept.items() if entitled and where == node_id]
        if ask.allocation_key in claims:
            own = claims.index(ask.allocation_key)
            claims = claims[:own] + ([] if required_node(ask) else claims[own + 1 :])
        room = room.minus(summed(self.known_asks[key].resources for key in claims))
        return {name: amount - room[name] for name, amount in ask.resources.items() if amount > room[name]}

    def on(self, node_id: str) -> list[Running]:
        """Oldest first."""
        return [one for one in self.running.values() if one.node_id == node_id]

    # rules ----------------------------------------------------------------------------------------------------------

    def exceeds_quota(self, waiting: Waiting, *, stays: bool = False) -> bool:
        """Whether a quota does not let it in, with all that has a claim; its own is the last of these.

        With `stays`, not even when all that was asked to end has ended.
        """
        own = waiting.ask.resources if self.entitled_reserved(waiting.ask.allocation_key) else Resources()
        for path in path_to_root(waiting.queue):
            used = self.used(path, stays=stays).plus(self.claimed(path)).minus(own)
            if exceeds(used, waiting.ask.resources, self.specs[path].max):
                return True
        return False

    def lacking_quota(self, waiting: Waiting) -> tuple[dict[str, int], str]:
        """What the maxima lack for it when all that was asked to end has ended; and the lowest such queue, or ''."""
        lacking: dict[str, int] = {}
        full = ""
        for path in path_to_root(waiting.queue):
            for name, most in self.specs[path].max.items():
                amount = waiting.ask.resources[name]
                short = self.in_use(path)[name] + amount - most
                if amount and short > 0:
                    lacking[name] = max(lacking.get(name, 0), short)
                    full = path
        return lacking, full

    def in_use(self, queue: str) -> Resources:
        return self.used(queue, stays=True).plus(self.claimed(queue))

    def rights(self, waiting: Waiting, common: str) -> set[str]:
        """The resources the ask has a right to against what runs beside it below `common`."""
        way = below(waiting.queue, common)
        if any(self.specs[path].properties.preemption_policy is PreemptionPolicy.FENCE for path in way):
            return set()
        if not is_within(common, self.lacking_quota(waiting)[1] or "root"):
            return set()
        found = set()
        for name, amount in waiting.ask.resources.items():
            guaranteed = [(path, self.specs[path].guaranteed[name]) for path in way]
            having = [(path, most) for path, most in guaranteed if most]
            if amount and having and all(self.in_use(path)[name] + amount <= most for path, most in having):
                found.add(name)
        return found

    def is_entitled(self, waiting: Waiting) -> bool:
        return any(self.rights(waiting, common) for common in path_to_root(waiting.queue)[:-1])

    def shown_priority(self, priority: int, way: list[str]) -> int:
        """How a priority looks from above the queues of the way."""
        for path in way:
            properties = self.specs[path].properties
            is_fenced = properties.priority_policy is PriorityPolicy.FENCE
            priority = properties.priority_offset + (0 if is_fenced else priority)
        return priority

    def may_end(self, one: Running, waiting: Waiting) -> bool:
        """Whether nothing but guarantees might be against ending it for the ask."""
        common = common_queue(one.queue, waiting.queue)
        theirs = self.shown_priority(one.ask.priority, below(one.queue, common))
        own = self.shown_priority(waiting.ask.priority, below(waiting.queue, common))
        return self._is_fair_game(one, waiting) and one.queue != waiting.queue and theirs <= own

    def may_end_for_its_only_node(self, one: Running, waiting: Waiting) -> bool:
        """Likewise for an ask that may run on that node only; guarantees are not looked at there."""
        return self._is_fair_game(one, waiting) and one.ask.priority <= waiting.ask.priority

    def _is_fair_game(self, one: Running, waiting: Waiting) -> bool:
        return (
            not one.leaves
            and (one.ask.allow_preempt_self or self.opt_out is OptOut.LAST)
            and not required_node(one.ask)
            and one.ask.application_id != waiting.ask.application_id
            and self.specs[one.queue].properties.preemption_policy is not PreemptionPolicy.DISABLED
        )

    def breaks_guarantee(self, victims: tuple[Running, ...], waiting: Waiting) -> bool:
        """Whether a queue of a victim that does not hold the ask would have less than guaranteed of what that uses."""
        for one in victims:
            for path in below(one.queue, common_queue(one.queue, waiting.queue)):
                taken = summed(other.ask.resources for other in victims if is_within(other.queue, path))
                left, guaranteed = self.used(path, stays=True).minus(taken), self.specs[path].guaranteed
                if any(guaranteed[name] and left[name] < guaranteed[name] for name, _ in one.ask.resources.canonical()):
                    return True
        return False

    # the best -------------------------------------------------------------------------------------------------------

    def choices_on(self, waiting: Waiting, node_id: str) -> list[Choice]:
        """All sets that let the ask in on the node, but for those with more in them than another.

        They run there, or anywhere if the node does not lack anything but a quota does.
        """
        lacking = self.lacking(waiting.ask, node_id)
        here = self.on(node_id)
        if required_node(waiting.ask):
            may = [one for one in here if self.may_end_for_its_only_node(one, waiting)]
            total, need = self.nodes[node_id].capacity, lacking
        else:
            quota = self.lacking_quota(waiting)[0]
            need = {name: max(lacking.get(name, 0), quota.get(name, 0)) for name in {*lacking, *quota}}
            total = summed(node.capacity for node in self.nodes.values())
            here = here if lacking else list(self.running.values())
            commons = [common for common in path_to_root(waiting.queue) if need.keys() <= self.rights(waiting, common)]
            may = [
                one for one in here if common_queue(one.queue, waiting.queue) in commons and self.may_end(one, waiting)
            ]
        return [
            Choice(node_id, frozenset(one.uuid for one in victims), order(victims, here, total), bool(lacking))
            for victims in self._sets(need, may, waiting)
        ]

    def _sets(
        self, need: Mapping[str, int], of: list[Running], waiting: Waiting, taken: tuple[Running, ...] = ()
    ) -> Iterator[tuple[Running, ...]]:
        """All sets that free what is needed and break no guarantee; with no more in them than that, as whoever is ended
        besides does cost besides."""
        if all(amount <= 0 for amount in need.values()):
            yield taken
            return
        for at, one in enumerate(of):
            victims = (*taken, one)
            if required_node(waiting.ask) or not self.breaks_guarantee(victims, waiting):
                rest = {name: amount - one.ask.resources[name] for name, amount in need.items()}
                yield from self._sets(rest, of[at + 1 :], waiting, victims)

    def choices(self, waiting: Waiting) -> Iterator[Choice]:
        """All sets of all nodes that let the ask in; none if it has no right to anything, or no quota."""
        for node_id in self.nodes:
            if self.may_claim(waiting, node_id):
                yield from self.choices_on(waiting, node_id)

    def may_claim(self, waiting: Waiting, node_id: str) -> bool:
        """Whether the ask has any right, and would fit on the node if no other application ran there."""
        node, ask = self.nodes[node_id], waiting.ask
        own = summed(one.ask.resources for one in self.on(node_id) if one.ask.application_id == ask.application_id)
        fits = node.capacity.minus(node.occupied).minus(own).lacks(ask.resources.canonical()) is None
        is_taken = (
            self.entitled_reserved(waiting.ask.allocation_key, node_id) or node.state is not NodeState.SCHEDULABLE
        )
        return fits and not is_taken and not self.is_beyond_its_leaf(waiting) and self.is_entitled(waiting)

    def is_beyond_its_leaf(self, waiting: Waiting) -> bool:
        """Whether the quota of its own leaf keeps it out, whoever ends elsewhere."""
        return self.lacking_quota(waiting)[1] == waiting.queue

    def best(self, waiting: Waiting) -> Choice | None:
        """The one that does least cost; of equal nodes one with room, and then the first: by id in this world."""
        return min(self.choices(waiting), key=lambda one: (one.order[:2], one.lacks_room, one.node_id), default=None)


def summed(sizes: Iterable[Resources]) -> Resources:
    total = Resources()
    for size in sizes:
        total = total.plus(size)
    return total


def order(victims: tuple[Running, ...], here: list[Running], total: Mapping[str, int]) -> Order:
    """The smaller the better: kind by kind and priority by priority, the most protected first, the weight taken."""
    weights: dict[tuple[int, int], Fraction] = {}
    for one in victims:
        kind = 2 if one.ask.originator else 0 if one.ask.allow_preempt_self else 1
        rank = (kind, one.ask.priority)
        for name, amount in one.ask.resources.canonical():
            share = Fraction(amount, total[name]) if total[name] else Fraction()  # no node has any of it left
            weights[rank] = weights.get(rank, Fraction()) + share
    ages = sorted((len(here) - here.index(one) for one in victims), reverse=True)
    return sorted(weights.items(), reverse=True), len(victims), ages
