"""What a partition knows about placement constraints, and the search for a node for constrained asks.

The data of a constraint (a node pool, counts of allocations by group) is made when an ask with it is first considered,
and kept for a while after its last ask, because workloads come back. All of it can be computed again from nodes and
allocations. A partition that never saw a constraint has no data here and no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.language.commands import AllocationAffinity, Expression, Operator
from schedulerd.core.state.constraints.affinity import Affinity, Scope
from schedulerd.core.state.constraints.expressions import first_unmet, why_unmet
from schedulerd.core.state.constraints.node_pool import NodePool
from schedulerd.core.state.constraints.node_pools import Expressions, NodePools
from schedulerd.core.state.constraints.rule import Rule
from schedulerd.core.state.constraints.tagged import Counted, Tagged
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.node import HOSTNAME_ATTRIBUTES

if TYPE_CHECKING:
    from schedulerd.core.state.constraints.constraint import Constraint
    from schedulerd.core.state.model.allocation import Allocation
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.nodes.node_order import NodeOrder
    from schedulerd.core.state.partition import Partition
    from schedulerd.core.state.pending.request_class import RequestClass

RULES_MIN = 1_024
"""This many rules are always kept. With many constrained request classes, twice their number is kept."""
SCOPES_MIN = 64
"""This many scopes are always kept. Beyond that, scopes that no rule needs are dropped."""
FEW_NODES = 64
"""Up to this many nodes are searched one by one."""
WALK_VISITS = 32
"""Nodes that one walk may visit free of charge: about the cost of a search in a pool."""
WALKED_PART = 4
"""Walks for one constraint may visit this fraction of all nodes (one quarter) before a pool is made. A visit costs less
than the check whether a node belongs in a pool."""
LARGE_GROUP = 32
"""From this average group size (in nodes) on, each group has a pool of its own."""

May: TypeAlias = "Callable[[Node], bool]"
"""A further condition that a node must meet."""


class Constraints:
    __slots__ = (
        "_partition",
        "_rules_max",
        "affinities",
        "changed",
        "no_preferred_node",
        "pools",
        "rules",
        "scopes",
        "tagged",
    )
    __deletable__ = ("_partition",)
    """For the compiler (mypyc): the attribute is deleted when the partition is dropped, to break the reference
    cycle."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.rules: dict[Constraint, Rule] = {}
        """Empty if no ask ever had a constraint; then nothing has to be reported here."""
        self._rules_max = RULES_MIN
        self.pools = NodePools()
        self.scopes: dict[str, Scope] = {}
        self.affinities: dict[tuple[AllocationAffinity, bool], Affinity] = {}
        self.tagged = Tagged()
        self.no_preferred_node: dict[RequestClass, None] = {}
        """Request classes for which no preferred node has room. Cleared when a node gets more room or a group opens or
        closes."""
        self.changed: dict[Affinity | None, dict[str, None]] = {}
        """Affinities with groups that opened or closed in this step, each with the groups among them that are open
        now."""

    @property
    def tracks_nodes(self) -> bool:
        """Whether a new node, or new attributes of a node, must be reported here."""
        return bool(self.rules or self.scopes)

    # search for nodes -------------------------------------------------------------------------------------------------

    def order(self, request_class: RequestClass) -> NodeOrder:
        """The schedulable nodes whose attributes meet the constraint, in node order."""
        expressions = self.rule(request_class).constraint.node
        return self._pool(expressions).order if expressions else self._partition.node_order

    def lacks_room_only(self, request_class: RequestClass) -> bool:
        """Whether nodes with the demanded attributes exist, but none of them has room for the request class now."""
        rule = self.rule(request_class)
        return self._first_allowed(request_class, rule, None) is None and any(
            map(rule.allows, self._possible(rule.listed))
        )

    def first_fit(self, request_class: RequestClass, may: May | None = None) -> Node | None:
        """The first node in node order that takes an ask of the constrained request class; None if there is none.

        With a preferred affinity, nodes that meet it come first. With `may`, only nodes for which it is true.
        """
        rule = self.rule(request_class)
        affinity = rule.affinity
        if affinity is not None and (affinity.is_required or request_class not in self.no_preferred_node):
            found = self._first_where_it_holds(request_class, rule, affinity, may)
            if found is not None or affinity.is_required:
                return found
            if may is None:
                self.no_preferred_node[request_class] = None
        return self._first_allowed(request_class, rule, may)

    def fits_any(self, request_class: RequestClass, nodes: Collection[Node]) -> bool:
        """Whether any of these nodes takes an ask of the constrained request class now."""
        possible = self._possible(self.rule(request_class).listed)
        few, many = (possible, nodes) if len(possible) < len(nodes) else (nodes, possible)
        return any(
            node.free.lacks(request_class.items) is None and self._partition.refusal(request_class, node) is None
            for node in few
            if many is possible or node in many
        )

    def refusal(self, request_class: RequestClass, node: Node, gone: Sequence[Allocation] = ()) -> str | None:
        """Why the constraint rules out the node if the allocations in `gone` were gone, as a phrase; None if it allows
        the node."""
        rule = self.rule(request_class)
        unmet = first_unmet(rule.constraint.node, node.attribute)
        if unmet is not None:
            return why_unmet(unmet, node.attribute)
        affinity = rule.affinity
        if affinity is None or not affinity.is_required:
            return None
        return affinity.why_not(node, _counted_with(affinity, node, gone) if gone else 0)

    def room(self, request_class: RequestClass, node: Node) -> tuple[tuple[Affinity, str], int] | None:
        """The affinity and group of the node, with how many asks of the request class the group takes one after the
        other; None without a bound."""
        affinity = self.rule(request_class).affinity
        group = affinity.scope.group_of.get(node) if affinity is not None else None
        if affinity is None or group is None or not affinity.is_required:
            return None
        count = affinity.room(group)
        return None if count is None else ((affinity, group), count)

    def take_changed(self) -> dict[Affinity | None, dict[str, None]]:
        """Returns `changed` and clears it."""
        changed, self.changed = self.changed, {}
        return changed

    def nodes_in(self, affinity: Affinity | None, changed: Mapping[Affinity | None, Iterable[str]]) -> Iterator[Node]:
        """The nodes in the groups of the affinity that opened, according to `changed`."""
        if affinity is not None:
            for group in changed.get(affinity, ()):
                yield from affinity.scope.groups.get(group, ())

    def affinity(self, request_class: RequestClass) -> Affinity | None:
        """The affinity of the request class; None if it has none."""
        return None if request_class.constraint is None else self.rule(request_class).affinity

    def rule(self, request_class: RequestClass) -> Rule:
        """The rule of a request class with a constraint. It is made if there is none."""
        assert request_class.constraint is not None
        return self.rules.get(request_class.constraint) or self._new_rule(request_class.constraint)

    def _first_allowed(self, request_class: RequestClass, rule: Rule, may: May | None) -> Node | None:
        """The first node in node order that has room, meets the expressions about nodes, and meets `may`.

        If an IN expression leads to few nodes, these are visited one by one. Otherwise all nodes are walked in node
        order, which needs no memory and ends soon if many nodes are allowed. Once walks have visited as many nodes as
        making a pool would have cost, the search uses a pool.
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
        found = order.first_fit_where(request_class, self._allowed_by(rule, may))
        rule.visits += max(0, order.visits - before - WALK_VISITS)
        return found

    def _allowed_by(self, rule: Rule, may: May | None) -> May:
        """Condition for a walk: the node meets the expressions about nodes, and `may`. A walk visits many nodes that
        are not allowed; if nodes are grouped by the key of the first IN expression, the group is checked first, which
        is cheaper."""
        scope = self.scopes.get(rule.listed[0].key) if rule.listed else None
        if scope is None:
            return lambda node: rule.allows(node) and (may is None or may(node))
        group_of, values, others = scope.group_of.get, rule.listed[0].values, rule.others
        return lambda node: (
            group_of(node) in values and first_unmet(others, node.attribute) is None and (may is None or may(node))
        )

    def _possible(self, listed: Sequence[Expression]) -> Collection[Node]:
        """A superset of the nodes that meet the IN expressions: the nodes of the smallest set that one expression leads
        to, if that is one group or at most `FEW_NODES` nodes; else all nodes."""
        fewest: Collection[Node] = self._partition.nodes.values()
        for one in listed:
            groups = self._scope(one.key).groups
            found = [groups[value] for value in one.values if value in groups]
            if len(found) == 1:
                if len(found[0]) < len(fewest):
                    fewest = found[0]
            elif sum(map(len, found)) <= FEW_NODES:
                fewest = list(chain.from_iterable(found))
            if len(fewest) <= FEW_NODES:
                break
        return fewest

    def _first_where_it_holds(
        self, request_class: RequestClass, rule: Rule, affinity: Affinity, may: May | None
    ) -> Node | None:
        """The first node in node order where the affinity holds, by the best of five ways:

        - closed groups have few nodes: a search that skips them
        - open groups have few nodes: these nodes one by one
        - earlier walks visited few nodes: a walk over all nodes
        - groups are large: the pools of the open groups
        - else: one pool of all nodes in open groups
        """

        def admits(node: Node) -> bool:
            return affinity.admits(node) and (may is None or may(node))

        groups, closed = affinity.scope.groups, len(affinity.odd)
        size = len(affinity.scope.group_of) / len(groups) if groups else 0
        opened = len(groups) - closed if affinity.empty_group_open else closed
        nodes_open = opened * size
        if affinity.empty_group_open and len(self._partition.nodes) - nodes_open <= FEW_NODES:
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

    # rules, pools, scopes ---------------------------------------------------------------------------------------------

    def _new_rule(self, constraint: Constraint) -> Rule:
        if len(self.rules) >= self._rules_max:
            self.forget_unused()
        affinity = None
        if constraint.affinity is not None:
            affinity = self._affinity(constraint.affinity, counts_itself=constraint.counts_itself)
        rule = self.rules[constraint] = Rule(constraint, affinity)
        return rule

    def _pool(self, expressions: Expressions, affinity: Affinity | None = None) -> NodePool:
        """The pool of these expressions, to be searched now. A new one may take the place of others."""
        before = len(self.pools.by_key)
        pool = self.pools.searched(expressions, affinity, self._possible)
        if len(self.pools.by_key) > before:
            self._bound_pools(len(self._partition.nodes))
        return pool

    def _bound_pools(self, nodes: int) -> None:
        """Drops pools if they have too many members for so many nodes; then walks come first again."""
        if self.pools.shrink(nodes):
            for rule in self.rules.values():
                rule.visits = 0

    def _affinity(self, spec: AllocationAffinity, *, counts_itself: bool) -> Affinity:
        affinity = self.affinities.get((spec, counts_itself))
        if affinity is None:
            affinity = Affinity(spec, counts_itself=counts_itself, scope=self._scope(spec.scope))
            self.affinities[spec, counts_itself] = affinity
            allocations: Iterable[Counted] = chain(self._partition.allocations.values(), self._partition.unclaimed)
            for allocation in self.tagged.watch(affinity, allocations):
                group = affinity.scope.group_of.get(allocation.node)
                if group is not None:
                    affinity.change(group, 1)
        return affinity

    def _scope(self, key: str) -> Scope:
        scope = self.scopes.get(key)
        if scope is None:
            scope = self.scopes[key] = Scope(key)
            scope.fill(self._partition.nodes.values())
        return scope

    def forget_idle(self) -> None:
        """Drops data that no longer has a use; called at the end of a step."""
        constrained = self._partition.request_classes.constrained
        if len(self.rules) > max(RULES_MIN, 2 * constrained):
            self.forget_unused()
        if not constrained:
            self._bound_pools(0)

    def forget_unused(self) -> None:
        """Drops all rules, pools and affinities that no pending ask needs, and scopes beyond `SCOPES_MIN`."""
        used = {one.constraint for one in self._partition.request_classes.known_requests()}
        self.rules = {constraint: rule for constraint, rule in self.rules.items() if constraint in used}
        affinities = {rule.affinity for rule in self.rules.values()}
        wanted = {rule.constraint.node for rule in self.rules.values()}
        for pool in list(self.pools.by_key.values()):
            if pool.affinity not in affinities or pool.expressions not in wanted:
                self.pools.drop(pool)
        for key, affinity in list(self.affinities.items()):
            if affinity not in affinities:
                self.tagged.forget(affinity)
                self.changed.pop(affinity, None)
                del self.affinities[key]
        keys = {one.key for rule in self.rules.values() for one in rule.listed}
        scopes = {rule.affinity.scope for rule in self.rules.values() if rule.affinity is not None}
        if len(self.scopes) > SCOPES_MIN:
            self.scopes = {key: scope for key, scope in self.scopes.items() if scope in scopes or key in keys}
        self.no_preferred_node.clear()
        self._rules_max = max(RULES_MIN, 2 * len(self.rules))

    def dismantle(self) -> Iterator[None]:
        """Frees the data of a dropped partition in slices."""
        del self._partition
        yield from self.pools.dismantle()
        for scope in self.scopes.values():
            for nodes in scope.groups.values():
                yield from clear_stepwise(nodes)
            yield from clear_stepwise(scope.groups, scope.group_of)
        for affinity in self.affinities.values():
            yield from clear_stepwise(affinity.pools)
        yield from self.tagged.dismantle()
        yield from clear_stepwise(self.rules, self.scopes, self.affinities)
        yield from clear_stepwise(self.no_preferred_node, self.changed)

    # changes of nodes and allocations ---------------------------------------------------------------------------------

    def placed(self, allocation: Counted) -> None:
        """The allocation runs on its node from now on. Call this after the node's own ledger is updated."""
        self.tagged.add(allocation)
        self._count(allocation, 1)
        self.moved(allocation.node)

    def freed(self, allocation: Counted) -> None:
        """The allocation is gone from its node."""
        self.tagged.drop(allocation)
        self._count(allocation, -1)
        self.moved(allocation.node)

    def moved(self, node: Node) -> None:
        """The position of the node in the node order, or its free room, changed."""
        for pool in self.pools.of_node.get(node, ()):
            pool.note(node)

    def more_room(self) -> None:
        """A node has more room, or became schedulable."""
        self.no_preferred_node.clear()

    def look_at(self, node: Node) -> None:
        """The node became schedulable or unschedulable, or its room changed."""
        self.no_preferred_node.clear()
        self.moved(node)

    def enter(self, node: Node) -> None:
        """Adds a new node without allocations."""
        for key in (*node.attributes, *HOSTNAME_ATTRIBUTES):
            if key in self.scopes:
                self.scopes[key].put(node)
        self.pools.enter(node)

    def regroup(self, node: Node, before: Mapping[str, str]) -> None:
        """The attributes of the node changed; `before` has the old ones."""
        now = node.attributes
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        for key in changed:
            scope = self.scopes.get(key)
            if scope is not None:
                self._count_there(node, scope, -1)
                scope.put(node)
                self._count_there(node, scope, 1)
        for pool in self.pools.decided_by(changed):
            self.pools.update(pool, node)

    def forget(self, node: Node) -> None:
        """Removes a node that is gone and has no allocations."""
        self.pools.forget(node)
        for scope in self.scopes.values():
            scope.drop(node)

    def all_scores_changed(self) -> None:
        """The scores of all nodes changed."""
        self.pools.all_scores_changed()

    def _count(self, allocation: Counted, by: int) -> None:
        for affinity in self.tagged.counting(allocation.spec.tags):
            group = affinity.scope.group_of.get(allocation.node)
            if group is not None:
                self._change(affinity, group, by)

    def _count_there(self, node: Node, scope: Scope, by: int) -> None:
        """Adds (`by` = 1) or removes (-1) all allocations on the node in the counts of its group in this scope."""
        group = scope.group_of.get(node)
        if group is not None:
            there: Iterable[Counted] = chain(node.allocations.values(), node.unclaimed.values())
            for allocation in there:
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
                    self.pools.update(pool, node)
            self.no_preferred_node.clear()


def _counted_with(affinity: Affinity, node: Node, allocations: Iterable[Allocation]) -> int:
    """How many of the allocations the affinity counts in the group of the node."""
    group_of = affinity.scope.group_of
    group = group_of.get(node)
    return sum(group_of.get(one.node) == group and affinity.matches(one.spec.tags) for one in allocations)


def _first_fit(order: NodeOrder, request_class: RequestClass, may: May | None) -> Node | None:
    return order.first_fit(request_class) if may is None else order.first_fit_where(request_class, may)


def _best(nodes: Iterable[Node]) -> Node | None:
    """The first of the nodes in node order."""
    return min(nodes, key=lambda node: (node.score, node.node_id), default=None)
