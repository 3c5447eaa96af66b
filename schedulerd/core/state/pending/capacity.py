"""The capacity of the schedulable nodes of a partition: what shares are measured against.

One ledger for the whole queue tree, as `Usages` is: a node that comes, goes, drains or offers something else costs the
same however many nodes there are. A change makes keys due (`capacity_renewal`).
"""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.dismantle import clear_stepwise


class SchedulableCapacity:
    __slots__ = ("_by_node", "amounts", "has_changed", "is_due")

    def __init__(self) -> None:
        self.amounts = Resources()
        """The sum over all schedulable nodes."""
        self.is_due = False
        """Whether keys may still be those of an earlier capacity."""
        self.has_changed = False
        """Whether the capacity changed since the last walk of the renewal began."""
        self._by_node: dict[str, Resources] = {}
        """What each schedulable node adds to the sum."""

    def note_node(self, node_id: str, offered: Resources | None) -> None:
        """The node is schedulable and offers so much, or is not schedulable (None)."""
        before = self._by_node.pop(node_id, None)
        if offered is not None:
            self._by_node[node_id] = offered
        if before == offered:
            return
        if before is not None:
            self.amounts.subtract(before.items())
        if offered is not None:
            self.amounts.add(offered.items())
        self.is_due = self.has_changed = True

    def dismantle(self) -> Iterator[None]:
        yield from clear_stepwise(self._by_node)
