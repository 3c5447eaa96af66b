"""Who has to end so that a queue which uses more than its lowered max comes back to it.

What is above is shared out to the children by what each uses above its guarantee, and to theirs in turn, so that no
branch pays for all; in a leaf the least harmful set ends. What a branch cannot give, because of guarantees or because
nothing there may be ended, the others give. Who waits for the room does not matter: a max is kept for its own sake.

There may be many leaves, so it is found out in slices, which only read; what was found is judged again before use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from itertools import chain, islice

from schedulerd.core.decide.victims import (
    Budget,
    Candidate,
    WorkBudget,
    candidate,
    harmless_part,
    may_end,
    rank_of,
    unit_weights,
)
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.queue import Queue
from schedulerd.core.resources import Resources
from schedulerd.core.specs import PreemptionPolicy

CANDIDATES_MAX = 1_000
"""How many allocations are looked at for the share of one branch, the youngest of each application first."""


def excess(queue: Queue) -> Resources:
    """What it will use above its max when all that was asked to go has gone."""
    left = queue.allocated.minus(queue.leaving)
    return Resources({name: left[name] - most for name, most in queue.max.items() if left[name] > most})


def _may_go(allocation: Allocation) -> bool:
    is_there = allocation.application.allocations.get(allocation.uuid) is allocation
    return is_there and may_end(allocation)


def _without_needless(victims: list[Allocation], need: Resources) -> list[Allocation]:
    """Every branch ends whole allocations for its share: who is not needed after all is spared, the protected first."""
    beyond = Resources({name: -amount for name, amount in need.items()})
    for victim in victims:
        beyond.add((name, amount) for name, amount in victim.request_class.items if name in need)
    spared: set[Allocation] = set()
    for victim in sorted(victims, key=rank_of, reverse=True):
        if all(beyond[name] >= amount for name, amount in victim.request_class.items if name in need):
            beyond.subtract((name, amount) for name, amount in victim.request_class.items if name in need)
            spared.add(victim)
    return [victim for victim in victims if victim not in spared]


class Relief:
    """Looks for those who have to end below a queue."""

    def __init__(self, top: Queue) -> None:
        self._top = top
        self._budgets: dict[Queue, Budget] = {}
        self._taken: dict[Allocation, None] = {}
        self.found: deque[Allocation] = deque()
        """Who has to end, once that is known."""
        self._effort = WorkBudget()
        self._steps = self._from_queue(top, excess(top))

    def end(self) -> None:
        """The pass is not continued. An interrupted one refers to itself; that would keep it in memory."""
        self._steps.close()

    def run(self, visits_max: int) -> bool:
        """Goes on for about so many visits; True when there is nothing left to look at."""
        end = self._effort.visits + visits_max
        if any(self._effort.visits >= end for _ in self._steps):
            return False
        self.found.extend(_without_needless([one for one in self._taken if _may_go(one)], excess(self._top)))
        self._taken.clear()
        return True

    def next_victims(self, victims_max: int) -> list[Allocation]:
        """The next of what was found, as far as it is needed and may be ended by the state as it is now."""
        need = excess(self._top)
        self._budgets.clear()
        victims: list[Allocation] = []
        while self.found and len(victims) < victims_max:
            victim = self.found.popleft()
            budgets, items = self._budgets_of(victim), victim.request_class.items
            is_needed = _may_go(victim) and any(need[name] > 0 for name, _ in items)
            if is_needed and all(budget.times(items) != 0 for budget in budgets):
                need.subtract(items)
                for budget in budgets:
                    budget.take(items, 1)
                victims.append(victim)
        return victims

    def _from_queue(self, queue: Queue, need: Resources) -> Generator[None, None, None]:
        """Takes what `queue` gives of `need`."""
        rest = Resources(need)
        if queue.children:
            above = {child: self._above_guarantee(child, need) for child in queue.children.values()}
            self._effort.visits += len(above)
            total = Resources()
            for amounts in above.values():
                total.add(amounts.items())
            for child, amounts in above.items():
                share = {name: need[name] * amounts[name] // total[name] for name in need if total[name]}
                before = len(self._taken)
                yield from self._from_queue(child, Resources({name: most for name, most in share.items() if most > 0}))
                for allocation in islice(self._taken, before, None):
                    rest.subtract(allocation.request_class.items)
        self._take(queue, Resources({name: amount for name, amount in rest.items() if amount > 0}))
        yield

    def _above_guarantee(self, queue: Queue, need: Resources) -> Resources:
        left = queue.allocated.minus(queue.leaving)
        return Resources({name: max(0, left[name] - queue.guaranteed[name]) for name in need})

    def _take(self, queue: Queue, need: Resources) -> None:
        if not need:
            return
        unit = unit_weights(self._top.allocated)
        candidates = islice(self._candidates(queue, unit), CANDIDATES_MAX)
        for allocation in harmless_part(candidates, need, unit, self._effort):
            self._taken[allocation] = None
            for budget in self._budgets_of(allocation):
                budget.take(allocation.request_class.items, 1)

    def _candidates(self, queue: Queue, unit: dict[str, int]) -> Iterator[Candidate]:
        """What may be ended in the queue and below, the youngest of each application first."""
        for one in queue.subtree():
            if one.properties.preemption_policy is PreemptionPolicy.DISABLED:
                continue
            for allocation in chain.from_iterable(
                reversed(app.allocations.values()) for app in reversed(one.applications.values())
            ):
                self._effort.visits += 1
                if _may_go(allocation) and allocation not in self._taken:
                    yield candidate(allocation, unit, self._budgets_of(allocation))

    def _budgets_of(self, allocation: Allocation) -> tuple[Budget, ...]:
        """Of the queues below the one that is above its max: that one's guarantee is within its max anyway."""
        path_to_root = allocation.application.queue.path_to_root
        return tuple(self._budget(one) for one in path_to_root[: path_to_root.index(self._top)] if one.guaranteed)

    def _budget(self, queue: Queue) -> Budget:
        if queue not in self._budgets:
            left = queue.allocated.minus(queue.leaving)
            self._budgets[queue] = Budget({name: left[name] - most for name, most in queue.guaranteed.items() if most})
        return self._budgets[queue]
