"""How many allocations of a request class the nodes have room for, by topology domain.

An index is made when a gang first asks for it. From then on a node that changes is only noted, and counted anew when
the index is next asked. So an allocation costs one note for each index, a partition without gangs has no index, and a
question costs as much as there were changes: full nodes are in no index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.state.constraints.expressions import first_unmet
from schedulerd.core.state.model.dismantle import clear_stepwise

if TYPE_CHECKING:
    from schedulerd.core.language.commands import Expression
    from schedulerd.core.language.resources import Items
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.pending.request_class import RequestClass

INDEXES_MAX = 32
"""Indexes of a partition. Beyond that, the one that was asked longest ago is dropped."""

_ENDLESS = 1 << 31
"""The room of a node for allocations that use nothing."""

_Key: TypeAlias = "tuple[str, Items, tuple[Expression, ...], bool]"


class Domain:
    """The nodes with one value of an attribute that have room, with how much each has."""

    __slots__ = ("nodes", "room")

    def __init__(self) -> None:
        self.nodes: dict[Node, int] = {}
        self.room = 0
        """Of all its nodes together."""


class RoomIndex:
    """Of one attribute and one request class. Affinities and required nodes do not count: it may say too much."""

    __slots__ = ("_expressions", "_if_empty", "_items", "_level_attribute", "_value_of", "asked", "changed", "domains")

    def __init__(self, attribute: str, request_class: RequestClass, *, if_empty: bool) -> None:
        """`if_empty`: of the room that there would be if nothing ran on the nodes."""
        self._level_attribute = attribute
        self._items = request_class.items
        self._expressions = request_class.constraint.node if request_class.constraint is not None else ()
        self._if_empty = if_empty
        self._value_of: dict[Node, str] = {}
        """The domain that each node with room is counted in."""
        self.domains: dict[str, Domain] = {}
        """By value of the attribute; only those with room."""
        self.changed: dict[Node, None] = {}
        """Nodes to be counted anew."""
        self.asked = 0
        """When it was last asked, as a count of questions."""

    def refresh(self, nodes_max: int) -> int:
        """Counts up to `nodes_max` of the changed nodes anew; returns how many."""
        changed, done = self.changed, 0
        while changed and done < nodes_max:
            done += 1
            self._count(changed.popitem()[0])
        return done

    def room_on(self, node: Node) -> int:
        """How many allocations the node has room for now."""
        if not node.ordered or (self._expressions and first_unmet(self._expressions, node.attribute) is not None):
            return 0
        free = node.capacity.minus(node.occupied) if self._if_empty else node.free
        room = _ENDLESS
        for name, amount in self._items:
            here = free[name] // amount
            if here < room:
                room = here
        return room if room > 0 else 0

    def value_on(self, node: Node) -> str | None:
        """The domain of the node; None if it is in none."""
        return node.attribute(self._level_attribute)

    def _count(self, node: Node) -> None:
        before = self._value_of.pop(node, None)
        if before is not None:
            domain = self.domains[before]
            domain.room -= domain.nodes.pop(node)
            if not domain.nodes:
                del self.domains[before]
        value = self.value_on(node)
        room = self.room_on(node) if value is not None else 0
        if room and value is not None:
            domain = self.domains.get(value) or self.domains.setdefault(value, Domain())
            domain.nodes[node] = room
            domain.room += room
            self._value_of[node] = value

    def dismantle(self) -> Iterator[None]:
        for domain in self.domains.values():
            yield from clear_stepwise(domain.nodes)
        yield from clear_stepwise(self.domains, self.changed, self._value_of)


class RoomIndexes:
    """The indexes of a partition."""

    __slots__ = ("_asked", "_known", "notes")

    def __init__(self) -> None:
        self._known: dict[_Key, RoomIndex] = {}
        self._asked = 0
        self.notes: list[dict[Node, None]] = []
        """`RoomIndex.changed` of each: the node order enters the nodes that change."""

    def of(
        self, nodes: Iterable[Node], attribute: str, request_class: RequestClass, *, if_empty: bool = False
    ) -> RoomIndex:
        """The index; of a new one all these nodes are yet to be counted."""
        constraint = request_class.constraint
        key = attribute, request_class.items, constraint.node if constraint is not None else (), if_empty
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = RoomIndex(attribute, request_class, if_empty=if_empty)
            index.changed.update(dict.fromkeys(nodes))
            if len(self._known) > INDEXES_MAX:
                del self._known[min(self._known, key=lambda one: self._known[one].asked)]
            self.notes[:] = [one.changed for one in self._known.values()]
        self._asked += 1
        index.asked = self._asked
        return index

    def all(self) -> Iterator[RoomIndex]:
        return iter(self._known.values())

    def dismantle(self) -> Iterator[None]:
        for index in self._known.values():
            yield from index.dismantle()
        yield from clear_stepwise(self._known)
        self.notes.clear()
