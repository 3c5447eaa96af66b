"""Where constrained asks may run in a partition: what is known of it, kept up to date as things happen.

What a constraint needs (a pool of nodes, a count of allocations by group) is made when an ask with it is looked at for
the first time, and remembered for a while after the last: a workload comes back. Whatever is kept here can be found out
anew from nodes and allocations at any time. A partition that never saw a constraint has nothing here, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.commands import AllocationAffinity, Expression, Operator
from schedulerd.core.expressions import first_unmet, why_unmet
from schedulerd.core.model.affinity import Affinity, Scope
from schedulerd.core.model.apart import emptied
from schedulerd.core.model.node import HOSTNAME_ATTRIBUTES
from schedulerd.core.model.node_pool import NodePool
from schedulerd.core.model.tagged import Tagged

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Allocation
    from schedulerd.core.model.constraint import Constraint
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.node_order import NodeOrder
    from schedulerd.core.model.partition import Partition
    from schedulerd.core.model.request_class import RequestClass

RULES_MIN = 1_024
"""So many constraints are remembered whether anybody asks with them or not; and twice as many as somebody does."""
SCOPES_MIN = 64
"""For so many keys the nodes are kept by the values of that attribute, whether that is needed or not."""
FEW_NODES = 64
"""So many nodes are gone through one by one."""
WALK_VISITS = 32
"""What a walk over all nodes may visit for one search as if it was free: about what a search in a pool costs."""
WALKED_PART = 4
"""What part of all nodes walks for a constraint may visit beyond that before a pool is made: a visit costs less than to
find out whether a node is a member."""
POOL_MEMBERS_MAX = 16_384
POOL_MEMBERS_PER_NODE = 4
"""So many members the pools of a partition have together at most, or so many for each of its nodes if that is more: a
placement is noted in each pool that its node is in."""
POOL_COST = 256
"""A pool counts as if it had so many members more, so that there are not many small ones either."""
LARGE_GROUP = 32
"""Groups of at least so many nodes on the average have pools of their own."""

May: TypeAlias = "Callable[[Node], bool]"
"""Whatever else decides if an ask may have a node."""
_Expressions: TypeAlias = tuple[Expression, ...]


class Rule:
    """What is known for one constraint."""

    __slots__ = ("affinity", "constraint", "is_live", "listed", "visits")

    def __init__(self, constraint: Constraint, affinity: Affinity | None) -> None:
        self.constraint = constraint
        self.affinity = affinity
        self.listed = tuple(one for one in constraint.node if one.operator is Operator.IN)
        """The expressions that groups of nodes are found by."""
        self.visits = 0
        """What walks over all nodes visited in vain since its pools were dropped last, or since it is known."""
        self.is_live = True
        """False once it was forgotten: nobody keeps it up to date any longer."""

    def allows(self, node: Node) -> bool:
        """Whether the attributes of the node are as demanded."""
        return first_unmet(self.constraint.node, node.attribute) is None


class Constraints:
    __slots__ = (
        "_partition",
        "_pools_with",
        "_rules_max",
        "_searches",
        "affinities",
        "changed",
        "no_better",
        "pool_members",
        "pools",
        "pools_of",
        "rules",
        "scopes",
        "tagged",
    )
    __deletable__ = ("_partition",)
    """For the compiler: what is deleted when the partition is gone, as it refers to this as well."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.rules: dict[Constraint, Rule] = {}
        """Empty where nobody ever asked with a constraint: then nothing needs to be told here."""
        self._rules_max = RULES_MIN
        self.pools: dict[tuple[_Expressions, Affinity | None], NodePool] = {}
        self._pools_with: dict[str, dict[NodePool, None]] = {}
        """By the keys of the attributes that they depend on."""
        self._searches = 0
        """How often a pool was searched so far."""
        self.pool_members = 0
        """Of all pools together, each pool counted as `POOL_COST` members more."""
        self.pools_of: dict[Node, dict[NodePool, None]] = {}
        """Those it is a member of; nodes of none are left out."""
        self.scopes: dict[str, Scope] = {}
        self.affinities: dict[tuple[AllocationAffinity, bool], Affinity] = {}
        self.tagged = Tagged()
        self.no_better: dict[RequestClass, None] = {}
        """Request classes for which no node they prefer has room; until more room is somewhere, or another group will
        do."""
        self.changed: dict[Affinity | None, dict[str, None]] = {}
        """Those of which groups opened or closed in this step, with the groups that are open now of these."""

    @property
    def know_nodes(self) -> bool:
        """Whether anything is known here that a new node, or one with other attributes, changes."""
        return bool(self.rules or self.scopes)

    # looking for nodes ----------------------------------------------------------------------------------------------

    def order(self, request_class: RequestClass) -> NodeOrder:
        """The nodes that are allowed by their attributes and may get new allocations."""
        expressions = self.rule(request_class).constraint.node
        return self._pool(expressions).order if expressions else self._partition.node_order

    def lacks_room_only(self, request_class: RequestClass) -> bool:
        """Whether no node has room for the request class now, while there is one that is allowed by its attributes."""
        rule = self.rule(request_class)
        return self._first_allowed(request_class, rule, None) is None and any(
            map(rule.allows, self._possible(rule.listed))
        )

    def first_fit(self, request_class: RequestClass, may: May | None = None) -> Node | None:
        """The first node in order on which an ask of the constrained request class may be placed, one that it prefers
        if there is one; None if there is none at all. With `may`, only of the nodes that it allows."""
        rule = self.rule(request_class)
        affinity = rule.affinity
        if affinity is not None and (affinity.is_required or request_class not in self.no_better):
            found = self._first_where_it_holds(request_class, rule, affinity, may)
            if found is not None or affinity.is_required:
                return found
            if may is None:
                self.no_better[request_class] = None
        return self._first_allowed(request_class, rule, may)

    def fits_any(self, request_class: RequestClass, nodes: Collection[Node]) -> bool:
        """Whether one of these nodes takes an ask of the constrained request class now."""
        possible = self._possible(self.rule(request_class).listed)
        few, many = (possible, nodes) if len(possible) < len(nodes) else (nodes, possible)
        return any(
            node.free.lacks(request_class.items) is None and self._partition.refusal(request_class, node) is None
            for node in few
            if many is possible or node in many
        )

    def refusal(self, request_class: RequestClass, node: Node, gone: Sequence[Allocation] = ()) -> str | None:
        """Why no ask of the constrained request class may be on the node if these allocations were not there, as a
        phrase; None if one may."""
        rule = self.rule(request_class)
        unmet = first_unmet(rule.constraint.node, node.attribute)
        if unmet is not None:
            return why_unmet(unmet)
        affinity = rule.affinity
        if affinity is None or not affinity.is_required:
            return None
        return affinity.why_not(node, _counted_with(affinity, node, gone) if gone else 0)

    def room(self, request_class: RequestClass, node: Node) -> tuple[tuple[Affinity, str], int] | None:
        """In which group the node is, and how many asks of the request class may be placed there one after the other;
        None if that is not limited."""
        affinity = self.rule(request_class).affinity
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

    def affinity(self, request_class: RequestClass) -> Affinity | None:
        """What decides by other allocations where asks of the request class may run; None if nothing does."""
        return None if request_class.constraint is None else self.rule(request_class).affinity

    def rule(self, request_class: RequestClass) -> Rule:
        """What is known for the constraint of a request class that has one, found out now if need be."""
        rule = request_class.rule
        if rule is None or not rule.is_live:
            assert request_class.constraint is not None
            rule = request_class.rule = self.rules.get(request_class.constraint) or self._new_rule(
                request_class.constraint
            )
        return rule

    def _first_allowed(self, request_class: RequestClass, rule: Rule, may: May | None) -> Node | None:
        """The first in order that is allowed by its attributes, and by `may`.

        Where few nodes have a demanded attribute, these are gone through. Else all nodes are walked over in order,
        which needs no memory and is soon over if many nodes are allowed. Once walks have visited so many nodes in vain
        that a pool would have cost no more, the search is one in a pool.
        """
        if not rule.constraint.node:
            return _first_fit(self._partition.node_order, request_class, may)
        possible = self._possible(rule.listed)
        if len(possible) <= FEW_NODES:
            return _best(
                node
                for node in possible
                if node.ordered
                and node.free.lacks(request_class.items) is None
                and rule.allows(node)
                and (may is None or may(node))
            )
        if self._may_walk(rule):
            return self._walk(request_class, rule, may)
        return _first_fit(self._pool(rule.constraint.node).order, request_class, may)

    def _may_walk(self, rule: Rule) -> bool:
        return rule.visits < len(self._partition.nodes) // WALKED_PART

    def _walk(self, request_class: RequestClass, rule: Rule, may: May | None) -> Node | None:
        order = self._partition.node_order
        before = order.visits
        found = order.first_fit_where(request_class, lambda node: rule.allows(node) and (may is None or may(node)))
        rule.visits += max(0, order.visits - before - WALK_VISITS)
        return found

    def _possible(self, listed: Sequence[Expression]) -> Collection[Node]:
        """Nodes among which are all with such attributes: those of one expression if they are few, else all."""
        for one in listed:
            groups = self._scope(one.key).groups
            found = [groups[value] for value in one.values if value in groups]
            if len(found) <= 1 or sum(map(len, found)) <= FEW_NODES:
                few = found[0] if len(found) == 1 else list(chain.from_iterable(found))
                if len(few) <= FEW_NODES:
                    return few
        return self._partition.nodes.values()

    def _first_where_it_holds(
        self, request_class: RequestClass, rule: Rule, affinity: Affinity, may: May | None
    ) -> Node | None:
        """The best of five ways: past the nodes of closed groups, or through those of open ones, where these are few;
        else a walk over all nodes, as long as few are visited in vain for that; else by the pools of large open groups,
        or by a pool of all nodes in open groups."""

        def admits(node: Node) -> bool:
            return affinity.admits(node) and (may is None or may(node))

        groups, closed = affinity.scope.groups, len(affinity.odd)
        size = len(affinity.scope.group_of) / len(groups) if groups else 0
        opened = len(groups) - closed if affinity.empty_holds else closed
        nodes_open = opened * size
        if affinity.empty_holds and len(self._partition.nodes) - nodes_open <= FEW_NODES:
            return self._first_allowed(request_class, rule, admits)
        if nodes_open > FEW_NODES and self._may_walk(rule):
            return self._walk(request_class, rule, admits)
        if nodes_open > FEW_NODES and size < LARGE_GROUP:
            return _first_fit(self._pool(rule.constraint.node, affinity).order, request_class, may)
        if nodes_open > FEW_NODES:
            key = affinity.scope.key
            pools = (
                self._pool((*rule.constraint.node, Expression(key, Operator.IN, (group,))))
                for group in affinity.open_groups()
            )
            return _best(node for pool in pools if (node := _first_fit(pool.order, request_class, may)) is not None)
        nodes = (node for group in affinity.open_groups() for node in groups[group] if node.ordered)
        allowed = (one for one in nodes if one.free.lacks(request_class.items) is None and rule.allows(one))
        return _best(one for one in allowed if may is None or may(one))

    # what is known --------------------------------------------------------------------------------------------------

    def _new_rule(self, constraint: Constraint) -> Rule:
        if len(self.rules) >= self._rules_max:
            self.forget_unused()
        affinity = None
        if constraint.affinity is not None:
            affinity = self._affinity(constraint.affinity, counts_itself=constraint.counts_itself)
        rule = self.rules[constraint] = Rule(constraint, affinity)
        return rule

    def _pool(self, expressions: _Expressions, affinity: Affinity | None = None) -> NodePool:
        """The pool is searched now: it is made if there is none, and those that were not searched for long are dropped
        if there are too many members then."""
        pool = self.pools.get((expressions, affinity))
        if pool is None:
            listed = [one for one in expressions if one.operator is Operator.IN]
            pool = NodePool(expressions, self._possible(listed), affinity)
            self.pools[expressions, affinity] = pool
            for key in pool.attribute_keys():
                self._pools_with.setdefault(key, {})[pool] = None
            self.pool_members += POOL_COST + len(pool.members)
            for node in pool.members:
                self.pools_of.setdefault(node, {})[pool] = None
            if affinity is not None:
                affinity.pools.append(pool)
            self._searches += 1
            pool.searched = self._searches
            self._drop_pools(max(POOL_MEMBERS_MAX, POOL_MEMBERS_PER_NODE * len(self._partition.nodes)))
        self._searches += 1
        pool.searched = self._searches
        return pool

    def _drop_pools(self, members_max: int) -> None:
        """Drops those that were searched longest ago, if there are too many members, until there is room for others;
        but never the last one."""
        if self.pool_members <= members_max:
            return
        for pool in sorted(self.pools.values(), key=lambda one: one.searched)[:-1]:
            if self.pool_members <= members_max * 3 // 4:
                break
            self._drop_pool(pool)
        for rule in self.rules.values():
            rule.visits = 0

    def _drop_pool(self, pool: NodePool) -> None:
        del self.pools[pool.expressions, pool.affinity]
        for key in pool.attribute_keys():
            del self._pools_with[key][pool]
            if not self._pools_with[key]:
                del self._pools_with[key]
        self.pool_members -= POOL_COST
        for node in pool.members:
            self._leave(node, pool)
        if pool.affinity is not None:
            pool.affinity.pools.remove(pool)

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

    def forget_idle(self) -> None:
        """To be called when a step is over: forgets what is remembered without need."""
        constrained = self._partition.request_classes.constrained
        if len(self.rules) > max(RULES_MIN, 2 * constrained):
            self.forget_unused()
        if not constrained:
            self._drop_pools(POOL_MEMBERS_MAX)

    def forget_unused(self) -> None:
        """Keeps what pending asks demand, and forgets the rest."""
        used = {one.rule for one in self._partition.request_classes.known_requests()}
        for constraint, rule in list(self.rules.items()):
            if rule not in used:
                rule.is_live = False
                del self.rules[constraint]
        affinities = {rule.affinity for rule in self.rules.values()}
        wanted = {rule.constraint.node for rule in self.rules.values()}
        for pool in list(self.pools.values()):
            if pool.affinity not in affinities or pool.expressions not in wanted:
                self._drop_pool(pool)
        for key, affinity in list(self.affinities.items()):
            if affinity not in affinities:
                self.tagged.forget(affinity)
                self.changed.pop(affinity, None)
                del self.affinities[key]
        keys = {one.key for rule in self.rules.values() for one in rule.listed}
        scopes = {rule.affinity.scope for rule in self.rules.values() if rule.affinity is not None}
        if len(self.scopes) > SCOPES_MIN:
            self.scopes = {key: scope for key, scope in self.scopes.items() if scope in scopes or key in keys}
        self.no_better.clear()
        self._rules_max = max(RULES_MIN, 2 * len(self.rules))

    def take_apart(self) -> Iterator[None]:
        """The partition is gone: nothing is asked here any longer."""
        del self._partition
        for pool in self.pools.values():
            yield from pool.take_apart()
        for pools in self.pools_of.values():
            yield from emptied(pools)
        for scope in self.scopes.values():
            for nodes in scope.groups.values():
                yield from emptied(nodes)
            yield from emptied(scope.groups, scope.group_of)
        for affinity in self.affinities.values():
            yield from emptied(affinity.pools)
        yield from self.tagged.take_apart()
        yield from emptied(self.rules, self.pools, self.pools_of, self._pools_with, self.scopes, self.affinities)
        yield from emptied(self.no_better, self.changed)

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
        """It may, or may not any longer, get new allocations, or has other room."""
        self.no_better.clear()
        self.moved(node)

    def enter(self, node: Node) -> None:
        """The node is new, and nothing runs there."""
        for key in (*node.attributes, *HOSTNAME_ATTRIBUTES):
            if key in self.scopes:
                self.scopes[key].put(node)
        for pool in self.pools.values():
            self._look_at_in(pool, node)

    def regroup(self, node: Node, before: Mapping[str, str]) -> None:
        """The attributes of the node were others before."""
        now = node.attributes
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        pools: dict[NodePool, None] = {}
        for key in changed:
            scope = self.scopes.get(key)
            if scope is not None:
                self._count_there(node, scope, -1)
                scope.put(node)
                self._count_there(node, scope, 1)
            pools.update(self._pools_with.get(key, {}))
        for pool in pools:
            self._look_at_in(pool, node)

    def _look_at_in(self, pool: NodePool, node: Node) -> None:
        was_in = pool in self.pools_of.get(node, ())
        if pool.look_at(node):
            self.pool_members += not was_in
            self.pools_of.setdefault(node, {})[pool] = None
        elif was_in:
            self._leave(node, pool)

    def _leave(self, node: Node, pool: NodePool) -> None:
        self.pool_members -= 1
        pools = self.pools_of[node]
        del pools[pool]
        if not pools:
            del self.pools_of[node]

    def forget(self, node: Node) -> None:
        """The node is gone, and nothing runs there any longer."""
        pools = self.pools_of.pop(node, {})
        self.pool_members -= len(pools)
        for pool in pools:
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


def _first_fit(order: NodeOrder, request_class: RequestClass, may: May | None) -> Node | None:
    return order.first_fit(request_class) if may is None else order.first_fit_where(request_class, may)


def _best(nodes: Iterable[Node]) -> Node | None:
    """The first of them in node order."""
    return min(nodes, key=lambda node: (node.score, node.node_id), default=None)
