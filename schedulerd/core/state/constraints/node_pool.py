"""A node pool: the nodes whose attributes meet some expressions, in node order. Constrained asks are searched in pools.

A change of a node is only noted here, and the order is corrected at the next search. So an allocation costs a note for
each pool of its node, and no move in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from schedulerd.core.language.commands import Expression
from schedulerd.core.state.constraints.expressions import first_unmet
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.nodes.node_order import NodeOrder

if TYPE_CHECKING:
    from schedulerd.core.state.constraints.affinity import Affinity
    from schedulerd.core.state.model.node import Node


class NodePool:
    __slots__ = ("_order", "_scores", "_stale", "affinity", "expressions", "members", "searched")

    def __init__(
        self, expressions: tuple[Expression, ...], nodes: Iterable[Node], affinity: Affinity | None = None
    ) -> None:
        """With an affinity, only nodes in groups that admit an ask; `look_at` must be called when a group opens or
        closes."""
        self.expressions = expressions
        self.searched = 0
        """When this pool was last searched, as a count of pool searches in the partition."""
        self.affinity = affinity
        self.members: dict[Node, None] = {}
        """All nodes that meet the expressions, schedulable or not."""
        self._order = NodeOrder()
        self._scores: dict[Node, float] = {}
        """The score under which each schedulable member is in the order."""
        self._stale: dict[Node, None] = {}
        for node in nodes:
            self.look_at(node)

    def attribute_keys(self) -> dict[str, None]:
        """The attribute keys that decide membership."""
        keys = {one.key: None for one in self.expressions}
        return keys if self.affinity is None else {**keys, self.affinity.scope.key: None}

    def look_at(self, node: Node) -> bool:
        """Adds or removes the node by its current attributes. Returns whether it is a member now."""
        is_member = self.wants(node)
        if is_member:
            self.members[node] = None
        if is_member or node in self.members:
            self._stale[node] = None
        if not is_member:
            self.members.pop(node, None)
        return is_member

    def wants(self, node: Node) -> bool:
        """Whether the node meets the expressions and, with an affinity, is in a group that admits an ask."""
        if self.affinity is not None and not self.affinity.admits(node):
            return False
        return first_unmet(self.expressions, node.attribute) is None

    def forget(self, node: Node) -> None:
        """Removes a node that is gone."""
        if node in self.members:
            del self.members[node]
            self._stale[node] = None

    def note(self, node: Node) -> None:
        """Notes that the score, the free room or the schedulability of a member changed."""
        self._stale[node] = None

    def note_all(self) -> None:
        self._stale.update(self.members)

    def dismantle(self) -> Iterator[None]:
        yield from clear_stepwise(self.members, self._scores, self._stale)
        yield from self._order.dismantle()

    @property
    def order(self) -> NodeOrder:
        """The schedulable members in node order, up to date."""
        if self._stale:
            for node in self._stale:
                if node in self._scores:
                    self._order.remove(node, self._scores.pop(node))
                if node.ordered and node in self.members:
                    self._order.add(node)
                    self._scores[node] = node.score
            self._stale.clear()
        return self._order
