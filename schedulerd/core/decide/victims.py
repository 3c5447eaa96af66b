"""Which of some allocations to end, so that enough room comes free and as little harm as possible is done.

Harm is counted by rank: what is taken of the most protected rank weighs most, whatever is spared of the others. Within
a rank it is the weight of what is taken, and of equal sets the one with fewer and younger victims is best.

Allocations that are alike (same rank, queue and size) are interchangeable, so only their number is searched for; that
keeps an exact search small on any real node. Where it would not be, it stops at a bound and takes the best found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from schedulerd.core.model.allocation import Allocation
from schedulerd.core.resources import Items, Resources

STEPS_MAX = 2_000
"""How many choices of the search are looked at on one node."""
KINDS_MAX = 100
"""With more kinds of candidates there is no exact search: it would go too deep."""

Rank: TypeAlias = tuple[int, int]
"""Kind of the allocation (ordinary, opted out, originator), then priority: the higher, the more protected."""

Harm: TypeAlias = tuple[tuple[Rank, int], ...]
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


class Candidate(NamedTuple):
    """An allocation that may be ended, and what its queues can spare."""

    allocation: Allocation
    rank: Rank
    weight: int
    budgets: tuple[Budget, ...]


class VictimSet(NamedTuple):
    """What to end, the least protected first, and the harm of it."""

    victims: tuple[Allocation, ...]
    harm: Harm

    def order(self) -> tuple[Harm, int]:
        """The smallest is the best."""
        return self.harm, len(self.victims)


def rank_of(allocation: Allocation) -> Rank:
    """Originators are the last to be ended, before them those that want to be spared (SI `allowPreemptSelf`)."""
    spec = allocation.spec
    return 2 if spec.originator else 0 if spec.allow_preempt_self else 1, spec.priority


def smallest_set(candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int]) -> VictimSet | None:
    """The least harmful set that frees `need`, or None if there is none within the budgets.

    `candidates` come youngest first; `unit` is the weight of one of each resource.
    """
    kinds = _kinds(candidates, need)
    search = _Search(kinds, need, unit)
    best = search.exact()
    if best is None and not search.was_complete:
        best = search.greedy()
    if best is None:
        return None
    return VictimSet(best.victims(), best.harm)


def harmless_part(
    candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int]
) -> tuple[Allocation, ...]:
    """The least harmful set that frees `need`; if there is none, as much as the budgets allow, harmless first."""
    kinds = _kinds(candidates, need)
    search = _Search(kinds, need, unit)
    best = search.exact() or search.greedy(enough=False)
    return best.victims() if best is not None else ()


@dataclass(slots=True)
class _Kind:
    """Candidates that are alike."""

    rank: Rank
    items: Items
    weight: int
    budgets: tuple[Budget, ...]
    members: list[Allocation] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    """Of each member its place among all candidates, the youngest is 0."""


def _kinds(candidates: Iterable[Candidate], need: Mapping[str, int]) -> list[_Kind]:
    """Most protected first, and the largest first among those of one rank; who frees nothing needed is left out."""
    kinds: dict[tuple[Rank, Items, tuple[Budget, ...]], _Kind] = {}
    for age, (allocation, rank, weight, budgets) in enumerate(candidates):
        items = allocation.shape.items
        if not any(name in need for name, _ in items):
            continue
        kind = kinds.setdefault((rank, items, budgets), _Kind(rank, items, weight, budgets))
        kind.members.append(allocation)
        kind.ages.append(age)
    return sorted(kinds.values(), key=lambda kind: (kind.rank, kind.weight), reverse=True)


class _Found(NamedTuple):
    harm: Harm
    size: int
    ages: list[int]
    """Oldest first: of sets that are equal otherwise, the one whose oldest is youngest."""
    taken: list[tuple[_Kind, int]]

    def victims(self) -> tuple[Allocation, ...]:
        """The least protected first."""
        return tuple(reversed([one for kind, count in self.taken for one in kind.members[:count]]))


class _Search:
    def __init__(self, kinds: Sequence[_Kind], need: Mapping[str, int], unit: Mapping[str, int]) -> None:
        self.kinds = kinds
        self.rest = Resources(need)
        self.unit = unit
        self.steps = 0
        self.best: _Found | None = None
        self._harm: list[tuple[Rank, int]] = []
        self._taken: list[tuple[_Kind, int]] = []
        self._ahead = self._sums()

    def _sums(self) -> list[Resources]:
        """What all kinds from the n-th on could free."""
        sums = [Resources()]
        for kind in reversed(self.kinds):
            total = Resources(sums[-1])
            total.add(kind.items, len(kind.members))
            sums.append(total)
        return sums[::-1]

    def exact(self) -> _Found | None:
        """The best of all sets, if the bounds let all of them be looked at."""
        if len(self.kinds) <= KINDS_MAX:
            self.descend(0)
        return self.best

    @property
    def was_complete(self) -> bool:
        return len(self.kinds) <= KINDS_MAX and self.steps < STEPS_MAX

    def descend(self, at: int) -> None:
        """Tries every number of the kind `at`, with all that follow."""
        self.steps += 1
        if all(amount <= 0 for amount in self.rest.values()):
            self._note()
            return
        if self.steps >= STEPS_MAX or self._is_hopeless(at):
            return
        kind = self.kinds[at]
        most = len(kind.members)
        for budget in kind.budgets:
            times = budget.times(kind.items)
            most = most if times is None else min(most, times)
        self.descend(at + 1)
        taken = 0
        while taken < most and any(self.rest[name] > 0 for name, _ in kind.items if name in self.rest):
            self._take(kind, 1)
            taken += 1
            self._harm.append((kind.rank, kind.weight))
            self._taken.append((kind, taken))
            self.descend(at + 1)
            self._taken.pop()
        self._take(kind, -taken)
        del self._harm[len(self._harm) - taken :]

    def greedy(self, *, enough: bool = True) -> _Found | None:
        """The least protected first, as long as anything is needed; then what turns out to be needless is spared.

        With `enough`, only if that frees all that is needed.
        """
        for kind in reversed(self.kinds):
            taken = 0
            while taken < len(kind.members) and any(self.rest[name] > 0 for name, _ in kind.items):
                if any(budget.times(kind.items) == 0 for budget in kind.budgets):
                    break
                self._take(kind, 1)
                taken += 1
            self._taken.append((kind, taken))
        for at, (kind, taken) in reversed(list(enumerate(self._taken))):
            while taken and all(self.rest[name] + amount <= 0 for name, amount in kind.items if name in self.rest):
                self._take(kind, -1)
                taken -= 1
            self._taken[at] = kind, taken
            self._harm += [(kind.rank, kind.weight)] * taken
        if not enough or all(amount <= 0 for amount in self.rest.values()):
            self._note()
        for kind, taken in self._taken:
            self._take(kind, -taken)
        return self.best

    def _take(self, kind: _Kind, times: int) -> None:
        for name, amount in kind.items:
            if name in self.rest:
                self.rest[name] -= amount * times
        for budget in kind.budgets:
            budget.take(kind.items, times)

    def _is_hopeless(self, at: int) -> bool:
        """Whether what follows cannot free enough, or only with more harm than the best set does."""
        if any(amount > self._ahead[at][name] for name, amount in self.rest.items() if amount > 0):
            return True
        if self.best is None:
            return False
        harm = _summed(self._harm)
        if self.kinds[at].rank == self.kinds[-1].rank:
            least = sum(amount * self.unit[name] for name, amount in self.rest.items() if amount > 0)
            harm = _summed([*self._harm, (self.kinds[at].rank, least)])
        return harm > self.best.harm

    def _note(self) -> None:
        taken = [(kind, count) for kind, count in self._taken if count]
        ages = sorted((age for kind, count in taken for age in kind.ages[:count]), reverse=True)
        found = _Found(_summed(self._harm), len(ages), ages, taken)
        if self.best is None or found[:3] < self.best[:3]:
            self.best = found


def _summed(taken: Iterable[tuple[Rank, int]]) -> Harm:
    """The weight of each rank; what is taken comes with the most protected first."""
    harm: list[tuple[Rank, int]] = []
    for rank, weight in taken:
        if harm and harm[-1][0] == rank:
            harm[-1] = rank, harm[-1][1] + weight
        else:
            harm.append((rank, weight))
    return tuple(harm)
