"""Those nodes whose attributes meet some expressions, in node order: where a constrained ask is looked for.

What happens on a node is only noted here, and the order put right when it is searched next: so whatever is placed costs
a note for each pool the node is in, and not a move in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from schedulerd.core.commands import Expression
from schedulerd.core.expressions import first_unmet
from schedulerd.core.model.apart import emptied
from schedulerd.core.model.node_order import NodeOrder

if TYPE_CHECKING:
    from schedulerd.core.model.affinity import Affinity
    from schedulerd.core.model.node import Node


class NodePool:
    __slots__ = ("_order", "_scores", "_stale", "affinity", "expressions", "members", "searched")

    def __init__(
        self, expressions: tuple[Expression, ...], nodes: Iterable[Node], affinity: Affinity | None = None
    ) -> None:
        """With an affinity, only nodes in groups that are open for it: it has to be told when one opens or closes."""
        self.expressions = expressions
        self.searched = 0
        """When that was last, as a count of searches in pools of the partition."""
        self.affinity = affinity
        self.members: dict[Node, None] = {}
        """All such nodes, whether they may get new allocations or not."""
        self._order = NodeOrder()
        self._scores: dict[Node, float] = {}
        """Under which score each of those that may get new allocations stands in the order."""
        self._stale: dict[Node, None] = {}
        for node in nodes:
            self.look_at(node)

    def attribute_keys(self) -> dict[str, None]:
        """Of the attributes that its members are found by."""
        keys = {one.key: None for one in self.expressions}
        return keys if self.affinity is None else {**keys, self.affinity.scope.key: None}

    def look_at(self, node: Node) -> bool:
        """Takes the node in, or out, by what is so now. Returns whether it is in."""
        is_member = self.wants(node)
        if is_member:
            self.members[node] = None
        if is_member or node in self.members:
            self._stale[node] = None
        if not is_member:
            self.members.pop(node, None)
        return is_member

    def wants(self, node: Node) -> bool:
        """Whether the node is such a one."""
        if self.affinity is not None and not self.affinity.admits(node):
            return False
        return first_unmet(self.expressions, node.attribute) is None

    def forget(self, node: Node) -> None:
        """The node is gone."""
        if node in self.members:
            del self.members[node]
            self._stale[node] = None

    def note(self, node: Node) -> None:
        """The score of a member, what it has free, or whether it may get new allocations, changed."""
        self._stale[node] = None

    def note_all(self) -> None:
        self._stale.update(self.members)

    def take_apart(self) -> Iterator[None]:
        yield from emptied(self.members, self._scores, self._stale)
        yield from self._order.take_apart()

    @property
    def order(self) -> NodeOrder:
        """The members that may get new allocations, as they are now."""
        if self._stale:
            for node in self._stale:
                if node in self._scores:
                    self._order.remove(node, self._scores.pop(node))
                if node.ordered and node in self.members:
                    self._order.add(node)
                    self._scores[node] = node.score
            self._stale.clear()
        return self._order
