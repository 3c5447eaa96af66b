"""How many allocations are together in a group of nodes, and in which groups one more may be placed.

Nodes with the same value of an attribute, the scope, are a group (SI 2021-02 `AllocationAffinityConstraints`). Only
groups that differ from one without any such allocation are remembered, so an affinity costs by what it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from schedulerd.core.commands import AllocationAffinity
from schedulerd.core.expressions import all_hold
from schedulerd.core.node_selector import selector

if TYPE_CHECKING:
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.node_pool import NodePool


class Scope:
    """The nodes of a partition by the value of one attribute. A node without it is in no group."""

    __slots__ = ("group_of", "groups", "key", "renewals")

    def __init__(self, key: str) -> None:
        self.key = key
        self.groups: dict[str, dict[Node, None]] = {}
        """No empty ones."""
        self.group_of: dict[Node, str] = {}
        """As it was when the node was looked at last; what is counted there is counted for that group."""
        self.renewals = 0
        """How often a group came or went."""

    def put(self, node: Node) -> None:
        """By what its attribute is now."""
        self.drop(node)
        group = node.attribute(self.key)
        if group is not None:
            if group not in self.groups:
                self.groups[group] = {}
                self.renewals += 1
            self.groups[group][node] = None
            self.group_of[node] = group

    def drop(self, node: Node) -> None:
        """It is in no group any longer; fine if it was in none."""
        group = self.group_of.pop(node, None)
        if group is not None:
            del self.groups[group][node]
            if not self.groups[group]:
                del self.groups[group]
                self.renewals += 1


class Affinity:
    """What an ask demands of the groups of a scope, and how many allocations that match there are in each."""

    __slots__ = (
        "_last_open",
        "_most",
        "_renewals",
        "counts",
        "empty_holds",
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
        """By how much the count grows with an ask that is placed."""
        self.least = spec.min_cardinality
        self._most = spec.max_cardinality
        self.counts: dict[str, int] = {}
        """By group; no zeros."""
        self.empty_holds = self.holds(0)
        """Whether an ask may go where nothing matches."""
        self.odd: dict[str, None] = {}
        """Groups where that is the other way round. They may be without nodes, as long as something is counted."""
        self.pools: list[NodePool] = []
        """Of nodes in open groups; to be told when one opens or closes."""
        self._last_open: dict[str, None] | None = None
        """The open groups where most are closed, though they were open at first; None if they are not known."""
        self._renewals = 0
        """Of the scope, when these were found out."""

    def matches(self, tags: Mapping[str, str]) -> bool:
        """Whether an allocation with these tags counts."""
        return all_hold(self.expressions, tags)

    def holds(self, count: int) -> bool:
        """Whether an ask may be placed in a group with so many (the count after placing lies in min..max)."""
        after = count + self.itself
        return self.least <= after and (not self._most or after <= self._most)

    def change(self, group: str, by: int) -> bool:
        """There are so many more in the group. Returns whether that changes if an ask may be placed there."""
        before = self.counts.get(group, 0)
        now = before + by
        if now:
            self.counts[group] = now
        else:
            del self.counts[group]
        if self.holds(now) == self.holds(before):
            return False
        if self.holds(now) == self.empty_holds:
            del self.odd[group]
            if self._last_open is not None:
                self._last_open[group] = None
        else:
            self.odd[group] = None
            if self._last_open is not None:
                self._last_open.pop(group, None)
        return True

    def is_open(self, group: str) -> bool:
        """Whether an ask may be placed in the group now."""
        return (group in self.odd) is not self.empty_holds

    def admits(self, node: Node) -> bool:
        """Whether an ask may be placed on the node now, as far as this goes."""
        group = self.scope.group_of.get(node)
        return group is not None and self.is_open(group)

    def open_groups(self) -> list[str]:
        """Those of the groups with nodes where an ask may be placed now."""
        groups = self.scope.groups
        if not self.empty_holds:
            return [group for group in self.odd if group in groups]
        if self._last_open is None or self._renewals != self.scope.renewals:
            self._last_open = {group: None for group in groups if group not in self.odd}
            self._renewals = self.scope.renewals
        return list(self._last_open)

    def room(self, group: str) -> int | None:
        """How many asks may be placed there one after the other, as far as too many is concerned; None for any."""
        if not self._most or not self.itself:
            return None
        return max(0, self._most - self.counts.get(group, 0))

    def why_not(self, node: Node, fewer: int = 0) -> str | None:
        """Why an ask may not be placed on the node if so `fewer` were there that match; None if it may."""
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
