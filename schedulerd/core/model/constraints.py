"""Where constrained asks may run in a partition: what is known of it, kept up to date as things happen.

What a constraint needs (a pool of nodes, a count of allocations by group) is made when an ask with it is looked at for
the first time, and remembered for a while after the last: a workload comes back. Whatever is kept here can be found out
anew from nodes and allocations at any time. A partition that never saw a constraint has nothing here, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.commands import AllocationAffinity, Expression, Operator
from schedulerd.core.expressions import first_unmet, why_unmet
from schedulerd.core.model.affinity import Affinity, Scope
from schedulerd.core.model.node_pool import NodePool
from schedulerd.core.model.tagged import Tagged

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Allocation
    from schedulerd.core.model.constraint import Constraint
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.node_order import NodeOrder
    from schedulerd.core.model.partition import Partition
    from schedulerd.core.model.shape import Shape

RULES_MIN = 16
"""So many constraints are remembered whether anybody asks with them or not; and twice as many as somebody does."""
FEW_NODES = 64
"""So many nodes are gone through one by one."""
LARGE_GROUP = 32
"""Groups of at least so many nodes on the average have pools of their own."""

May: TypeAlias = "Callable[[Node], bool]"
"""Whatever else decides if an ask may have a node."""
_Expressions: TypeAlias = tuple[Expression, ...]


class Rule:
    """What is known for one constraint."""

    __slots__ = ("affinity", "constraint", "group_pools", "is_live", "open_pool", "pool")

    def __init__(self, constraint: Constraint, pool: NodePool | None, affinity: Affinity | None) -> None:
        self.constraint = constraint
        self.pool = pool
        """The nodes that it allows by their attributes; None if all."""
        self.affinity = affinity
        self.group_pools: dict[str, NodePool] = {}
        """The same by the groups of the affinity, where these are large."""
        self.open_pool: NodePool | None = None
        """The same in all open groups together, where these are many and small."""
        self.is_live = True
        """False once it was forgotten: nobody keeps it up to date any longer."""


class Constraints:
    __slots__ = (
        "_partition",
        "_rules_max",
        "affinities",
        "changed",
        "no_better",
        "pools",
        "pools_of",
        "rules",
        "scopes",
        "tagged",
    )

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.rules: dict[Constraint, Rule] = {}
        """Empty where nobody ever asked with a constraint: then nothing needs to be told here."""
        self._rules_max = RULES_MIN
        self.pools: dict[tuple[_Expressions, Affinity | None], NodePool] = {}
        self.pools_of: dict[Node, dict[NodePool, None]] = {}
        """Those it is a member of; nodes of none are left out."""
        self.scopes: dict[str, Scope] = {}
        self.affinities: dict[tuple[AllocationAffinity, bool], Affinity] = {}
        self.tagged = Tagged()
        self.no_better: dict[Shape, None] = {}
        """Shapes for which no node they prefer has room; until more room is somewhere, or another group will do."""
        self.changed: dict[Affinity | None, dict[str, None]] = {}
        """Those of which groups opened or closed in this step, with the groups that are open now of these."""

    # looking for nodes ----------------------------------------------------------------------------------------------

    def order(self, shape: Shape) -> NodeOrder:
        """The nodes that are allowed by their attributes and may get new allocations."""
        pool = self.rule(shape).pool
        return pool.order if pool is not None else self._partition.node_order

    def first_fit(self, shape: Shape, may: May | None = None) -> Node | None:
        """The first node in order on which an ask of the constrained shape may be placed, one that it prefers if there
        is one; None if there is none at all. With `may`, only of the nodes that it allows."""
        rule = self.rule(shape)
        affinity = rule.affinity
        if affinity is not None and (affinity.is_required or shape not in self.no_better):
            found = self._first_where_it_holds(shape, rule, affinity, may)
            if found is not None or affinity.is_required:
                return found
            if may is None:
                self.no_better[shape] = None
        return _first_fit(self.order(shape), shape, may)

    def refusal(self, shape: Shape, node: Node, gone: Sequence[Allocation] = ()) -> str | None:
        """Why no ask of the constrained shape may be on the node if these allocations were not there, as a phrase; None
        if one may."""
        rule = self.rule(shape)
        unmet = first_unmet(rule.constraint.node, node.attribute)
        if unmet is not None:
            return why_unmet(unmet)
        affinity = rule.affinity
        if affinity is None or not affinity.is_required:
            return None
        return affinity.why_not(node, _counted_with(affinity, node, gone) if gone else 0)

    def room(self, shape: Shape, node: Node) -> tuple[tuple[Affinity, str], int] | None:
        """In which group the node is, and how many asks of the shape may be placed there one after the other; None if
        that is not limited."""
        affinity = self.rule(shape).affinity
        group = affinity.scope.group_of.get(node) if affinity is not None else None
        if affinity is None or group is None or not affinity.is_required:
            return None
        count = affinity.room(group)
        return None if count is None else ((affinity, group), count)

    def take_changed(self) -> dict[Affinity | None, dict[str, None]]:
        """Gives `changed`, and begins anew."""
        changed, self.changed = self.changed, {}
        return changed

    def nodes_in(self, affinity: Affinity | None, changed: Mapping[Affinity | None, Iterable[str]]) -> Iterator[Node]:
        """The nodes in those groups of the affinity that have opened."""
        if affinity is not None:
            for group in changed.get(affinity, ()):
                yield from affinity.scope.groups.get(group, ())

    def affinity(self, shape: Shape) -> Affinity | None:
        """What decides by other allocations where asks of the shape may run; None if nothing does."""
        return None if shape.constraint is None else self.rule(shape).affinity

    def rule(self, shape: Shape) -> Rule:
        """What is known for the constraint of a shape that has one, found out now if need be."""
        rule = shape.rule
        if rule is None or not rule.is_live:
            assert shape.constraint is not None
            rule = shape.rule = self.rules.get(shape.constraint) or self._new_rule(shape.constraint)
        return rule

    def _first_where_it_holds(self, shape: Shape, rule: Rule, affinity: Affinity, may: May | None) -> Node | None:
        """The best of four ways: past the nodes of closed groups, or through those of open ones, where these are few;
        else by the pools of large open groups, or by a pool of all nodes in open groups."""
        groups, closed = affinity.scope.groups, len(affinity.odd)
        size = len(affinity.scope.group_of) / len(groups) if groups else 0
        opened = len(groups) - closed if affinity.empty_holds else closed
        nodes_open = opened * size
        if affinity.empty_holds and len(self._partition.nodes) - nodes_open <= FEW_NODES:
            return self.order(shape).first_fit_where(shape, lambda n: affinity.admits(n) and (may is None or may(n)))
        if nodes_open > FEW_NODES and size < LARGE_GROUP:
            if rule.open_pool is None:
                rule.open_pool = self._pool(rule.constraint.node, affinity)
            return _first_fit(rule.open_pool.order, shape, may)
        if nodes_open > FEW_NODES:
            pools = [self._group_pool(rule, affinity.scope.key, group) for group in affinity.open_groups()]
            return _best(node for pool in pools if (node := _first_fit(pool.order, shape, may)) is not None)
        pool = rule.pool
        nodes = (node for group in affinity.open_groups() for node in groups[group] if node.ordered)
        if pool is not None:
            nodes = (node for node in nodes if node in pool.members)
        return _best(one for one in nodes if one.free.lacks(shape.items) is None and (may is None or may(one)))

    # what is known --------------------------------------------------------------------------------------------------

    def _new_rule(self, constraint: Constraint) -> Rule:
        if len(self.rules) >= self._rules_max:
            self._forget_unused()
        pool = self._pool(constraint.node) if constraint.node else None
        affinity = None
        if constraint.affinity is not None:
            affinity = self._affinity(constraint.affinity, counts_itself=constraint.counts_itself)
        rule = self.rules[constraint] = Rule(constraint, pool, affinity)
        return rule

    def _pool(self, expressions: _Expressions, affinity: Affinity | None = None) -> NodePool:
        pool = self.pools.get((expressions, affinity))
        if pool is None:
            pool = NodePool(expressions, self._partition.nodes.values(), affinity)
            self.pools[expressions, affinity] = pool
            for node in pool.members:
                self.pools_of.setdefault(node, {})[pool] = None
            if affinity is not None:
                affinity.pools.append(pool)
        return pool

    def _group_pool(self, rule: Rule, scope: str, group: str) -> NodePool:
        pool = rule.group_pools.get(group)
        if pool is None:
            expressions = (*rule.constraint.node, Expression(scope, Operator.IN, (group,)))
            pool = rule.group_pools[group] = self._pool(expressions)
        return pool

    def _affinity(self, spec: AllocationAffinity, *, counts_itself: bool) -> Affinity:
        affinity = self.affinities.get((spec, counts_itself))
        if affinity is None:
            affinity = Affinity(spec, counts_itself=counts_itself, scope=self._scope(spec.scope))
            self.affinities[spec, counts_itself] = affinity
            for allocation in self.tagged.watch(affinity, self._partition.allocations.values()):
                group = affinity.scope.group_of.get(allocation.node)
                if group is not None:
                    affinity.change(group, 1)
        return affinity

    def _scope(self, key: str) -> Scope:
        scope = self.scopes.get(key)
        if scope is None:
            scope = self.scopes[key] = Scope(key)
            for node in self._partition.nodes.values():
                scope.put(node)
        return scope

    def _forget_unused(self) -> None:
        """Keeps what somebody asks with, and forgets the rest."""
        used = {shape.rule for shape in self._partition.shapes.known()}
        for constraint, rule in list(self.rules.items()):
            if rule not in used:
                rule.is_live = False
                del self.rules[constraint]
        pools = {one for rule in self.rules.values() for one in (rule.pool, rule.open_pool, *rule.group_pools.values())}
        affinities = {rule.affinity for rule in self.rules.values()}
        scopes = {rule.affinity.scope for rule in self.rules.values() if rule.affinity is not None}
        self.pools = {key: pool for key, pool in self.pools.items() if pool in pools}
        self.pools_of = {}
        for pool in self.pools.values():
            for node in pool.members:
                self.pools_of.setdefault(node, {})[pool] = None
        for key, affinity in list(self.affinities.items()):
            if affinity not in affinities:
                self.tagged.forget(affinity)
                self.changed.pop(affinity, None)
                del self.affinities[key]
            affinity.pools = [pool for pool in affinity.pools if pool in pools]
        self.scopes = {key: scope for key, scope in self.scopes.items() if scope in scopes}
        self.no_better.clear()
        self._rules_max = max(RULES_MIN, 2 * len(self.rules))

    # what happens ---------------------------------------------------------------------------------------------------

    def placed(self, allocation: Allocation) -> None:
        """It runs on its node from now on; to be told after the node's own ledger."""
        self.tagged.add(allocation)
        self._count(allocation, 1)
        self.moved(allocation.node)

    def freed(self, allocation: Allocation) -> None:
        """It is gone."""
        self.tagged.drop(allocation)
        self._count(allocation, -1)
        self.moved(allocation.node)

    def moved(self, node: Node) -> None:
        """The node's place in the order, or what it has free, changed."""
        for pool in self.pools_of.get(node, ()):
            pool.note(node)

    def more_room(self) -> None:
        """A node has more room than before, or may get new allocations."""
        self.no_better.clear()

    def look_at(self, node: Node) -> None:
        """Its attributes may be others than before, or it may, or may not any longer, get new allocations."""
        self.no_better.clear()
        for scope in self.scopes.values():
            if scope.group_of.get(node) != node.attribute(scope.key):
                self._count_there(node, scope, -1)
                scope.put(node)
                self._count_there(node, scope, 1)
        for pool in self.pools.values():
            self._look_at_in(pool, node)

    def _look_at_in(self, pool: NodePool, node: Node) -> None:
        if pool.look_at(node):
            self.pools_of.setdefault(node, {})[pool] = None
        elif pool in self.pools_of.get(node, ()):
            del self.pools_of[node][pool]
            if not self.pools_of[node]:
                del self.pools_of[node]

    def forget(self, node: Node) -> None:
        """The node is gone, and nothing runs there any longer."""
        for pool in self.pools_of.pop(node, ()):
            pool.forget(node)
        for scope in self.scopes.values():
            scope.drop(node)

    def scored_anew(self) -> None:
        """All nodes have other scores than before."""
        for pool in self.pools.values():
            pool.note_all()

    def _count(self, allocation: Allocation, by: int) -> None:
        for affinity in self.tagged.counting(allocation.spec.tags):
            group = affinity.scope.group_of.get(allocation.node)
            if group is not None:
                self._change(affinity, group, by)

    def _count_there(self, node: Node, scope: Scope, by: int) -> None:
        """All that runs on the node, for the group that the node is in."""
        group = scope.group_of.get(node)
        if group is not None:
            for allocation in node.allocations.values():
                for affinity in self.tagged.counting(allocation.spec.tags):
                    if affinity.scope is scope:
                        self._change(affinity, group, by)

    def _change(self, affinity: Affinity, group: str, by: int) -> None:
        if affinity.change(group, by):
            opened = self.changed.setdefault(affinity, {})
            if affinity.is_open(group):
                opened[group] = None
            else:
                opened.pop(group, None)
            for pool in affinity.pools:
                for node in affinity.scope.groups.get(group, ()):
                    self._look_at_in(pool, node)
            self.no_better.clear()


def _counted_with(affinity: Affinity, node: Node, allocations: Iterable[Allocation]) -> int:
    """How many of them count in the node's group."""
    group_of = affinity.scope.group_of
    group = group_of.get(node)
    return sum(group_of.get(one.node) == group and affinity.matches(one.spec.tags) for one in allocations)


def _first_fit(order: NodeOrder, shape: Shape, may: May | None) -> Node | None:
    return order.first_fit(shape) if may is None else order.first_fit_where(shape, may)


def _best(nodes: Iterable[Node]) -> Node | None:
    """The first of them in node order."""
    return min(nodes, key=lambda node: (node.score, node.node_id), default=None)
