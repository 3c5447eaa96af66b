"""Which ask is next: down the tree by fairness, then by the leaf's order, then by priority and age.

Finds the first ask of all that might be placed as far as is known. What turns out to be impossible is recorded by the
cycle where the reason is, and then it is not found again until that changes.
"""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.host import Closing, Host
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue


class Candidate(NamedTuple):
    """Whose first ask to try now; `closing` is the nearest reason above for which its shape is closed, if it is.

    The nearest, so that what is repeated below always opens together with what is directly above it.
    """

    application: Application
    group: AskGroup
    closing: Closing | None


def next_ask(partition: Partition) -> Candidate | None:
    """Where the ask to try now is, or None if nothing that is pending could be placed."""
    queue = partition.root
    closed_above: list[Host] = []
    while True:
        contender = queue.lines.first()
        if contender is None:
            return None
        if queue.lines.closed:
            closed_above.append(queue)
        if not isinstance(contender, Queue):
            break
        queue = contender
    assert isinstance(contender, Application)
    group = contender.lines.first()
    assert isinstance(group, AskGroup)
    for host in reversed(closed_above):
        closing = host.lines.closed.get(group.kind)
        if closing is not None:
            return Candidate(contender, group, closing)
    return Candidate(contender, group, None)
