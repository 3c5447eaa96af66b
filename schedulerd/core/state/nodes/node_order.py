"""The nodes that accept new allocations, best score first, with a search for the first one that has room.

A sorted list in blocks. Each block has an upper bound of what any of its nodes has free, so a search steps over full
nodes a block at a time. A search that finds nothing in a block lowers the bound to what is true, and remembers the
request class where the bound cannot tell (one node has the memory, another the cores). An allocation only lowers what
is free, so bounds stay valid; a node that enters a block raises its bound. An allocation costs two binary searches, one
step for each block without room, and a scan of the block that has room.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.pending.request_class import RequestClass

if TYPE_CHECKING:
    from schedulerd.core.state.model.node import Node

_BLOCK_NODES_MAX = 256
_MISFITS_MAX = 64

_Entry: TypeAlias = "tuple[float, str, Node]"


def _shortage(items: Items, free: Resources) -> float:
    return sum((amount - free[name]) / amount for name, amount in items if amount > free[name])


class _Block:
    __slots__ = ("bound", "entries", "misfits")

    def __init__(self, entries: list[_Entry], bound: Resources) -> None:
        self.entries = entries
        self.bound = bound
        """At least as much of each resource as any node of the block has free; never below 0."""
        self.misfits: set[RequestClass] = set()
        """Request classes within the bound that no node of the block fits; valid until a node enters the block."""

    def raise_bound(self, free: Resources) -> None:
        bound = self.bound
        for name, amount in free.items():
            if amount > bound[name]:
                bound[name] = amount
        if self.misfits:
            self.misfits.clear()

    def tighten(self, request_class: RequestClass) -> None:
        bound = Resources()
        for _, _, node in self.entries:
            for name, amount in node.free.items():
                if amount > bound[name]:
                    bound[name] = amount
        self.bound = bound
        if bound.lacks(request_class.items) is None:
            if len(self.misfits) >= _MISFITS_MAX:
                self.misfits.clear()
            self.misfits.add(request_class)


class NodeOrder:
    """Nodes by (score, id), lowest first."""

    __slots__ = ("_blocks", "_lasts", "_notes", "places_given", "visits")

    def __init__(self, notes: Iterable[dict[Node, None]] = ()) -> None:
        """In each of `notes` every node is entered that changes."""
        self._notes = notes
        self._blocks: list[_Block] = []
        self._lasts: list[_Entry] = []
        """The last entry of each block; a binary search in it finds the block."""
        self.visits = 0
        """Nodes and blocks visited so far; tests count work with it instead of time."""
        self.places_given = 0
        """How often a node was entered so far; for tests, too."""

    def add(self, node: Node) -> None:
        """Enters a node by its present score and free resources."""
        entry = (node.score, node.node_id, node)
        node.ordered_by = node.score
        self.places_given += 1
        for changed in self._notes:
            changed[node] = None
        if not self._blocks:
            block = _Block([entry], Resources())
            block.raise_bound(node.free)
            self._blocks.append(block)
            self._lasts.append(entry)
            return
        at = min(bisect_left(self._lasts, entry), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block.entries, entry)
        self._lasts[at] = block.entries[-1]
        block.raise_bound(node.free)
        if len(block.entries) > _BLOCK_NODES_MAX:
            self._split(at)

    def remove(self, node: Node, ordered_by: float | None = None) -> None:
        """Removes a node, which must be in: under `ordered_by` if given, else under its score in the partition's order
        of all nodes."""
        for changed in self._notes:
            changed[node] = None
        entry = (node.ordered_by if ordered_by is None else ordered_by, node.node_id, node)
        at = bisect_left(self._lasts, entry)
        entries = self._blocks[at].entries
        del entries[bisect_left(entries, entry)]
        if entries:
            self._lasts[at] = entries[-1]
        else:
            del self._blocks[at], self._lasts[at]

    def moved(self, node: Node) -> None:
        """The node's score, or what it has free, changed."""
        self.remove(node)
        self.add(node)

    def first_fit(self, request_class: RequestClass) -> Node | None:
        """The first node with room for the request class, or None."""
        items = request_class.items
        visits = 0
        for block in self._blocks:
            visits += 1
            bound = block.bound
            for name, amount in items:
                if amount > bound[name]:
                    break
            else:
                if request_class in block.misfits:
                    continue
                for entry in block.entries:
                    visits += 1
                    free = entry[2].free
                    for name, amount in items:
                        if amount > free[name]:
                            break
                    else:
                        self.visits += visits
                        return entry[2]
                block.tighten(request_class)
        self.visits += visits
        return None

    def first_fit_where(self, request_class: RequestClass, may: Callable[[Node], bool]) -> Node | None:
        """The first node with room for the request class for which `may` is true, or None."""
        items = request_class.items
        for block in self._blocks:
            self.visits += 1
            if block.bound.lacks(items) is not None or request_class in block.misfits:
                continue
            has_room = False
            visits = 0
            for entry in block.entries:
                visits += 1
                node = entry[2]
                free = node.free
                for name, amount in items:
                    if amount > free[name]:
                        break
                else:
                    has_room = True
                    if may(node):
                        self.visits += visits
                        return node
            self.visits += visits
            if not has_room:
                block.tighten(request_class)
        return None

    def with_room(self, request_class: RequestClass) -> Iterator[_Entry]:
        """The entries of the nodes with room for the request class, in order; nothing may change meanwhile."""
        items = request_class.items
        for block in self._blocks:
            self.visits += 1
            if block.bound.lacks(items) is not None or request_class in block.misfits:
                continue
            has_room = False
            for entry in block.entries:
                self.visits += 1
                if entry[2].free.lacks(items) is None:
                    has_room = True
                    yield entry
            if not has_room:
                block.tighten(request_class)

    def least_short(self, request_class: RequestClass, may: Callable[[Node], bool]) -> Node | None:
        """Of the nodes for which `may` is true, the one that lacks least for the request class, as a share of what it
        asks for; None if there is none.

        Blocks are searched in the order of what their bounds lack, until no other block can have a better node.
        """
        best: tuple[float, float, str] | None = None
        found, found_at = None, 0
        for short, at in sorted(
            (_shortage(request_class.items, block.bound), at) for at, block in enumerate(self._blocks)
        ):
            if best is not None and (short, at) > (best[0], found_at):
                break
            for score, node_id, node in self._blocks[at].entries:
                self.visits += 1
                rank = (_shortage(request_class.items, node.free), score, node_id)
                if (best is None or rank < best) and may(node):
                    best, found, found_at = rank, node, at
        return found

    def __iter__(self) -> Iterator[Node]:
        for block in self._blocks:
            for entry in block.entries:
                yield entry[2]

    def __len__(self) -> int:
        return sum(len(block.entries) for block in self._blocks)

    def dismantle(self) -> Iterator[None]:
        for block in self._blocks:
            yield from clear_stepwise(block.entries)
        yield from clear_stepwise(self._blocks, self._lasts)

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        half = len(block.entries) // 2
        upper = _Block(block.entries[half:], Resources(block.bound))
        del block.entries[half:]
        self._blocks.insert(at + 1, upper)
        self._lasts[at] = block.entries[-1]
        self._lasts.insert(at + 1, upper.entries[-1])
