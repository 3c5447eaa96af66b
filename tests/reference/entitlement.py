"""The reference of entitlement: to what an ask is entitled, which allocations may be its victims, and which cost least.

It goes by the rules alone: guarantees and maxima queue by queue, priorities as the queues show them, all victim sets.

It shares nothing with the core but the values of the queue file, and keeps nothing: who asks it says what is used. The
simulator asks with the books that it keeps from facts (`tests.sim.booked_entitlement`), the property tests with a
cluster whose facts they heard (`tests.property.naive_victims`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import OptOut, PreemptionPolicy, PriorityPolicy, WithinQueue
from tests.reference.queue_paths import below, common_queue, is_below, path_to_root

WEIGHT_OF_ALL = 10**30
"""What all of a resource weighs; weights are whole numbers, as in the core, so that they round as there."""
INT32 = 2**31

Cost: TypeAlias = tuple[tuple[tuple[int, int], int], ...]
"""Weight by kind and priority, the most protected first; of two, the smaller is the lesser cost."""

ORDINARY, OPTED_OUT, ORIGINATOR = 0, 1, 2
"""Kinds of victims, the most protected last."""


class QueueRules(NamedTuple):
    """What holds in a queue."""

    guaranteed: Mapping[str, int]
    max: Mapping[str, int]
    preemption_policy: PreemptionPolicy
    priority_policy: PriorityPolicy
    priority_offset: int
    within_queue: WithinQueue = WithinQueue.OFF


class Demand(NamedTuple):
    """One pending allocation of an ask."""

    application_id: str
    queue: str
    priority: int
    resources: Mapping[str, int]
    required_node: str
    is_part_of_gang: bool = False
    """Whether it is a placeholder beside which others of its gang are pending."""


class Occupant(NamedTuple):
    """An allocation that may be a victim."""

    uuid: str
    application_id: str
    queue: str
    node_id: str
    priority: int
    resources: Resources
    kind: int
    is_opted_out: bool
    is_leaving: bool
    """The resource manager was asked to release it."""
    has_required_node: bool


class Usage(Protocol):
    """What is used at the moment that is judged."""

    def staying(self, queue: str) -> Resources:
        """What will be used in the queue and below when all has gone that was asked to."""

    def reserved(self, queue: str) -> Resources:
        """What entitled reservations of others hold in the queue and below."""


class Entitlement:
    """One demand at one moment: to what it is entitled, and what that takes."""

    def __init__(self, demand: Demand, rules: Callable[[str], QueueRules], usage: Usage, opt_out: OptOut) -> None:
        self.demand = demand
        self.way = path_to_root(demand.queue)[::-1]
        """From the leaf to the root."""
        self._size = {name: amount for name, amount in demand.resources.items() if amount}
        self._rules = rules
        self._usage = usage
        self._opt_out = opt_out
        within = rules(demand.queue).within_queue is WithinQueue.PRIORITY
        self.preempts_within = within and not demand.is_part_of_gang and not demand.required_node
        """Whether it may preempt by priority in its own leaf."""
        self._in_use = {path: usage.staying(path).plus(usage.reserved(path)) for path in self.way}
        self.lacking, self.limiting_queue = self._short_of_quota()
        """What the maxima lack for it, and the level of the lowest queue that does; victims are below that one."""
        self.entitled = [self._entitled(level) for level in range(len(self.way))]
        """The resources that are guaranteed to it against what runs below each queue of the way; one is short."""

    def _short_of_quota(self) -> tuple[dict[str, int], int | None]:
        lacking: dict[str, int] = {}
        limiting = None
        for level, path in enumerate(self.way):
            most = self._rules(path).max
            for name, amount in self._size.items():
                if name in most and self._in_use[path][name] + amount > most[name]:
                    lacking[name] = max(lacking.get(name, 0), self._in_use[path][name] + amount - most[name])
                    limiting = level if limiting is None else limiting
        return lacking, limiting

    def _entitled(self, level: int) -> set[str]:
        if level == 0:
            return set(self._size) if self.preempts_within else set()
        way = [(path, self._rules(path)) for path in self.way[:level]]
        if any(rules.preemption_policy is PreemptionPolicy.FENCE for _, rules in way):
            return set()
        if self.limiting_queue is not None and level > self.limiting_queue:
            return set()
        named = {(path, name) for path, rules in way for name in self._size if rules.guaranteed.get(name)}
        for path, name in named:
            if self._in_use[path][name] + self._size[name] > self._rules(path).guaranteed[name]:
                return set()
        return {name for _, name in named}

    @property
    def is_entitled(self) -> bool:
        """Whether others are preempted for it at all, as far as its own queues go; for the sake of a quota never if it
        has a required node."""
        return not self.lacking if self.demand.required_node else any(self.entitled)

    @property
    def has_guarantee(self) -> bool:
        """Whether it may take room of other queues, or room that is about to be free; priority is no right to it."""
        return bool(self.demand.required_node) or any(self.entitled[1:])

    @property
    def is_beyond_its_leaf(self) -> bool:
        """Whether the max of its own leaf keeps it out, whoever is preempted elsewhere."""
        return self.limiting_queue == 0 and not self.preempts_within

    # one victim -----------------------------------------------------------------------------------------------------

    def objection(self, one: Occupant, need: Iterable[str]) -> str | None:
        """What is against this victim, whoever else is one; `need` is of what room is lacking."""
        text = self._objection_to_any(one)
        if text is not None:
            return text
        if self.demand.required_node:
            if one.priority > self.demand.priority:
                return f"its priority is {one.priority}, that of the ask {self.demand.priority}"
            return None
        if one.queue == self.demand.queue:
            if not self.preempts_within:
                return "runs in the same leaf"
            is_lower = one.priority < self.demand.priority
            return None if is_lower else f"its priority is {one.priority}, not below {self.demand.priority}"
        top = common_queue(one.queue, self.demand.queue)
        entitled = self.entitled[self.way.index(top)]
        if not set(need) & entitled:
            return f"of {sorted(need)}, its queue has a right to nothing, but to {sorted(entitled)}"
        theirs = self._shown(one.priority, below(one.queue, top))
        mine = self._shown(self.demand.priority, below(self.demand.queue, top))
        return f"its priority is {theirs} there, that of the ask {mine}" if theirs > mine else None

    def _objection_to_any(self, one: Occupant) -> str | None:
        if one.is_opted_out and self._opt_out is OptOut.NEVER:
            return "is opted out of preemption"
        if one.is_leaving:
            return "is on its way out already"
        if one.has_required_node:
            return "may run on this node only"
        if one.application_id == self.demand.application_id:
            return "is of the same application"
        is_exempt = self._rules(one.queue).preemption_policy is PreemptionPolicy.DISABLED
        return "may not be ended" if is_exempt else None

    def _shown(self, priority: int, paths: Iterable[str]) -> int:
        """How a priority looks from above these queues."""
        for path in paths:
            rules = self._rules(path)
            if rules.priority_policy is PriorityPolicy.FENCE:
                priority = rules.priority_offset
            else:
                priority = max(-INT32, min(INT32 - 1, priority + rules.priority_offset))
        return priority

    # sets of victims ------------------------------------------------------------------------------------------------

    def need(self, short: Mapping[str, int]) -> dict[str, int]:
        """What victims have to free for a node that is short of so much: that, and what the maxima lack."""
        lacking = {} if self.demand.required_node else self.lacking
        return {name: max(short.get(name, 0), lacking.get(name, 0)) for name in {**short, **lacking}}

    def broken_guarantees(self, victims: Sequence[Occupant], need: Iterable[str]) -> Iterator[str]:
        """What is against these victims by the guarantees of queues that hold one and not the ask, which is short of
        `need`; a required node does not ask for that."""
        for one in victims if not self.demand.required_node else ():
            for path in below(one.queue, common_queue(one.queue, self.demand.queue)):
                guaranteed, staying = self._rules(path).guaranteed, self._usage.staying(path)
                yield from broken_guarantee(path, guaranteed, one, victims, staying, need)

    def victim_sets(
        self, need: Mapping[str, int], of: Sequence[Occupant], most: int | None = None
    ) -> Iterator[tuple[Occupant, ...]]:
        """All sets of these that free what is needed and break no guarantee, of `most` victims or any number; none that
        goes on when enough is free, as whoever is a victim besides costs besides."""
        if not need and not self.has_guarantee:
            return iter(())
        return self._victim_sets(need, of, len(of) if most is None else most, ())

    def _victim_sets(
        self, need: Mapping[str, int], of: Sequence[Occupant], most: int, taken: tuple[Occupant, ...]
    ) -> Iterator[tuple[Occupant, ...]]:
        """`need` is what is still needed; what it names stays the same."""
        if all(amount <= 0 for amount in need.values()):
            yield taken
            return
        for at, one in enumerate(of if most > len(taken) else ()):
            victims = (*taken, one)
            if not any(self.broken_guarantees(victims, need)):
                rest = {name: amount - one.resources[name] for name, amount in need.items()}
                yield from self._victim_sets(rest, of[at + 1 :], most, victims)


def broken_guarantee(
    path: str,
    guaranteed: Mapping[str, int],
    one: Occupant,
    victims: Iterable[Occupant],
    staying: Resources,
    need: Iterable[str],
) -> Iterator[str]:
    """What the guarantee of a queue above one of the victims has against it, if all of them went for `need`: the queue
    would be short of something needed, or could ask back this one with the same guarantee."""
    left = staying.plus(Resources())
    for victim in victims:
        if is_below(victim.queue, path):
            left.subtract(victim.resources.items())
    named = {name: amount for name, amount in one.resources.items() if amount and guaranteed.get(name, 0)}
    for name in set(named) & set(need):
        if guaranteed[name] > left[name]:
            yield f"{one.uuid} leaves {name} {left[name]} to {path}, which is guaranteed {guaranteed[name]}"
    if named and all(left[name] + amount <= guaranteed[name] for name, amount in named.items()):
        yield f"{one.uuid} could be asked back by {path}, which is guaranteed {guaranteed} and is left {left}"


def frees(victims: Iterable[Occupant], need: Mapping[str, int]) -> bool:
    """Whether they use at least so much."""
    victims = list(victims)
    return all(sum(one.resources[name] for one in victims) >= amount for name, amount in need.items())


def cost(victims: Iterable[Occupant], total: Mapping[str, int]) -> Cost:
    """Kind by kind and priority by priority, weighed by what there is of each resource."""
    unit = {name: WEIGHT_OF_ALL // amount for name, amount in total.items() if amount > 0}
    weights: dict[tuple[int, int], int] = {}
    for one in victims:
        rank = one.kind, one.priority
        weight = sum(amount * unit.get(name, 0) for name, amount in one.resources.items())
        weights[rank] = weights.get(rank, 0) + weight
    return tuple(sorted(weights.items(), reverse=True))
