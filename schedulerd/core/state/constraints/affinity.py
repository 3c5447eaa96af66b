"""Affinities: how many matching allocations each group of nodes has, and which groups admit one more ask.

Nodes with the same value of one attribute, the scope, are a group (SI 2021-02 `AllocationAffinityConstraints`). Only
groups that differ from an empty group are remembered, so the cost of an affinity grows with the allocations it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from schedulerd.core.language.commands import AllocationAffinity
from schedulerd.core.state.constraints.expressions import all_hold
from schedulerd.core.state.constraints.node_selector import selector
from schedulerd.core.state.model.node import HOSTNAME_ATTRIBUTES

if TYPE_CHECKING:
    from schedulerd.core.state.constraints.node_pool import NodePool
    from schedulerd.core.state.model.node import Node


class Scope:
    """The nodes of a partition, grouped by the value of one attribute. A node without the attribute is in no group."""

    __slots__ = ("group_of", "groups", "key", "renewals")

    def __init__(self, key: str) -> None:
        self.key = key
        self.groups: dict[str, dict[Node, None]] = {}
        """The nodes of each group; no empty groups."""
        self.group_of: dict[Node, str] = {}
        """The group of each node when the node was last put here. Its allocations are counted for that group."""
        self.renewals = 0
        """How often a group was created or removed."""

    def fill(self, nodes: Iterable[Node]) -> None:
        """Puts nodes that are in no group yet into the groups of their current attributes."""
        key, groups, group_of = self.key, self.groups, self.group_of
        is_hostname = key in HOSTNAME_ATTRIBUTES
        for node in nodes:  # a hot loop over all nodes of a partition, for each key: avoids calls
            group = node.attribute(key) if is_hostname else node.attributes.get(key)
            if group is not None:
                members = groups.get(group)
                if members is None:
                    members = groups[group] = {}
                    self.renewals += 1
                members[node] = None
                group_of[node] = group

    def put(self, node: Node) -> None:
        """Moves the node to the group of its current attribute value."""
        self.drop(node)
        group = node.attribute(self.key)
        if group is not None:
            if group not in self.groups:
                self.groups[group] = {}
                self.renewals += 1
            self.groups[group][node] = None
            self.group_of[node] = group

    def drop(self, node: Node) -> None:
        """Removes the node from its group, if it is in one."""
        group = self.group_of.pop(node, None)
        if group is not None:
            del self.groups[group][node]
            if not self.groups[group]:
                del self.groups[group]
                self.renewals += 1


class Affinity:
    """What an ask demands of the groups of a scope, and the number of matching allocations in each group."""

    __slots__ = (
        "_last_open",
        "_most",
        "_renewals",
        "counts",
        "empty_group_open",
        "expressions",
        "is_required",
        "itself",
        "least",
        "odd",
        "pools",
        "scope",
    )

    def __init__(self, spec: AllocationAffinity, *, counts_itself: bool, scope: Scope) -> None:
        self.expressions = spec.expressions
        self.is_required = spec.required
        self.scope = scope
        self.itself = int(counts_itself)
        """By how much the count grows when such an ask is allocated: 1 if the affinity counts the ask itself, else
        0."""
        self.least = spec.min_cardinality
        self._most = spec.max_cardinality
        self.counts: dict[str, int] = {}
        """The number of matching allocations by group; no zeros."""
        self.empty_group_open = self.holds(0)
        """Whether a group without matching allocations admits an ask."""
        self.odd: dict[str, None] = {}
        """Groups for which the answer differs from `empty_group_open`. A group can be here without nodes, as long as it
        has a count."""
        self.pools: list[NodePool] = []
        """Pools of the nodes in open groups. They must be updated when a group opens or closes."""
        self._last_open: dict[str, None] | None = None
        """Cached result of `open_groups` where an empty group is open; None if not known."""
        self._renewals = 0
        """The value of `Scope.renewals` for which `_last_open` was computed."""

    def matches(self, tags: Mapping[str, str]) -> bool:
        """Whether the affinity counts an allocation with these tags."""
        return all_hold(self.expressions, tags)

    def holds(self, count: int) -> bool:
        """Whether a group with `count` matching allocations admits an ask: the count after its allocation must be in
        min..max."""
        after = count + self.itself
        return self.least <= after and (not self._most or after <= self._most)

    def change(self, group: str, by: int) -> bool:
        """Adds `by` to the count of the group. Returns whether this opened or closed the group."""
        before = self.counts.get(group, 0)
        now = before + by
        if now:
            self.counts[group] = now
        else:
            del self.counts[group]
        if self.holds(now) == self.holds(before):
            return False
        if self.holds(now) == self.empty_group_open:
            del self.odd[group]
            if self._last_open is not None:
                self._last_open[group] = None
        else:
            self.odd[group] = None
            if self._last_open is not None:
                self._last_open.pop(group, None)
        return True

    def is_open(self, group: str) -> bool:
        """Whether the group admits an ask now."""
        return (group in self.odd) is not self.empty_group_open

    def admits(self, node: Node) -> bool:
        """Whether the affinity allows an ask on the node now."""
        group = self.scope.group_of.get(node)
        return group is not None and self.is_open(group)

    def open_groups(self) -> list[str]:
        """The groups with nodes that admit an ask now."""
        groups = self.scope.groups
        if not self.empty_group_open:
            return [group for group in self.odd if group in groups]
        if self._last_open is None or self._renewals != self.scope.renewals:
            self._last_open = {group: None for group in groups if group not in self.odd}
            self._renewals = self.scope.renewals
        return list(self._last_open)

    def room(self, group: str) -> int | None:
        """How many asks fit in the group one after the other before the maximum is reached; None without a bound."""
        if not self._most or not self.itself:
            return None
        return max(0, self._most - self.counts.get(group, 0))

    def why_not(self, node: Node, fewer: int = 0) -> str | None:
        """Why the affinity rules out the node if `fewer` of the matching allocations in its group were gone, as a
        phrase; None if it allows the node."""
        group = self.scope.group_of.get(node)
        if group is None:
            return f"no {self.scope.key}, which makes nodes a group"
        count = self.counts.get(group, 0) - fewer
        if self.holds(count):
            return None
        what = f"allocations with {selector(self.expressions)}" if self.expressions else "allocations"
        if count + self.itself < self.least:
            return f"too few {what} in its {self.scope.key}: {self.least} with it are wanted"
        return f"too many {what} in its {self.scope.key}: {self._most} with it are allowed"
