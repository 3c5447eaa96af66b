"""What is pending before an ask in its leaf queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.ask_group import AskGroup


@dataclass(slots=True)
class _Ranks:
    """The order of the asks of one group."""

    first: int
    """Allocations that are pending in the queue before the group."""
    before: Mapping[str, int]
    """By key of an ask: allocations that are pending before it in the group."""


class WaitingLine:
    """What is pending before an ask in its leaf queue, as of the first question about the queue and about the group."""

    def __init__(self) -> None:
        self._first: dict[Queue, dict[AskGroup, int]] = {}
        self._ranks: dict[AskGroup, _Ranks] = {}

    def ahead(self, application: Application, ask: Ask) -> int:
        group = ask.group
        if group is None:
            return 0
        ranks = self._ranks.get(group)
        if ranks is None:
            in_queue = self._first.get(application.queue)
            if in_queue is None:
                in_queue = self._first[application.queue] = _first(application.queue)
            ranks = self._ranks[group] = _Ranks(in_queue.get(group, 0), _before(group))
        return ranks.first + ranks.before.get(ask.key, 0)


def _first(leaf: Queue) -> dict[AskGroup, int]:
    """How many allocations are pending before each group that is in the pending index."""
    waiting = [one for one in leaf.applications.values() if any(group.counted for group in one.groups.values())]
    found: dict[AskGroup, int] = {}
    count = 0
    for application in sorted(waiting, key=Application.key):
        groups = [group for group in application.groups.values() if group.counted]
        for group in sorted(groups, key=AskGroup.key):
            found[group] = count
            count += group.pending
    return found


def _before(group: AskGroup) -> dict[str, int]:
    asks = sorted(group, key=lambda ask: (-ask.spec.priority, ask.asked_at_ns, ask.serial))
    return dict(zip((ask.key for ask in asks), accumulate((ask.pending for ask in asks), initial=0), strict=False))
