"""Which nodes are worth a search for victims, the most promising first.

Most nodes are out of the question by sums alone, and of the others few can turn out better than the best found so far.
So nodes come in the order of what a set of victims there could be at best: whoever has found one that no other node can
beat is done, however many nodes are left, and who runs on those was not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop
from typing import NamedTuple, TypeAlias, TypeVar

from schedulerd.core.decide.victims import Cost, Rank, WorkBudget, may_end, rank_of
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.node import Node
from schedulerd.core.model.queue import Queue
from schedulerd.core.resources import Resources

PORTION = 256
"""How many nodes or allocations are looked at before the search may be interrupted."""

ThingT = TypeVar("ThingT")
Admits: TypeAlias = Callable[[int], bool]
"""Whether an allocation of this priority may be ended."""


def portions(things: Iterable[ThingT]) -> Iterator[list[ThingT]]:
    """All that there are now, some at a time."""
    everything = list(things)
    for first in range(0, len(everything), PORTION):
        yield everything[first : first + PORTION]


class NodeCandidate(NamedTuple):
    """A node, and the best to be hoped for there."""

    cost: Cost
    node: Node


class NodeCandidates:
    """To be told what nodes need and in which leaves somebody could be ended, and then asked for the order."""

    def __init__(self, unit: Mapping[str, int], budget: WorkBudget) -> None:
        """`unit` is the weight of one of each resource."""
        self._unit = unit
        self._effort = budget
        self._needs: dict[Node, Resources] = {}
        self._rests: dict[Node, Resources] = {}
        """What of that would still be lacking if all were ended who were counted so far."""
        self._admits: dict[Queue, Admits] = {}
        """The leaves in which somebody could be ended."""
        self._ranks: set[Rank] = set()
        """Of all who could be ended there, on whatever node."""
        self._pools: dict[Node, dict[Rank, list[Allocation]]] = {}
        """Who could be ended, of the nodes that were come to."""
        self._nodes_with: defaultdict[Rank, list[Node]] = defaultdict(list)
        """The same nodes, by the ranks of those."""

    def consider(self, node: Node, need: Resources) -> None:
        """So much has to come free there."""
        self._needs[node] = need

    def add(self, leaf: Queue, allocations: Sequence[Allocation], admits: Admits) -> None:
        """Some of those that run in the leaf; they could be ended if their priority is admitted."""
        self._effort.visits += len(allocations)
        self._admits[leaf] = admits
        kinds = {
            (spec.originator, spec.allow_preempt_self, spec.priority): one
            for one in allocations
            if may_end(one)
            for spec in (one.spec,)
        }
        self._ranks.update(rank_of(one) for (_, _, priority), one in kinds.items() if admits(priority))

    def in_order(self) -> Iterator[NodeCandidate | None]:
        """Nodes with what is best there if victims up to a rank are taken, rank by rank; None in between is for breaks.

        `fewest` is to be asked of each, as it counts those of the rank.
        """
        for rank in sorted(self._ranks):
            # Who runs where is found out on the way through the first rank, which is often as far as it goes.
            nodes: Iterable[Node] = self._nodes_with[rank] if self._pools else self._needs
            heap: list[tuple[int, float, str, Node]] = []
            for portion in portions(nodes):
                self._effort.visits += len(portion)
                heap.extend((self._weight(self._rest(node)), node.score, node.node_id, node) for node in portion)
                yield None
            heapify(heap)
            while heap:
                weight, _, _, node = heappop(heap)
                yield NodeCandidate(((rank, weight),), node) if rank in self._pool(node) else None

    def fewest(self, prospect: NodeCandidate) -> int:
        """How many victims it takes at least, if those up to the rank are enough; 0 if they are not."""
        rank, node = prospect.cost[0][0], prospect.node
        pool = self._pools[node]
        self._effort.visits += len(pool[rank])
        rest = Resources(self._rest(node))
        for allocation in pool[rank]:
            get = allocation.request_class.resources.get
            for name in rest:
                rest[name] -= get(name, 0)
        self._rests[node] = rest
        if any(amount > 0 for amount in rest.values()):
            return 0
        sizes = [one.request_class.resources for of_rank, some in pool.items() if of_rank <= rank for one in some]
        return max(-(-amount // max(size[name] for size in sizes)) for name, amount in self._needs[node].items())

    def _pool(self, node: Node) -> dict[Rank, list[Allocation]]:
        """Who could be ended there, by rank."""
        pool = self._pools.get(node)
        if pool is None:
            self._effort.visits += len(node.allocations)
            pool = self._pools[node] = {}
            for allocation in node.allocations.values():
                if may_end(allocation):
                    leaf = allocation.application.queue
                    admits = self._admits.get(leaf) if leaf is not None else None
                    if admits is not None and admits(allocation.spec.priority):
                        pool.setdefault(rank_of(allocation), []).append(allocation)
            for rank in pool:
                self._nodes_with[rank].append(node)
        return pool

    def _rest(self, node: Node) -> Resources:
        return self._rests.get(node) or self._needs[node]

    def _weight(self, rest: Resources) -> int:
        weight = 0
        for name, amount in rest.items():
            if amount > 0:
                weight += amount * self._unit.get(name, 0)
        return weight
