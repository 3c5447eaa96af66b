"""Which nodes are worth a search for victims, the most promising first.

Most nodes are out of the question by sums alone, and of the others few can turn out better than the best found so far.
So nodes come in the order of what a set of victims there could be at best: whoever has found one that no other node can
beat is done, however many nodes are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop
from typing import NamedTuple, TypeAlias

from schedulerd.core.decide.victims import Effort, Harm, Rank
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.node import Node
from schedulerd.core.resources import Resources

PORTION = 256
"""How many nodes are put in order before the search may be interrupted."""

Pool: TypeAlias = defaultdict[Node, list[Allocation]]
"""Who could be ended on each node, of one rank."""


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
        self._pools: dict[Rank, Pool] = {}

    def consider(self, node: Node, need: Resources) -> None:
        """So much has to come free there."""
        self._needs[node] = self._rests[node] = need

    def pool(self, rank: Rank) -> Pool:
        """To be filled with all of the rank who could be ended."""
        return self._pools.setdefault(rank, defaultdict(list))

    def in_order(self) -> Iterator[Prospect | None]:
        """Nodes with what is best there if victims up to a rank are taken, rank by rank; a node comes again until
        `fewest` was asked of it and found enough. None comes where the search may be interrupted."""
        for rank in sorted(self._pools):
            heap: list[tuple[int, float, str, Node]] = []
            for at, node in enumerate(self._pools[rank]):
                if not at % PORTION:
                    yield None
                self._effort.visits += 1
                if node in self._rests:
                    heap.append((self._weight(self._rests[node]), node.score, node.node_id, node))
            heapify(heap)
            while heap:
                weight, _, _, node = heappop(heap)
                yield Prospect(((rank, weight),), node)

    def fewest(self, prospect: Prospect) -> int:
        """How many victims it takes at least, if those up to the rank are enough; 0 if they are not."""
        rank, node = prospect.harm[0][0], prospect.node
        more = self._pools[rank][node]
        self._effort.visits += len(more)
        rest = Resources(self._rests[node])
        for allocation in more:
            get = allocation.shape.resources.get
            for name in rest:
                rest[name] -= get(name, 0)
        if any(amount > 0 for amount in rest.values()):
            self._rests[node] = rest
            return 0
        del self._rests[node]
        sizes = [
            one.shape.resources for up_to in self._pools if up_to <= rank for one in self._pools[up_to].get(node, ())
        ]
        return max(-(-amount // max(size[name] for size in sizes)) for name, amount in self._needs[node].items())

    def _weight(self, rest: Resources) -> int:
        return sum(amount * self._unit.get(name, 0) for name, amount in rest.items() if amount > 0)
