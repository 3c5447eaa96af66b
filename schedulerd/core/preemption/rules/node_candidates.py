"""The order in which nodes are searched for victims: lowest possible cost first.

Sums alone rule out most nodes, and few others can beat the best result so far. So nodes come in the order of the lowest
cost that is possible there. The search can stop at the first result that no other node can beat; the allocations on the
remaining nodes are never visited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop
from typing import NamedTuple, TypeAlias, TypeVar

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PartitionSpec
from schedulerd.core.preemption.rules.victims import Cost, Rank, rank_of
from schedulerd.core.state.model.allocation import Allocation, may_be_preempted
from schedulerd.core.state.model.application import Application, is_above_min
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.work_budget import WorkBudget

PORTION = 256
"""Number of nodes or allocations that are visited between two possible pauses."""

ThingT = TypeVar("ThingT")
Admits: TypeAlias = Callable[[int], bool]
"""Whether an allocation of this priority may be preempted."""


def portions(things: Iterable[ThingT]) -> Iterator[list[ThingT]]:
    """A copy of all things, in lists of at most `PORTION`."""
    everything = list(things)
    for first in range(0, len(everything), PORTION):
        yield everything[first : first + PORTION]


class NodeCandidate(NamedTuple):
    """A node with the lowest cost that is possible there."""

    cost: Cost
    node: Node


class NodeCandidates:
    """Collects what nodes lack, and the leaf queues with possible victims; then yields the nodes in order."""

    def __init__(self, spec: PartitionSpec, unit: Mapping[str, int], budget: WorkBudget) -> None:
        """`unit` is the weight of one unit of each resource."""
        self._spec = spec
        self._unit = unit
        self._budget = budget
        self._needs: dict[Node, Resources] = {}
        self._rests: dict[Node, Resources] = {}
        """What a node would still lack if all victims counted so far were gone."""
        self._admits: dict[Queue, Admits] = {}
        """The leaf queues with possible victims."""
        self._ranks_of_wholes: dict[Application, Rank] = {}
        self._ranks: set[Rank] = set()
        """The ranks of possible victims, on any node."""
        self._pools: dict[Node, dict[Rank, list[Allocation]]] = {}
        """The possible victims by rank, for each node that was reached."""
        self._nodes_with: defaultdict[Rank, list[Node]] = defaultdict(list)
        """The same nodes, by the ranks of their possible victims."""

    @property
    def has_victims(self) -> bool:
        """Whether leaf queues with possible victims are known."""
        return bool(self._admits)

    def share(self, other: NodeCandidates) -> None:
        """The leaf queues and ranks of possible victims are those that another search for the same application and
        priority has found. There may be fewer by now."""
        self._admits, self._ranks = other._admits, other._ranks

    def take_needs(self, other: NodeCandidates, changed: Iterable[Node]) -> None:
        """Nodes lack what another search for an equal ask has noted, but for those that changed."""
        self._needs = dict(other._needs)
        for node in changed:
            self._needs.pop(node, None)

    def consider(self, node: Node, need: Resources) -> None:
        """Adds a node on which `need` must become free."""
        self._needs[node] = need

    def add(self, leaf: Queue, allocations: Sequence[Allocation], admits: Admits) -> None:
        """Adds allocations of the leaf queue. If its priority is admitted, an allocation is a possible victim."""
        self._budget.visits += len(allocations)
        self._admits[leaf] = admits
        kinds = {
            (spec.originator, spec.allow_preempt_self, spec.priority, is_above_min(one)): one
            for one in allocations
            if may_be_preempted(self._spec, one)
            for spec in (one.spec,)
        }
        self._ranks.update(self._rank_of(one) for (_, _, priority, _), one in kinds.items() if admits(priority))

    def in_order(self) -> Iterator[NodeCandidate | None]:
        """The nodes by the lowest cost of a victim set up to a rank, rank by rank; None marks a possible pause.

        The caller must call `fewest` for each node, because that counts the victims of the rank.
        """
        for rank in sorted(self._ranks):
            # The first pass reads which victims run on which node; often no other pass follows.
            nodes: Iterable[Node] = self._nodes_with[rank] if self._pools else self._needs
            heap: list[tuple[int, float, str, Node]] = []
            for portion in portions(nodes):
                self._budget.visits += len(portion)
                heap.extend((self._weight(self._rest(node)), node.score, node.node_id, node) for node in portion)
                yield None
            heapify(heap)
            while heap:
                weight, _, _, node = heappop(heap)
                yield NodeCandidate(((rank, weight),), node) if rank in self._pool(node) else None

    def fewest(self, node_candidate: NodeCandidate) -> int:
        """The minimum number of victims if those up to the candidate's rank are enough; 0 if they are not."""
        rank, node = node_candidate.cost[0][0], node_candidate.node
        pool = self._pools[node]
        self._budget.visits += len(pool[rank])
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
        """The possible victims on the node, by rank."""
        pool = self._pools.get(node)
        if pool is None:
            self._budget.visits += len(node.allocations)
            pool = self._pools[node] = {}
            for allocation in node.allocations.values():
                if may_be_preempted(self._spec, allocation):
                    leaf = allocation.application.queue
                    admits = self._admits.get(leaf) if leaf is not None else None
                    if admits is not None and admits(allocation.spec.priority):
                        pool.setdefault(self._rank_of(allocation), []).append(allocation)
            for rank in pool:
                self._nodes_with[rank].append(node)
        return pool

    def _rank_of(self, allocation: Allocation) -> Rank:
        """The rank of an allocation, found once for a gang that is disrupted as a whole."""
        application = allocation.application
        if not application.is_disrupted_as_one:
            return rank_of(allocation)
        if application not in self._ranks_of_wholes:
            self._budget.visits += len(application.allocations)
            self._ranks_of_wholes[application] = rank_of(allocation)
        return self._ranks_of_wholes[application]

    def _rest(self, node: Node) -> Resources:
        return self._rests.get(node) or self._needs[node]

    def _weight(self, rest: Resources) -> int:
        weight = 0
        for name, amount in rest.items():
            if amount > 0:
                weight += amount * self._unit.get(name, 0)
        return weight
