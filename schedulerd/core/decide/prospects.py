"""Which nodes are worth a search for victims, the most promising first.

Most nodes are out of the question by sums alone, and of the others few can turn out better than the best found so far.
So nodes come in the order of what a set of victims there could be at best: whoever has found one that no other node can
beat is done, however many nodes are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop
from typing import NamedTuple, TypeVar

from schedulerd.core.decide.victims import Effort, Harm, Rank, rank_of
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.node import Node
from schedulerd.core.resources import Resources

PORTION = 256
"""How many nodes or allocations are looked at before the search may be interrupted."""

ThingT = TypeVar("ThingT")


def portions(things: Iterable[ThingT]) -> Iterator[list[ThingT]]:
    """All that there are now, some at a time."""
    everything = list(things)
    for first in range(0, len(everything), PORTION):
        yield everything[first : first + PORTION]


class Prospect(NamedTuple):
    """A node, and the best to be hoped for there."""

    harm: Harm
    node: Node


class Prospects:
    """To be told what nodes need and who could be ended there, and then asked for the order."""

    def __init__(self, unit: Mapping[str, int], effort: Effort) -> None:
        """`unit` is the weight of one of each resource."""
        self._unit = unit
        self._effort = effort
        self._needs: dict[Node, Resources] = {}
        self._rests: dict[Node, Resources] = {}
        """What of that would still be lacking if all were ended who were counted so far."""
        self._ranks: dict[Rank, list[Allocation]] = {}
        """Who could be ended."""
        self._pools: dict[Rank, dict[Node, list[Allocation]]] = {}
        """The same by nodes, of the ranks that were come to."""

    def consider(self, node: Node, need: Resources) -> None:
        """So much has to come free there."""
        self._needs[node] = need

    def add(self, allocations: Sequence[Allocation], admits: Callable[[int], bool]) -> None:
        """Those of them who could be ended, if their priority is admitted."""
        self._effort.visits += len(allocations)
        lists: dict[tuple[bool, bool, int], list[Allocation]] = {}
        for allocation in allocations:
            if allocation.releasing is None and not allocation.shape.required_node:
                spec = allocation.spec
                kind = spec.originator, spec.allow_preempt_self, spec.priority
                if kind not in lists:
                    rank = rank_of(allocation)
                    lists[kind] = self._ranks.setdefault(rank, []) if admits(spec.priority) else []
                lists[kind].append(allocation)

    def in_order(self) -> Iterator[Prospect | None]:
        """Nodes with what is best there if victims up to a rank are taken, rank by rank; None in between is for breaks.

        `fewest` is to be asked of each, as it counts those of the rank.
        """
        for rank in sorted(self._ranks):
            pool = self._pools[rank] = defaultdict(list)
            for allocations in portions(self._ranks[rank]):
                self._effort.visits += len(allocations)
                for allocation in allocations:
                    pool[allocation.node].append(allocation)
                yield None
            heap: list[tuple[int, float, str, Node]] = []
            for nodes in portions(pool):
                self._effort.visits += len(nodes)
                for node in nodes:
                    if node in self._needs:
                        heap.append((self._weight(self._rest(node)), node.score, node.node_id, node))
                yield None
            heapify(heap)
            while heap:
                weight, _, _, node = heappop(heap)
                yield Prospect(((rank, weight),), node)

    def fewest(self, prospect: Prospect) -> int:
        """How many victims it takes at least, if those up to the rank are enough; 0 if they are not."""
        rank, node = prospect.harm[0][0], prospect.node
        more = self._pools[rank][node]
        self._effort.visits += len(more)
        rest = Resources(self._rest(node))
        for allocation in more:
            get = allocation.shape.resources.get
            for name in rest:
                rest[name] -= get(name, 0)
        self._rests[node] = rest
        if any(amount > 0 for amount in rest.values()):
            return 0
        sizes = [one.shape.resources for pool in self._pools.values() for one in pool.get(node, ())]
        return max(-(-amount // max(size[name] for size in sizes)) for name, amount in self._needs[node].items())

    def _rest(self, node: Node) -> Resources:
        return self._rests.get(node) or self._needs[node]

    def _weight(self, rest: Resources) -> int:
        weight = 0
        for name, amount in rest.items():
            if amount > 0:
                weight += amount * self._unit.get(name, 0)
        return weight
