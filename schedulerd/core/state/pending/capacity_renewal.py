"""New sort keys after the capacity of the nodes changed, in slices.

A change of the capacity changes the keys of all entities whose share is measured against it. One slice at the end of
each step walks over the tree: over each queue in which something is pending, and over each application of the leaves
that are ordered by share. An entity that gets a new key for another reason, or begins to wait, already has it from the
present capacity. If the capacity changes during a walk, another walk follows, so every key is renewed in the end,
however often the capacity changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.sort_keys import APPLICATION_ORDERS

RENEWED_MAX = 200
"""Queues and applications that are visited in one step because the capacity changed."""


class CapacityRenewal:
    """The walk of one partition."""

    __slots__ = ("_applications", "_queues")

    def __init__(self) -> None:
        self._queues: list[Queue] = []
        self._applications: list[Application] = []
        """What the walk has still to visit; some of it may be gone by then."""

    def advance(self, root: Queue) -> None:
        """Renews the keys of the next `RENEWED_MAX` entities. To be called while keys are due."""
        queues, applications, capacity = self._queues, self._applications, root.capacity
        for _ in range(RENEWED_MAX):
            if applications:
                applications.pop().rekey()
            elif queues:
                queue = queues.pop()
                if not queue.priorities:  # nothing is pending in it, so nothing in it has a position
                    continue
                if queue.is_measured_by_capacity:
                    queue.rekey()
                queues.extend(queue.children.values())
                if APPLICATION_ORDERS[queue.properties.application_order].share is not None:
                    applications.extend(queue.applications.values())
            elif capacity.has_changed:
                capacity.has_changed = False
                queues.append(root)
            else:
                break
        capacity.is_due = capacity.has_changed or bool(queues or applications)

    def dismantle(self) -> Iterator[None]:
        yield from clear_stepwise(self._queues, self._applications)
