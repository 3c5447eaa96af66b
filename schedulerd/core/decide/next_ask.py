"""Which ask is next: down the tree by fairness, then by the leaf's order, then by priority and age.

Finds the first ask of all that might be placed as far as is known. What turns out to be impossible is recorded by the
cycle where the reason is, and then it is not found again until that changes.
"""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.parent_entity import Block, ParentEntity
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue


class Candidate(NamedTuple):
    """Whose first ask to try now; `block` is the nearest reason above for which its pending class is closed, if it
    is.

    The nearest, so that what is repeated below always opens together with what is directly above it.
    """

    application: Application
    group: AskGroup
    block: Block | None


def next_ask(partition: Partition) -> Candidate | None:
    """Where the ask to try now is, or None if nothing that is pending could be placed."""
    queue = partition.root
    closed_above: list[ParentEntity] = []
    while True:
        entity = queue.pending_index.first()
        if entity is None:
            return None
        if queue.pending_index.blocked_by:
            closed_above.append(queue)
        if not isinstance(entity, Queue):
            break
        queue = entity
    assert isinstance(entity, Application)
    group = entity.pending_index.first()
    assert isinstance(group, AskGroup)
    for ancestor in reversed(closed_above):
        block = ancestor.pending_index.blocked_by.get(group.pending_class)
        if block is not None:
            return Candidate(entity, group, block)
    return Candidate(entity, group, None)
