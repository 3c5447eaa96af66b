"""A place where entities wait and that waits itself at the place above: queues and applications.

What cannot be placed is closed where the reason is: at the queue whose quota is short, or at the root if no node has
room. That takes the pending class out of sight for everybody above, and everybody below is not even looked at for its
sake. Only if somebody below is looked at for another pending class and this one turns up, the block is repeated
there, once, and remembered, so that all of it opens again together. block and opening cost the same however many asks
wait.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum, auto

from schedulerd.core.model.pending_index import Key, PendingIndex, SchedulingEntity
from schedulerd.core.model.request_class import PendingClass


class BlockReason(Enum):
    """For want of what a pending class cannot be placed."""

    QUOTA = auto()
    """The quota of the queue where it is closed has no room for it."""
    NODE = auto()
    """No node has room for it; it is closed at the root."""


class Block:
    """Why a pending class may not be placed at a ancestor: a reason there (`origin`), which may have been repeated
    further down."""

    __slots__ = ("origin", "propagated_to", "reason")

    def __init__(self, origin: ParentEntity, reason: BlockReason) -> None:
        self.origin = origin
        self.reason = reason
        self.propagated_to: dict[PendingIndex, None] = {}
        """Where further down; a place that loses sight of the pending class takes itself out."""


class ParentEntity(
    SchedulingEntity
):  # no ABC: that would make each isinstance of a queue or application ten times as dear
    """Something entities wait at, and that is a entity at the ancestor above."""

    __slots__ = ("parent_entity", "pending_index", "priorities")

    def __init__(self, ancestor: ParentEntity | None) -> None:
        super().__init__()
        self.parent_entity = ancestor
        """The ancestor above; None at the top."""
        self.pending_index = PendingIndex()
        self.priorities: dict[int, int] = {}
        """Of the entities with anything pending: how many show which priority."""

    @property
    def propagates_demand(self) -> bool:
        """Whether what is needed here is asked for above."""
        return True

    @abstractmethod
    def key(self) -> Key:
        """Its place among the entities at its ancestor."""

    def rekey(self) -> None:
        """Its order may have changed: give it its new place."""
        if self.entry is not None and self.parent_entity is not None:
            self.parent_entity.pending_index.rekey(self, self.key())

    def shown_priority(self, highest: int) -> int:
        """What the ancestor above sees if `highest` is the highest priority here."""
        return highest

    def show_priority(self, entity: SchedulingEntity, priority: int | None) -> None:
        """`entity` now has this priority here, None for nothing pending; passed on upwards as far as it matters.

        Whoever changed what is pending gives the places anew afterwards: priority is only a part of the keys.
        """
        old = entity.priority
        if old == priority:
            return
        entity.priority = priority
        counts = self.priorities
        is_news = False
        if priority is not None:
            counts[priority] = shown = counts.get(priority, 0) + 1
            is_news = shown == 1
        if old is not None:
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
                is_news = True
        if is_news and self.parent_entity is not None:
            self.parent_entity.show_priority(self, self.shown_priority(max(counts)) if counts else None)

    def reset_pending(self) -> None:
        """Nobody stands in line here, and this ancestor stands in none."""
        for block in self.pending_index.blocked_by.values():
            block.propagated_to.clear()  # it refers to places that refer to it
        self.pending_index = PendingIndex()
        self.priorities = {}
        self.priority = None
        self.reset_position()

    def add_demand(self, entity: SchedulingEntity, key: Key, pending_class: PendingClass) -> None:
        """`entity` now needs `pending_class` here."""
        is_new = pending_class not in self.pending_index
        self.pending_index.need(entity, key, pending_class)
        if is_new and self.propagates_demand and self.parent_entity is not None:
            self.parent_entity.add_demand(self, self.key(), pending_class)

    def remove_demand(self, entity: SchedulingEntity, pending_class: PendingClass) -> None:
        """`entity` does not need `pending_class` here any longer."""
        self.pending_index.unneed(entity, pending_class)
        if pending_class not in self.pending_index and pending_class in self.needs and self.parent_entity is not None:
            self.parent_entity.remove_demand(self, pending_class)

    def block(self, pending_class: PendingClass, reason: BlockReason) -> None:
        """There is a reason here why the pending class cannot be placed: nobody above looks here for it any longer."""
        self.pending_index.block(pending_class, Block(self, reason))
        if pending_class in self.needs and self.parent_entity is not None:
            self.parent_entity.remove_demand(self, pending_class)

    def propagate(self, pending_class: PendingClass, block: Block) -> None:
        """The pending class is closed further up: do not look for it here either."""
        self.pending_index.block(pending_class, block)
        block.propagated_to[self.pending_index] = None

    def unblock(self, pending_class: PendingClass) -> None:
        """The reason is gone: the pending class may be placed again here, and wherever the block was repeated."""
        block = self.pending_index.blocked_by[pending_class]
        self.pending_index.unblock(pending_class)
        for lower in list(block.propagated_to):
            lower.unblock(pending_class)
        if self.propagates_demand and self.parent_entity is not None:
            self.parent_entity.add_demand(self, self.key(), pending_class)
