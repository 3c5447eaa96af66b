"""The victims that bring a queue above its lowered max back to that max (quota relief).

The excess is shared out to the children by what each uses above its guarantee, and recursively below them; in a leaf
queue the set with the lowest cost is taken. What one branch cannot give, because of guarantees or protected
allocations, the others give. Pending asks do not matter: the max itself is enforced.

A search can visit many leaves, so it runs in slices that only read. The result is judged again before it is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from itertools import chain, islice

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PartitionSpec, PreemptionPolicy
from schedulerd.core.preemption.rules.budget import Budget
from schedulerd.core.preemption.rules.victims import Candidate, candidate, cheapest_part, rank_of, unit_weights
from schedulerd.core.state.model.allocation import Allocation, may_be_preempted
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.work_budget import WorkBudget

CANDIDATES_MAX = 1_000
"""Maximum number of allocations considered for the share of one branch, the youngest of each application first."""


def _may_go(spec: PartitionSpec, allocation: Allocation) -> bool:
    is_there = allocation.application.allocations.get(allocation.uuid) is allocation
    return is_there and may_be_preempted(spec, allocation)


def _without_needless(victims: list[Allocation], need: Resources) -> list[Allocation]:
    """Leaves out victims that are not needed, most protected first: each branch takes whole allocations, so together
    they can free more than the excess."""
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
    """One pass of quota relief: the search for the victims below a queue."""

    def __init__(self, spec: PartitionSpec, top: Queue) -> None:
        self._spec = spec
        self._top = top
        self._budgets: dict[Queue, Budget] = {}
        self._taken: dict[Allocation, None] = {}
        self.found: deque[Allocation] = deque()
        """The victims found; filled when the pass is complete."""
        self._work_budget = WorkBudget()
        self._steps = self._from_queue(top, top.excess())

    def end(self) -> None:
        """Stops the pass. An unfinished pass refers to itself, which would keep it in memory."""
        self._steps.close()

    def run(self, visits_max: int) -> bool:
        """Continues for about `visits_max` visits. True when the pass is complete."""
        end = self._work_budget.visits + visits_max
        if any(self._work_budget.visits >= end for _ in self._steps):
            return False
        self.found.extend(
            _without_needless([one for one in self._taken if _may_go(self._spec, one)], self._top.excess())
        )
        self._taken.clear()
        return True

    def next_victims(self, victims_max: int) -> list[Allocation]:
        """The next victims found that are still needed and may be preempted in the current state."""
        need = self._top.excess()
        self._budgets.clear()
        victims: list[Allocation] = []
        while self.found and len(victims) < victims_max:
            victim = self.found.popleft()
            budgets, items = self._budgets_of(victim), victim.request_class.items
            is_needed = _may_go(self._spec, victim) and any(need[name] > 0 for name, _ in items)
            if is_needed and all(budget.times(items, need) != 0 for budget in budgets):
                need.subtract(items)
                for budget in budgets:
                    budget.take(items, 1)
                victims.append(victim)
        return victims

    def _from_queue(self, queue: Queue, need: Resources) -> Generator[None, None, None]:
        """Takes victims below `queue` for `need`, as far as possible."""
        rest = Resources(need)
        if queue.children:
            above = {child: self._above_guarantee(child, need) for child in queue.children.values()}
            self._work_budget.visits += len(above)
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
        for allocation in cheapest_part(candidates, need, unit, self._work_budget):
            self._taken[allocation] = None
            for budget in self._budgets_of(allocation):
                budget.take(allocation.request_class.items, 1)

    def _candidates(self, queue: Queue, unit: dict[str, int]) -> Iterator[Candidate]:
        """Possible victims in the queue and below, the youngest of each application first."""
        for one in queue.subtree():
            if one.properties.preemption_policy is PreemptionPolicy.DISABLED:
                continue
            for allocation in chain.from_iterable(
                reversed(app.allocations.values()) for app in reversed(one.applications.values())
            ):
                self._work_budget.visits += 1
                if _may_go(self._spec, allocation) and allocation not in self._taken:
                    yield candidate(allocation, unit, self._budgets_of(allocation))

    def _budgets_of(self, allocation: Allocation) -> tuple[Budget, ...]:
        """The budgets of the queues below the one above its max. The guarantee of that queue itself is within its
        max."""
        path_to_root = allocation.application.queue.path_to_root
        return tuple(self._budget(one) for one in path_to_root[: path_to_root.index(self._top)] if one.guaranteed)

    def _budget(self, queue: Queue) -> Budget:
        if queue not in self._budgets:
            left = queue.allocated.minus(queue.leaving)
            self._budgets[queue] = Budget({name: left[name] - most for name, most in queue.guaranteed.items() if most})
        return self._budgets[queue]
