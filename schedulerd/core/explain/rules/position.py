"""What is placed before an ask: applications of its queue, asks of its application, and queues before its own."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice

from schedulerd.core.explain.values import Position, QueueRank
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.ask_group import AskGroup

AHEAD_SEEN_MAX = 1_000
"""Applications, asks and queues that are compared with those of the ask; with more, counts are `at least`."""
AHEAD_NAMED_MAX = 5
"""Applications ahead, and queues at each level, that are named."""


def position(application: Application, ask: Ask, group: AskGroup) -> Position:
    """The position of a pending ask in its application, its leaf queue, and the queue tree."""
    leaf = application.queue
    own = application.key()
    entities = list(islice(leaf.pending_index, AHEAD_SEEN_MAX + 1))
    ahead = [(key, one) for key, one in entities[:AHEAD_SEEN_MAX] if one is not application and key < own]
    named = [one for _, one in nsmallest(AHEAD_NAMED_MAX, ahead, key=lambda item: item[0])]
    asks, all_asks_seen = _asks_ahead(application, ask, group)
    ranks = [_rank(queue) for queue in leaf.path_to_root if queue.parent is not None]
    return Position(
        applications_ahead=len(ahead),
        first_ahead=[one.application_id for one in named if isinstance(one, Application)],
        asks_ahead=asks,
        at_least=len(entities) > AHEAD_SEEN_MAX or not all_asks_seen,
        queues=ranks,
    )


def _asks_ahead(application: Application, ask: Ask, group: AskGroup) -> tuple[int, bool]:
    """Asks of the application that come before this one, and whether all were compared."""
    own, ahead, left = _order(ask), 0, AHEAD_SEEN_MAX
    for other in islice(application.groups.values(), AHEAD_SEEN_MAX):
        seen = list(islice(other, left + 1))
        ahead += sum(one is not ask and _order(one) < own for one in seen[:left])
        left -= len(seen)
        if left < 0:
            return ahead, False
    return ahead, len(application.groups) <= AHEAD_SEEN_MAX


def _order(ask: Ask) -> tuple[int, int, int]:
    return -ask.spec.priority, ask.asked_at_ns, ask.serial


def _rank(queue: Queue) -> QueueRank:
    """The place of the queue among its siblings with pending asks; it is counted itself."""
    assert queue.parent is not None
    own = queue.key()
    siblings = [one for one in islice(queue.parent.children.values(), AHEAD_SEEN_MAX) if one.needs and one is not queue]
    keyed = [(key, one.written) for one in siblings if (key := one.key()) < own]
    first = [path for _, path in nsmallest(AHEAD_NAMED_MAX, keyed, key=lambda item: item[0])]
    return QueueRank(queue.written, 1 + len(keyed), 1 + len(siblings), first)
