"""Which ask is next: down the tree by fairness, then by the leaf's order, then by priority and age.

Only reads. It finds the first ask of all that might be placed as far as is known; what turns out to be impossible is
recorded by the cycle (at a queue or at the shape), and then it is not found again until that changes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape


def next_ask(partition: Partition) -> tuple[Application, Ask] | None:
    """The application and ask to try now, or None if nothing that is pending could be placed."""
    queue = partition.root
    closed: Collection[Shape] = queue.closed
    while True:
        contender = queue.lines.first(closed)
        if contender is None:
            return None
        if queue.is_leaf:
            application = cast(Application, contender)
            return application, _first_ask(application, closed)
        queue = cast(Queue, contender)
        if queue.closed:
            closed = {**dict.fromkeys(closed), **queue.closed}


def _first_ask(application: Application, closed: Collection[Shape]) -> Ask:
    heads = [
        application.groups[shape].head() for shape in application.needs if not shape.parked and shape not in closed
    ]
    return heads[0][2] if len(heads) == 1 else min(heads)[2]
