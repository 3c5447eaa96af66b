"""How many allocations wait, by pending class and leaf queue, without a walk over asks and ask groups.

The pending index counts the allocations of its ask groups (`PendingCounts`), however many asks and
applications they are of. What it does not count is of few applications as a rule: those whose state does not schedule,
or whose gang is awaited. They are found by a comparison of two numbers for each application.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.request_class import PendingClass

APPLICATIONS_SEEN_MAX = 50_000
"""Applications of a queue that are looked at for allocations that the pending index does not count."""
APPLICATIONS_A_TURN = 256
"""Applications that are looked at without a stop."""


class Applications:
    """The applications of a queue and all below it, up to `APPLICATIONS_SEEN_MAX`, a few at a time."""

    def __init__(self, queue: Queue) -> None:
        self._queues = queue.subtree()
        self.are_more = False
        """Whether there are more than were seen; known at the end of the iteration."""

    def __iter__(self) -> Iterator[list[Application]]:
        left = APPLICATIONS_SEEN_MAX
        for queue in self._queues:
            self.are_more = len(queue.applications) > left
            found = iter(list(islice(queue.applications.values(), left)))
            while some := list(islice(found, APPLICATIONS_A_TURN)):
                left -= len(some)
                yield some
            if self.are_more:
                return


def counted(leaf: Queue) -> Iterator[tuple[PendingClass, int]]:
    """The pending classes that the index counts in the leaf queue, each with its pending allocations."""
    for pending_class in leaf.pending_index.pending_classes():
        number = leaf.pending_counts.of(pending_class).get(leaf)
        if number:
            yield pending_class, number


def with_others(applications: Iterable[Application]) -> list[Application]:
    """Those of the applications that may have pending allocations that the index does not count.

    An application needs at its leaf queue the classes of the groups that are counted. If these are as many as it has
    groups, there is no other group.
    """
    return [one for one in applications if len(one.needs) != len(one.groups) or one.awaiting_placeholder]


def not_counted(application: Application) -> Iterator[AskGroup]:
    """The groups of the application that the index does not count."""
    return (group for group in application.groups.values() if not group.counted)


def member_of(leaf: Queue, pending_class: PendingClass) -> tuple[Application, AskGroup] | None:
    """An application in the leaf queue that the index counts for this class, with its group."""
    for application in leaf.pending_index.any_of(pending_class):
        if isinstance(application, Application):
            for group in application.pending_index.any_of(pending_class):
                if isinstance(group, AskGroup):
                    return application, group
    return None
