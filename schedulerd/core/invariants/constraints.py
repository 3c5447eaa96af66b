"""What must hold of node pools, node groups, counts and tags that placement constraints are checked with."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.state.constraints.affinity import Affinity, Scope
from schedulerd.core.state.constraints.node_pool import NodePool
from schedulerd.core.state.constraints.node_pools import POOL_COST
from schedulerd.core.state.constraints.tagged import Counted
from schedulerd.core.state.partition import Partition


def constraints(partition: Partition) -> Iterator[str]:
    """Pools, groups and counts are what nodes and allocations say, and no preference that a node meets waits."""
    known = partition.constraints
    for pool in known.pools.by_key.values():
        yield from _pool(partition, pool)
    members = sum(len(pool.members) + POOL_COST for pool in known.pools.by_key.values())
    if known.pools.members != members:
        yield f"pools have {known.pools.members} members, counted {members}"
    for scope in known.scopes.values():
        yield from _scope(partition, scope)
    for affinity in known.affinities.values():
        yield from _affinity(partition, affinity)
    yield from _tags(partition)
    for request_class in list(known.no_preferred_node):
        wish, allows = known.affinity(request_class), known.rule(request_class).allows
        for node in partition.node_order:
            if wish is not None and wish.admits(node) and allows(node) and node.free.lacks(request_class.items) is None:
                what = f"an ask of {request_class.resources}"
                yield f"{what} prefers node {node.node_id}, which has room, and is not retried for it"


def _pool(partition: Partition, pool: NodePool) -> Iterator[str]:
    members = {one for one in partition.nodes.values() if pool.wants(one)}
    if set(pool.members) != members:
        yield f"the nodes with {pool.expressions} are not the members of its pool"
    if list(pool.order) != [node for node in partition.node_order if node in members]:
        yield f"the nodes with {pool.expressions} are not in node order"
    if {node for node, pools in partition.constraints.pools.of_node.items() if pool in pools} != members:
        yield f"the nodes that update the pool of {pool.expressions} are not its members"


def _scope(partition: Partition, scope: Scope) -> Iterator[str]:
    found = {node: node.attribute(scope.key) for node in partition.nodes.values()}
    if scope.group_of != {node: group for node, group in found.items() if group is not None}:
        yield f"the groups of nodes by {scope.key} are not what their attributes say"
    if scope.group_of != {node: group for group, nodes in scope.groups.items() for node in nodes}:
        yield f"the groups of nodes by {scope.key} contradict each other"
    if not all(scope.groups.values()):
        yield f"a group of nodes by {scope.key} is empty"


def _affinity(partition: Partition, affinity: Affinity) -> Iterator[str]:
    counts: dict[str, int] = {}
    for node in partition.nodes.values():
        group = node.attribute(affinity.scope.key)
        there: tuple[Counted, ...] = (*node.allocations.values(), *node.unclaimed.values())
        matching = sum(affinity.matches(one.spec.tags) for one in there)
        if group is not None and matching:
            counts[group] = counts.get(group, 0) + matching
    what = f"allocations with {affinity.expressions} by {affinity.scope.key}"
    if affinity.counts != counts:
        yield f"{what} are {affinity.counts}, counted {counts}"
    odd = {group for group, count in counts.items() if affinity.holds(count) is not affinity.empty_group_open}
    if set(affinity.odd) != odd:
        yield f"the groups of {what} that differ are {list(affinity.odd)}, counted {sorted(odd)}"
    opened = {group for group in affinity.scope.groups if affinity.holds(counts.get(group, 0))}
    if set(affinity.open_groups()) != opened:
        yield f"the open groups of {what} are {affinity.open_groups()}, counted {sorted(opened)}"


def _tags(partition: Partition) -> Iterator[str]:
    known = partition.constraints
    there: tuple[Counted, ...] = (*partition.allocations.values(), *partition.unclaimed)
    for allocation in there:
        tags = allocation.spec.tags
        matching = [one for one in known.affinities.values() if one.matches(tags)]
        found = list(known.tagged.counting(tags))
        if len(found) != len(matching) or set(found) != set(matching):
            yield f"{len(found)} affinities count {allocation.uuid}, and {len(matching)} match it"
    for key in known.tagged.watched_keys():
        has = {(value, one) for value, ones in known.tagged.allocations(key).items() for one in ones}
        wanted = {(one.spec.tags[key], one) for one in there if key in one.spec.tags}
        if has != wanted:
            yield f"the allocations indexed by tag {key} are not those that have it"
