"""Which ask is next: down the tree by fairness, then by the leaf's order, then by priority and age.

Finds the first ask of all that might be placed as far as is known. What turns out to be impossible is recorded by the
cycle where the reason is, and then it is not found again until that changes.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.host import Closing, Host
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue


class Candidate(NamedTuple):
    """The ask to try now. If its shape is closed on the way to it, `closing` is the nearest such reason above it.

    The nearest, so that what is repeated below always opens together with what is directly above it.
    """

    application: Application
    ask: Ask
    closing: Closing | None


def next_ask(partition: Partition) -> Candidate | None:
    """The ask to try now, or None if nothing that is pending could be placed."""
    queue = partition.root
    closed_above: list[Host] = []
    while True:
        contender = queue.lines.first()
        if contender is None:
            return None
        if queue.lines.closed:
            closed_above.append(queue)
        if isinstance(contender, Application):
            break
        queue = cast(Queue, contender)
    group = cast(AskGroup, contender.lines.first())
    ask = group.first()
    for host in reversed(closed_above):
        closing = host.lines.closed.get(ask.shape)
        if closing is not None:
            return Candidate(contender, ask, closing)
    return Candidate(contender, ask, None)
