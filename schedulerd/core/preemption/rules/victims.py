"""The victim set with the lowest cost among candidates that frees enough room.

Cost is counted by rank: the weight taken of the most protected rank decides first, whatever is saved in lower ranks. Of
sets with equal cost, the one with fewer and younger victims is best.

Candidates of equal rank, queue and size are interchangeable and form one kind, so only a number of each kind is
searched for. This keeps an exact search small on real nodes. Beyond a bound the search stops with the best set so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.preemption.rules.budget import Budget
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import is_above_min
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.work_budget import WorkBudget

STEPS_MAX = 2_000
"""Maximum number of search steps on one node."""
PART_STEPS_MAX = 200
"""Maximum number of search steps for the share of one branch in quota relief; there may be hundreds of branches."""
KINDS_MAX = 100
"""With more kinds than this there is no exact search, because the recursion would be too deep."""

_WEIGHT_OF_ALL = 10**30
"""The weight of the total amount of a resource."""

Rank: TypeAlias = tuple[int, int]
"""Kind of allocation (-1 member above the min of its gang, 0 ordinary, 1 opted out, 2 originator), then priority. A
higher rank is more protected."""

Cost: TypeAlias = tuple[tuple[Rank, int], ...]
"""The weight taken of each rank, most protected first; ranks of which nothing is taken are left out."""


class Whole(NamedTuple):
    """A gang that is disrupted as a whole."""

    members: tuple[Allocation, ...]
    items: Items
    """What they use together."""
    frees: Resources
    """What those of them free that are where room is needed."""


class Candidate(NamedTuple):
    """A possible victim, with the budgets of its queues."""

    allocation: Allocation
    rank: Rank
    weight: int
    budgets: tuple[Budget, ...]
    whole: Whole | None = None
    """The gang that is disrupted as a whole if this one is; then rank and weight are those of all of it."""


class VictimSet(NamedTuple):
    """The victims, least protected first, and their cost."""

    victims: tuple[Allocation, ...]
    cost: Cost

    def order(self) -> tuple[Cost, int]:
        """Sort key: the smallest is the best set."""
        return self.cost, len(self.victims)


def candidate(allocation: Allocation, unit: Mapping[str, int], budgets: tuple[Budget, ...] = ()) -> Candidate:
    """The allocation as a candidate. `unit` is the weight of one unit of each resource."""
    weight = sum([amount * unit.get(name, 0) for name, amount in allocation.request_class.items])
    return Candidate(allocation, rank_of(allocation), weight, budgets)


def whole_candidate(
    allocation: Allocation,
    members: Sequence[Allocation],
    unit: Mapping[str, int],
    budgets: tuple[Budget, ...],
    at: Node | None,
) -> Candidate:
    """The gang of the allocation, which is disrupted as a whole, as a candidate for room on the node `at`, or for what
    a max lacks (None)."""
    total, frees = Resources(), Resources()
    for one in members:
        total.add(one.request_class.items)
        if at is None or one.node is at:
            frees.add(one.request_class.items)
    weight = sum([amount * unit.get(name, 0) for name, amount in total.items()])
    whole = Whole(tuple(members), total.canonical(), frees)
    return Candidate(allocation, rank_of(allocation), weight, budgets, whole)


def unit_weights(total: Mapping[str, int]) -> dict[str, int]:
    """The weight of one unit of each resource, so that the totals of all resources weigh the same."""
    return {name: _WEIGHT_OF_ALL // amount for name, amount in total.items() if amount > 0}


def rank_of(allocation: Allocation) -> Rank:
    """The rank of an allocation. Originators are the most protected, then opted-out allocations. Members of a gang that
    it does not need, because their task group has more than its min, go first. All members of a gang that is disrupted
    as a whole have the highest rank of them."""
    application = allocation.application
    if application.is_disrupted_as_one:
        return max((_own_rank(one) for one in application.disrupted_together()), default=_own_rank(allocation))
    return _own_rank(allocation)


def _own_rank(allocation: Allocation) -> Rank:
    spec = allocation.spec
    if spec.originator or not spec.allow_preempt_self:
        return 2 if spec.originator else 1, spec.priority
    return -1 if is_above_min(allocation) else 0, spec.priority


def smallest_set(
    candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int], budget: WorkBudget | None = None
) -> VictimSet | None:
    """The victim set with the lowest cost that frees `need`; None if there is none within the budgets.

    `candidates` come youngest first. `unit` is the weight of one unit of each resource. Search steps are added to
    `budget`.
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


def beside(
    candidates: Iterable[Candidate], victims: Sequence[Allocation], most: int, short: Collection[str]
) -> tuple[Allocation, ...]:
    """Up to `most` candidates that may be preempted in addition to `victims`, least protected first.

    `victims` must be among the candidates. What victims and result take is subtracted from the budgets.
    """
    ended, rest = set(victims), []
    for one in candidates:
        if one.allocation in ended:
            for budget in one.budgets:
                budget.take(one.allocation.request_class.items, 1)
        elif one.whole is None:
            rest.append(one)
    found: list[Allocation] = []
    for one in sorted(rest, key=lambda one: one.rank):
        items = one.allocation.request_class.items
        if len(found) < most and all(budget.times(items, short) != 0 for budget in one.budgets):
            for budget in one.budgets:
                budget.take(items, 1)
            found.append(one.allocation)
    return tuple(found)


def cheapest_part(
    candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int], budget: WorkBudget
) -> tuple[Allocation, ...]:
    """The set with the lowest cost that frees `need`; if there is none, as much as the budgets allow, least protected
    first."""
    search = _Search(_kinds(candidates, need), need, unit, PART_STEPS_MAX)
    best = search.exact() or search.greedy(enough=False)
    budget.visits += search.steps
    return best.victims() if best is not None else ()


@dataclass(slots=True)
class _Kind:
    """Candidates that are interchangeable."""

    rank: Rank
    items: Items
    frees: tuple[int, ...]
    """What each of them frees of each needed resource, in the order of `need`."""
    weight: int
    budgets: tuple[Budget, ...]
    members: list[Allocation] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    """Position of each member among all candidates; 0 is the youngest."""
    whole: Whole | None = None
    """The gang that goes as a whole; then it is the only member."""

    def taken(self, count: int) -> Sequence[Allocation]:
        """The victims if so many members are taken."""
        return self.members[:count] if self.whole is None or not count else self.whole.members

    def is_exhausted(self, short: Collection[str]) -> bool:
        """Whether the budgets allow to take no more of it."""
        if self.whole is not None:
            return not all(budget.admits_whole(self.items, short) for budget in self.budgets)
        return any(budget.times(self.items, short) == 0 for budget in self.budgets)

    def most(self, short: Collection[str]) -> int:
        """How many members the budgets allow to take."""
        if self.whole is not None:
            return int(not self.is_exhausted(short))
        most = len(self.members)
        for budget in self.budgets:
            times = budget.times(self.items, short)
            if times is not None and times < most:
                most = times
        return most


def _kinds(candidates: Iterable[Candidate], need: Mapping[str, int]) -> list[_Kind]:
    """The kinds of the candidates that free something needed: most protected first, and within a rank the heaviest
    first."""
    kinds: dict[tuple[Rank, Items, tuple[Budget, ...]], _Kind] = {}
    wholes: list[_Kind] = []
    for age, (allocation, rank, weight, budgets, whole) in enumerate(candidates):
        if whole is not None:
            frees = tuple([whole.frees[name] for name in need])
            wholes.append(_Kind(rank, whole.items, frees, weight, budgets, [allocation], [age], whole))
            continue
        items = allocation.request_class.items
        kind = kinds.get((rank, items, budgets))
        if kind is None:
            amounts = allocation.request_class.resources
            frees = tuple([amounts[name] for name in need])
            kind = kinds[rank, items, budgets] = _Kind(rank, items, frees, weight, budgets)
        kind.members.append(allocation)
        kind.ages.append(age)
    useful = [kind for kind in (*kinds.values(), *wholes) if any(kind.frees)]
    return sorted(useful, key=lambda kind: (kind.rank, kind.weight), reverse=True)


class _Found(NamedTuple):
    cost: Cost
    size: int
    ages: list[int]
    """Positions of the victims, oldest first: of otherwise equal sets, the one with the younger oldest victim wins."""
    taken: list[tuple[_Kind, int]]

    def victims(self) -> tuple[Allocation, ...]:
        """The victims, least protected first."""
        return tuple(reversed([one for kind, count in self.taken for one in kind.taken(count)]))


class _Search:
    """Depth-first search over the numbers to take of each kind. Amounts are in the order of the needed resources."""

    def __init__(
        self, kinds: Sequence[_Kind], need: Mapping[str, int], unit: Mapping[str, int], steps_max: int
    ) -> None:
        self.kinds = kinds
        self.steps_max = steps_max
        self.short = need.keys()
        self.rest = list(need.values())
        """What is not freed yet; negative if more is freed than needed."""
        self.units = [unit.get(name, 0) for name in need]
        self.steps = 0
        self.best: _Found | None = None
        self._taken: list[tuple[_Kind, int]] = []
        self._outlooks = self._look_ahead()

    def _look_ahead(self) -> list[tuple[list[int], list[int], list[int]]]:
        """For each n, over the kinds from the n-th on: what they free in total, what those of lower rank than the n-th
        free, and the most that a single candidate frees."""
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
        """The best of all sets; of those searched so far if a bound stops the search."""
        if len(self.kinds) <= KINDS_MAX:
            self._descend(0, (), 0)
        return self.best

    @property
    def was_complete(self) -> bool:
        return len(self.kinds) <= KINDS_MAX and self.steps < self.steps_max

    def _descend(self, at: int, cost: Cost, size: int) -> None:
        """Tries all numbers of kind `at`, with all numbers of the kinds after it."""
        self.steps += 1
        if max(self.rest, default=0) <= 0:
            self._note(cost)
            return
        if self.steps >= self.steps_max or self._is_hopeless(at, cost, size):
            return
        kind = self.kinds[at]
        most = kind.most(self.short)
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
        """Takes the least protected candidates until enough is freed, then gives back what is not needed.

        With `enough`, the result counts only if it frees all that is needed.
        """
        counts = []
        for kind in reversed(self.kinds):
            taken = 0
            while taken < len(kind.members) and self._helps(kind):
                if kind.is_exhausted(self.short):
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
        """Whether the kind frees anything that is still needed."""
        return any(frees and rest > 0 for rest, frees in zip(self.rest, kind.frees, strict=True))

    def _take(self, kind: _Kind, times: int) -> None:
        self.rest = [rest - frees * times for rest, frees in zip(self.rest, kind.frees, strict=True)]
        for budget in kind.budgets:
            budget.take(kind.items, times)

    def _is_hopeless(self, at: int, cost: Cost, size: int) -> bool:
        """Whether the kinds from `at` on cannot free enough, or only at a higher cost or with more victims than the
        best set."""
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
        found = _Found(cost, sum(len(kind.taken(count)) for kind, count in taken), ages, taken)
        if self.best is None or found[:3] < self.best[:3]:
            self.best = found


def _more(cost: Cost, rank: Rank, weight: int) -> Cost:
    """Adds a weight to the cost. The rank must be the last one in `cost` or less protected."""
    if cost and cost[-1][0] == rank:
        return *cost[:-1], (rank, cost[-1][1] + weight)
    return *cost, (rank, weight)
