"""Which of some allocations to end, so that enough room comes free and as little cost as possible is done.

cost is counted by rank: what is taken of the most protected rank weighs most, whatever is spared of the others. Within
a rank it is the weight of what is taken, and of equal sets the one with fewer and younger victims is best.

Allocations that are alike (same rank, queue and size) are interchangeable, so only their number is searched for; that
keeps an exact search small on any real node. Where it would not be, it stops at a bound and takes the best found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from schedulerd.core.model.allocation import Allocation
from schedulerd.core.resources import Items
from schedulerd.core.specs import OptOut

STEPS_MAX = 2_000
"""How many choices of the search are looked at on one node."""
PART_STEPS_MAX = 200
"""Likewise for a part of what is needed, of which there may be hundreds."""
KINDS_MAX = 100
"""With more kinds of candidates there is no exact search: it would go too deep."""

_WEIGHT_OF_ALL = 10**30
"""What all of a resource weighs."""

Rank: TypeAlias = tuple[int, int]
"""Kind of the allocation (ordinary, opted out, originator), then priority: the higher, the more protected."""

Cost: TypeAlias = tuple[tuple[Rank, int], ...]
"""Weight taken of each rank, the most protected first; ranks of which nothing is taken are left out."""


class Budget:
    """What may be taken of a queue, so that it keeps its guarantee; a resource that is not guaranteed has no entry."""

    __slots__ = ("left",)

    def __init__(self, left: dict[str, int]) -> None:
        self.left = left

    def times(self, items: Items) -> int | None:
        """How often so much may be taken; None for any number."""
        left = self.left
        return min((max(0, left[name]) // amount for name, amount in items if name in left), default=None)

    def take(self, items: Items, times: int) -> None:
        for name, amount in items:
            if name in self.left:
                self.left[name] -= amount * times


class WorkBudget:
    """How much was looked at to find out who might end; it is what is bounded and counted instead of time."""

    __slots__ = ("visits",)

    def __init__(self) -> None:
        self.visits = 0
        """Queues, nodes, allocations and choices of a set."""


class Candidate(NamedTuple):
    """An allocation that may be ended, and what its queues can spare."""

    allocation: Allocation
    rank: Rank
    weight: int
    budgets: tuple[Budget, ...]


class VictimSet(NamedTuple):
    """What to end, the least protected first, and the cost of it."""

    victims: tuple[Allocation, ...]
    cost: Cost

    def order(self) -> tuple[Cost, int]:
        """The smallest is the best."""
        return self.cost, len(self.victims)


def may_end(allocation: Allocation) -> bool:
    """Whether it may be ended for others at all, whoever they are: not what is on its way out, must run on its node, or
    is opted out (SI `allowPreemptSelf`; SEMANTICS I1)."""
    if allocation.releasing is not None or allocation.request_class.required_node:
        return False
    spec = allocation.application.partition.spec
    return allocation.spec.allow_preempt_self or spec.preemption_optout is OptOut.LAST


def candidate(allocation: Allocation, unit: Mapping[str, int], budgets: tuple[Budget, ...] = ()) -> Candidate:
    """`unit` is the weight of one of each resource."""
    weight = sum([amount * unit.get(name, 0) for name, amount in allocation.request_class.items])
    return Candidate(allocation, rank_of(allocation), weight, budgets)


def unit_weights(total: Mapping[str, int]) -> dict[str, int]:
    """What one of each resource weighs, so that the total of each weighs the same."""
    return {name: _WEIGHT_OF_ALL // amount for name, amount in total.items() if amount > 0}


def rank_of(allocation: Allocation) -> Rank:
    """Originators are the last to be ended, before them those that are opted out, if these may be ended."""
    spec = allocation.spec
    return 2 if spec.originator else 0 if spec.allow_preempt_self else 1, spec.priority


def smallest_set(
    candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int], budget: WorkBudget | None = None
) -> VictimSet | None:
    """The least harmful set that frees `need`, or None if there is none within the budgets.

    `candidates` come youngest first; `unit` is the weight of one of each resource; the choices are added to `budget`.
    """
    search = _Search(_kinds(candidates, need), need, unit, STEPS_MAX)
    best = search.exact()
    if best is None and not search.was_complete:
        best = search.greedy()
    if budget is not None:
        budget.visits += search.steps
    if best is None:
        return None
    return VictimSet(best.victims(), best.cost)


def beside(candidates: Iterable[Candidate], victims: Sequence[Allocation], most: int) -> tuple[Allocation, ...]:
    """Up to `most` of the candidates that may be ended when all the victims have ended, which are among them: the least
    protected first, and no more than the budgets leave, from which they are taken."""
    ended, rest = set(victims), []
    for one in candidates:
        if one.allocation in ended:
            for budget in one.budgets:
                budget.take(one.allocation.request_class.items, 1)
        else:
            rest.append(one)
    found: list[Allocation] = []
    for one in sorted(rest, key=lambda one: one.rank):
        items = one.allocation.request_class.items
        if len(found) < most and all(budget.times(items) != 0 for budget in one.budgets):
            for budget in one.budgets:
                budget.take(items, 1)
            found.append(one.allocation)
    return tuple(found)


def harmless_part(
    candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int], budget: WorkBudget
) -> tuple[Allocation, ...]:
    """The least harmful set that frees `need`; if there is none, as much as the budgets allow, harmless first."""
    search = _Search(_kinds(candidates, need), need, unit, PART_STEPS_MAX)
    best = search.exact() or search.greedy(enough=False)
    budget.visits += search.steps
    return best.victims() if best is not None else ()


@dataclass(slots=True)
class _Kind:
    """Candidates that are alike."""

    rank: Rank
    items: Items
    frees: tuple[int, ...]
    """What each of them frees of the resources that are needed, in their order."""
    weight: int
    budgets: tuple[Budget, ...]
    members: list[Allocation] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    """Of each member its place among all candidates, the youngest is 0."""

    def most(self) -> int:
        """How many of them the budgets allow."""
        most = len(self.members)
        for budget in self.budgets:
            times = budget.times(self.items)
            if times is not None and times < most:
                most = times
        return most


def _kinds(candidates: Iterable[Candidate], need: Mapping[str, int]) -> list[_Kind]:
    """Most protected first, and the largest first among those of one rank; who frees nothing needed is left out."""
    kinds: dict[tuple[Rank, Items, tuple[Budget, ...]], _Kind] = {}
    for age, (allocation, rank, weight, budgets) in enumerate(candidates):
        items = allocation.request_class.items
        kind = kinds.get((rank, items, budgets))
        if kind is None:
            amounts = allocation.request_class.resources
            frees = tuple([amounts[name] for name in need])
            kind = kinds[rank, items, budgets] = _Kind(rank, items, frees, weight, budgets)
        kind.members.append(allocation)
        kind.ages.append(age)
    useful = [kind for kind in kinds.values() if any(kind.frees)]
    return sorted(useful, key=lambda kind: (kind.rank, kind.weight), reverse=True)


class _Found(NamedTuple):
    cost: Cost
    size: int
    ages: list[int]
    """Oldest first: of sets that are equal otherwise, the one whose oldest is youngest."""
    taken: list[tuple[_Kind, int]]

    def victims(self) -> tuple[Allocation, ...]:
        """The least protected first."""
        return tuple(reversed([one for kind, count in self.taken for one in kind.members[:count]]))


class _Search:
    """Goes through the numbers to take of each kind, depth first. Amounts are in the order of the resources needed."""

    def __init__(
        self, kinds: Sequence[_Kind], need: Mapping[str, int], unit: Mapping[str, int], steps_max: int
    ) -> None:
        self.kinds = kinds
        self.steps_max = steps_max
        self.rest = list(need.values())
        """What is not freed yet; below 0 where more is."""
        self.units = [unit.get(name, 0) for name in need]
        self.steps = 0
        self.best: _Found | None = None
        self._taken: list[tuple[_Kind, int]] = []
        self._outlooks = self._look_ahead()

    def _look_ahead(self) -> list[tuple[list[int], list[int], list[int]]]:
        """Of all kinds from the n-th on: what they free together, what without its rank, and one of them at most."""
        none = [0] * len(self.rest)
        ahead, lower, largest = none, none, none
        outlooks = [(none, none, none)]
        for at in range(len(self.kinds) - 1, -1, -1):
            kind = self.kinds[at]
            if at + 1 < len(self.kinds) and self.kinds[at + 1].rank != kind.rank:
                lower = ahead
            count = len(kind.members)
            ahead = [amount + count * frees for amount, frees in zip(ahead, kind.frees, strict=True)]
            largest = list(map(max, largest, kind.frees))
            outlooks.append((ahead, lower, largest))
        return outlooks[::-1]

    def exact(self) -> _Found | None:
        """The best of all sets, if the bounds let all of them be looked at."""
        if len(self.kinds) <= KINDS_MAX:
            self._descend(0, (), 0)
        return self.best

    @property
    def was_complete(self) -> bool:
        return len(self.kinds) <= KINDS_MAX and self.steps < self.steps_max

    def _descend(self, at: int, cost: Cost, size: int) -> None:
        """Tries every number of the kind `at`, with all that follow."""
        self.steps += 1
        if max(self.rest, default=0) <= 0:
            self._note(cost)
            return
        if self.steps >= self.steps_max or self._is_hopeless(at, cost, size):
            return
        kind = self.kinds[at]
        most = kind.most()
        self._descend(at + 1, cost, size)
        taken = 0
        while taken < most and self._helps(kind):
            self._take(kind, 1)
            taken += 1
            cost = _more(cost, kind.rank, kind.weight)
            self._taken.append((kind, taken))
            self._descend(at + 1, cost, size + taken)
            self._taken.pop()
        self._take(kind, -taken)

    def greedy(self, *, enough: bool = True) -> _Found | None:
        """The least protected first, as long as anything is needed; then what turns out to be needless is spared.

        With `enough`, only if that frees all that is needed.
        """
        counts = []
        for kind in reversed(self.kinds):
            taken = 0
            while taken < len(kind.members) and self._helps(kind):
                if any(budget.times(kind.items) == 0 for budget in kind.budgets):
                    break
                self._take(kind, 1)
                taken += 1
            counts.append(taken)
        cost: Cost = ()
        for kind, taken in zip(self.kinds, reversed(counts), strict=True):
            while taken and all(rest + frees <= 0 for rest, frees in zip(self.rest, kind.frees, strict=True) if frees):
                self._take(kind, -1)
                taken -= 1
            self._taken.append((kind, taken))
            cost = _more(cost, kind.rank, kind.weight * taken) if taken else cost
        if not enough or max(self.rest, default=0) <= 0:
            self._note(cost)
        for kind, taken in self._taken:
            self._take(kind, -taken)
        return self.best

    def _helps(self, kind: _Kind) -> bool:
        """Whether it frees anything that is still needed."""
        return any(frees and rest > 0 for rest, frees in zip(self.rest, kind.frees, strict=True))

    def _take(self, kind: _Kind, times: int) -> None:
        self.rest = [rest - frees * times for rest, frees in zip(self.rest, kind.frees, strict=True)]
        for budget in kind.budgets:
            budget.take(kind.items, times)

    def _is_hopeless(self, at: int, cost: Cost, size: int) -> bool:
        """Whether what follows cannot free enough, or only with more cost, or more victims, than the best set has."""
        least, fewest = 0, 0
        for rest, ahead, lower, largest, unit in zip(self.rest, *self._outlooks[at], self.units, strict=True):
            if rest > ahead:
                return True
            if rest > lower:
                least += (rest - lower) * unit
            if rest > fewest * largest:
                fewest = -(-rest // largest)
        if self.best is None:
            return False
        if least:
            cost = _more(cost, self.kinds[at].rank, least)
        return (cost, size + fewest) > self.best[:2]

    def _note(self, cost: Cost) -> None:
        taken = [(kind, count) for kind, count in self._taken if count]
        ages = sorted((age for kind, count in taken for age in kind.ages[:count]), reverse=True)
        found = _Found(cost, len(ages), ages, taken)
        if self.best is None or found[:3] < self.best[:3]:
            self.best = found


def _more(cost: Cost, rank: Rank, weight: int) -> Cost:
    """With so much taken of a rank that is the last of it, or less protected than all of it."""
    if cost and cost[-1][0] == rank:
        return *cost[:-1], (rank, cost[-1][1] + weight)
    return *cost, (rank, weight)
