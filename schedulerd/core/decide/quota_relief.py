"""Who has to end so that a queue which uses more than its lowered max comes back to it.

What is above is shared out to the children by what each uses above its guarantee, and to theirs in turn, so that no
branch pays for all; in a leaf the least harmful set ends. What a branch cannot give, because of guarantees or because
nothing there may be ended, the others give. Who waits for the room does not matter: a max is kept for its own sake.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from schedulerd.core.decide.victims import Budget, Candidate, candidate, harmless_part, rank_of, unit_weights
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.queue import Queue
from schedulerd.core.resources import Resources
from schedulerd.core.specs import PreemptionPolicy

CANDIDATES_MAX = 2_000
"""How many allocations are looked at in one pass, the youngest of each application first; the rest is for the next."""


def excess(queue: Queue) -> Resources:
    """What it will use above its max when all that was asked to go has gone."""
    left = queue.allocated.minus(queue.leaving)
    return Resources({name: left[name] - most for name, most in queue.max.items() if left[name] > most})


def relief(queue: Queue) -> list[Allocation]:
    """Who has to end below the queue; as much as may be ended if that is not enough."""
    need = excess(queue)
    return _without_needless(list(_Relief(queue).from_queue(queue, need)), need)


def _without_needless(victims: list[Allocation], need: Resources) -> list[Allocation]:
    """Every branch ends whole allocations for its share: who is not needed after all is spared, the protected first."""
    beyond = Resources({name: -amount for name, amount in need.items()})
    for victim in victims:
        beyond.add((name, amount) for name, amount in victim.shape.items if name in need)
    spared: set[Allocation] = set()
    for victim in sorted(victims, key=rank_of, reverse=True):
        if all(beyond[name] >= amount for name, amount in victim.shape.items if name in need):
            beyond.subtract((name, amount) for name, amount in victim.shape.items if name in need)
            spared.add(victim)
    return [victim for victim in victims if victim not in spared]


class _Relief:
    def __init__(self, top: Queue) -> None:
        self._top = top
        self._budgets: dict[Queue, Budget] = {}
        self._taken: dict[Allocation, None] = {}
        self._left_to_look_at = CANDIDATES_MAX

    def from_queue(self, queue: Queue, need: Resources) -> dict[Allocation, None]:
        """All that is taken so far, with what `queue` gives of `need`."""
        rest = Resources(need)
        if queue.children:
            above = {child: self._above_guarantee(child, need) for child in queue.children.values()}
            total = Resources()
            for amounts in above.values():
                total.add(amounts.items())
            for child, amounts in above.items():
                share = {name: need[name] * amounts[name] // total[name] for name in need if total[name]}
                before = list(self._taken)
                self.from_queue(child, Resources({name: amount for name, amount in share.items() if amount > 0}))
                for allocation in islice(self._taken, len(before), None):
                    rest.subtract(allocation.shape.items)
        self._take(queue, Resources({name: amount for name, amount in rest.items() if amount > 0}))
        return self._taken

    def _above_guarantee(self, queue: Queue, need: Resources) -> Resources:
        left = queue.allocated.minus(queue.leaving)
        return Resources({name: max(0, left[name] - queue.guaranteed[name]) for name in need})

    def _take(self, queue: Queue, need: Resources) -> None:
        if not need or self._left_to_look_at <= 0:
            return
        unit = unit_weights(self._top.allocated)
        for allocation in harmless_part(self._candidates(queue, unit), need, unit):
            self._taken[allocation] = None
            for budget in self._budgets_of(allocation):
                budget.take(allocation.shape.items, 1)

    def _candidates(self, queue: Queue, unit: dict[str, int]) -> Iterator[Candidate]:
        """What may be ended in the queue and below, the youngest of each application first."""
        for one in queue.subtree():
            if one.properties.preemption_policy is PreemptionPolicy.DISABLED:
                continue
            for allocation in chain.from_iterable(
                reversed(app.allocations.values()) for app in reversed(one.applications.values())
            ):
                self._left_to_look_at -= 1
                if self._left_to_look_at < 0:
                    return
                if (
                    allocation.releasing is None
                    and not allocation.shape.required_node
                    and allocation not in self._taken
                ):
                    yield candidate(allocation, unit, self._budgets_of(allocation))

    def _budgets_of(self, allocation: Allocation) -> tuple[Budget, ...]:
        """Of the queues below the one that is above its max: that one's guarantee is within its max anyway."""
        assert allocation.application.queue is not None
        lineage = allocation.application.queue.lineage
        return tuple(self._budget(one) for one in lineage[: lineage.index(self._top)] if one.guaranteed)

    def _budget(self, queue: Queue) -> Budget:
        if queue not in self._budgets:
            left = queue.allocated.minus(queue.leaving)
            self._budgets[queue] = Budget({name: left[name] - most for name, most in queue.guaranteed.items() if most})
        return self._budgets[queue]
