"""What one application uses on each node; kept from the first time that it is needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from schedulerd.core.language.resources import Items, Resources

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Allocation
    from schedulerd.core.state.model.node import Node


class Footprint:
    __slots__ = ("by_node", "changes")

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self.by_node: dict[Node, Resources] = {}
        """Only nodes with allocations of the application."""
        self.changes = 0
        """How often an allocation was added or removed."""
        for allocation in allocations:
            self.add(allocation.node, allocation.request_class.items)

    def add(self, node: Node, items: Items) -> None:
        """An allocation of the application was added on the node."""
        self.changes += 1
        self.by_node.setdefault(node, Resources()).add(items)

    def remove(self, node: Node, items: Items) -> None:
        """An allocation of the application on the node is gone."""
        self.changes += 1
        used = self.by_node[node]
        used.subtract(items)
        if not used:
            del self.by_node[node]

    def room(self, node: Node) -> Resources:
        """What the node has for the application if no other application used it."""
        room = node.capacity.minus(node.occupied)
        used = self.by_node.get(node)
        return room if used is None else room.minus(used)
