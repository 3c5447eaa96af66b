"""Limits how often the same event of one object is recorded.

Events that change something are always recorded, so that readers can keep ledgers. Events that only explain (a
rejection, a refusal) may repeat at every attempt, thousands of times a second, and would push all other events out of
the ring.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from schedulerd.core.language.specs import SECOND_NS

EACH_NS = 15 * SECOND_NS
"""The same event of an object is recorded once in this time."""

REMEMBERED_MAX = 10_000
"""Maximum number of events that are remembered for this; further new ones are not recorded in this time."""


class EventLimits:
    """Remembers recent events: at most `REMEMBERED_MAX`, whatever resource managers send."""

    def __init__(self) -> None:
        self.suppressed = 0
        """How often `allow` returned False."""
        self._said_ns: OrderedDict[Hashable, int] = OrderedDict()
        """When; oldest first."""

    def allow(self, what: Hashable, now_ns: int) -> bool:
        """Whether the event may be recorded now; if so, it is remembered."""
        said_ns = self._said_ns
        while said_ns:
            if now_ns - said_ns[next(iter(said_ns))] < EACH_NS:
                break
            said_ns.popitem(last=False)
        if what in said_ns or len(said_ns) >= REMEMBERED_MAX:
            self.suppressed += 1
            return False
        said_ns[what] = now_ns
        return True
