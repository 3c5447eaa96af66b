"""The node pools of a partition, with a bound on their members together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.state.constraints.node_pool import NodePool
from schedulerd.core.state.model.dismantle import clear_stepwise

if TYPE_CHECKING:
    from schedulerd.core.state.constraints.affinity import Affinity
    from schedulerd.core.state.model.node import Node

POOL_MEMBERS_MAX = 16_384
POOL_MEMBERS_PER_NODE = 4
"""Maximum number of members of all pools of a partition: the larger of `POOL_MEMBERS_MAX` and this number for each
node. An allocation costs a note for each pool of its node."""
POOL_COST = 256
"""Each pool counts as this many additional members, which also bounds the number of small pools."""

Expressions: TypeAlias = tuple[Expression, ...]


class NodePools:
    __slots__ = ("_by_attribute", "_searches", "by_key", "members", "of_node")

    def __init__(self) -> None:
        self.by_key: dict[tuple[Expressions, Affinity | None], NodePool] = {}
        self._by_attribute: dict[str, dict[NodePool, None]] = {}
        """Pools by the attribute keys that decide their membership."""
        self._searches = 0
        """How often a pool was searched so far."""
        self.members = 0
        """The number of members of all pools, plus `POOL_COST` for each pool."""
        self.of_node: dict[Node, dict[NodePool, None]] = {}
        """The pools of each node; nodes without a pool are left out."""

    def searched(
        self,
        expressions: Expressions,
        affinity: Affinity | None,
        possible: Callable[[list[Expression]], Iterable[Node]],
    ) -> NodePool:
        """The pool of these expressions, which counts as searched now. It is made if there is none, from the nodes that
        are `possible` by the IN expressions."""
        pool = self.by_key.get((expressions, affinity))
        if pool is None:
            nodes = possible([one for one in expressions if one.operator is Operator.IN])
            pool = self.by_key[expressions, affinity] = NodePool(expressions, nodes, affinity)
            for key in pool.attribute_keys():
                self._by_attribute.setdefault(key, {})[pool] = None
            self.members += POOL_COST + len(pool.members)
            for node in pool.members:
                self.of_node.setdefault(node, {})[pool] = None
            if affinity is not None:
                affinity.pools.append(pool)
        self._searches += 1
        pool.searched = self._searches
        return pool

    def shrink(self, nodes: int) -> bool:
        """If there are too many members for a partition with so many nodes, drops the pools searched longest ago until
        three quarters are left; the pool searched last always stays. Returns whether there were too many."""
        members_max = max(POOL_MEMBERS_MAX, POOL_MEMBERS_PER_NODE * nodes)
        if self.members <= members_max:
            return False
        for pool in sorted(self.by_key.values(), key=lambda one: one.searched)[:-1]:
            if self.members <= members_max * 3 // 4:
                break
            self.drop(pool)
        return True

    def drop(self, pool: NodePool) -> None:
        del self.by_key[pool.expressions, pool.affinity]
        for key in pool.attribute_keys():
            del self._by_attribute[key][pool]
            if not self._by_attribute[key]:
                del self._by_attribute[key]
        self.members -= POOL_COST
        for node in pool.members:
            self._leave(node, pool)
        if pool.affinity is not None:
            pool.affinity.pools.remove(pool)

    def enter(self, node: Node) -> None:
        """Adds a new node to the pools that it belongs to."""
        for pool in self.by_key.values():
            self.update(pool, node)

    def update(self, pool: NodePool, node: Node) -> None:
        """The node may belong to the pool now, or no longer."""
        was_in = pool in self.of_node.get(node, ())
        if pool.look_at(node):
            self.members += not was_in
            self.of_node.setdefault(node, {})[pool] = None
        elif was_in:
            self._leave(node, pool)

    def decided_by(self, attribute_keys: Iterable[str]) -> dict[NodePool, None]:
        """The pools whose membership depends on one of these attributes."""
        return {pool: None for key in attribute_keys for pool in self._by_attribute.get(key, ())}

    def forget(self, node: Node) -> None:
        """Removes a node that is gone."""
        pools = self.of_node.pop(node, {})
        self.members -= len(pools)
        for pool in pools:
            pool.forget(node)

    def all_scores_changed(self) -> None:
        """The scores of all nodes changed."""
        for pool in self.by_key.values():
            pool.note_all()

    def dismantle(self) -> Iterator[None]:
        for pool in self.by_key.values():
            yield from pool.dismantle()
        for pools in self.of_node.values():
            yield from clear_stepwise(pools)
        yield from clear_stepwise(self.by_key, self.of_node, self._by_attribute)

    def _leave(self, node: Node, pool: NodePool) -> None:
        self.members -= 1
        pools = self.of_node[node]
        del pools[pool]
        if not pools:
            del self.of_node[node]
