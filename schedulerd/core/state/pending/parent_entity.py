"""Queues and applications as parents: entities wait at them, and they wait at their own parent.

A pending class that cannot be allocated is blocked where the reason is: at the queue whose quota lacks room, or at the
root if no node fits. This removes the class from the demand of everything above, so no ask of the class is found from
there. A queue below the block can still be visited for another class. If the blocked class is found there, the block is
propagated to that place, once, and remembered, so that all of these places are unblocked together. Blocking and
unblocking cost the same however many asks wait.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum, auto

from schedulerd.core.state.pending.pending_index import Key, PendingIndex, SchedulingEntity
from schedulerd.core.state.pending.request_class import PendingClass


class BlockReason(Enum):
    """Why a pending class is blocked."""

    QUOTA = auto()
    """A quota or limit of the queue where it is blocked does not let it in."""
    NODE = auto()
    """No node fits it; it is blocked at the root."""


class Block:
    """The record that a pending class is blocked at `origin`, and at the places below it to which the block was
    propagated."""

    __slots__ = ("origin", "propagated_to", "reason")

    def __init__(self, origin: ParentEntity, reason: BlockReason) -> None:
        self.origin = origin
        self.reason = reason
        self.propagated_to: dict[PendingIndex, None] = {}
        """The indexes below the origin that have this block. An index in which the class is no longer needed removes
        itself."""


class ParentEntity(
    SchedulingEntity
):  # not an ABC: that would make each isinstance of a queue or application ten times as slow
    """A parent of scheduling entities that is itself a scheduling entity of its own parent."""

    __slots__ = ("parent_entity", "pending_index", "priorities")

    def __init__(self, ancestor: ParentEntity | None) -> None:
        super().__init__()
        self.parent_entity = ancestor
        """The parent; None for the root queue."""
        self.pending_index = PendingIndex()
        self.priorities: dict[int, int] = {}
        """For each priority: the number of entities with pending asks that show it."""

    @property
    def propagates_demand(self) -> bool:
        """Whether demand propagates to the parent."""
        return True

    @abstractmethod
    def key(self) -> Key:
        """Its sort key among the entities of its parent."""

    def rekey(self) -> None:
        """Updates its position at the parent."""
        if self.entry is not None and self.parent_entity is not None:
            self.parent_entity.pending_index.rekey(self, self.key())

    def shown_priority(self, highest: int) -> int:
        """The priority that the parent sees if `highest` is the highest priority here."""
        return highest

    def set_priority(self, entity: SchedulingEntity, priority: int | None) -> None:
        """Sets the priority that `entity` shows (None: nothing pending), and propagates the change upwards where it
        matters.

        Positions are not updated: the caller does that, because priority is only one part of the sort keys.
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
            self.parent_entity.set_priority(self, self.shown_priority(max(counts)) if counts else None)

    def reset_pending(self) -> None:
        """Empties the pending index of this parent, and removes it from that of its own parent."""
        for block in self.pending_index.blocked_by.values():
            block.propagated_to.clear()  # both objects refer to each other
        self.pending_index = PendingIndex()
        self.priorities = {}
        self.priority = None
        self.reset_position()

    def enqueue(self, entity: SchedulingEntity, key: Key, pending_class: PendingClass) -> None:
        """`entity` needs `pending_class` here from now on; propagates to the parent if this is new here."""
        is_new = self.pending_index.enqueue(entity, key, pending_class)
        if is_new and self.propagates_demand and self.parent_entity is not None:
            self.parent_entity.enqueue(self, self.key(), pending_class)

    def dequeue(self, entity: SchedulingEntity, pending_class: PendingClass) -> None:
        """`entity` no longer needs `pending_class` here; propagates to the parent if no other entity does."""
        is_gone = self.pending_index.dequeue(entity, pending_class)
        if is_gone and pending_class in self.needs and self.parent_entity is not None:
            self.parent_entity.dequeue(self, pending_class)

    def block(self, pending_class: PendingClass, reason: BlockReason) -> None:
        """Blocks the class here and removes it from the demand of the parent, so that it is not found from above."""
        self.pending_index.block(pending_class, Block(self, reason))
        if pending_class in self.needs and self.parent_entity is not None:
            self.parent_entity.dequeue(self, pending_class)

    def propagate(self, pending_class: PendingClass, block: Block) -> None:
        """Repeats a block from further up here, so that the class is not found here either."""
        self.pending_index.block(pending_class, block)
        block.propagated_to[self.pending_index] = None

    def unblock(self, pending_class: PendingClass) -> None:
        """Unblocks the class here and wherever the block was propagated."""
        block = self.pending_index.blocked_by[pending_class]
        self.pending_index.unblock(pending_class)
        for lower in list(block.propagated_to):
            lower.unblock(pending_class)
        if self.propagates_demand and self.parent_entity is not None:
            self.parent_entity.enqueue(self, self.key(), pending_class)
