"""How often one object may say the same thing again.

What changes in the scheduler is always recorded, for who adds and subtracts. What only explains (a rejection, a
refusal) may be true again at every attempt, thousands of times a second, and would push everything else out of the
ring.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from schedulerd.core.specs import SECOND_NS

EACH_NS = 15 * SECOND_NS
"""An object says the same thing once in this time."""

REMEMBERED_MAX = 10_000
"""Things said by objects that are remembered for that: no more new ones are said in this time."""


class EventLimits:
    """Remembers what was said. Not more than `REMEMBERED_MAX` of it, whatever resource managers send."""

    def __init__(self) -> None:
        self.suppressed = 0
        """How often `allow` said no so far."""
        self._said_ns: OrderedDict[Hashable, int] = OrderedDict()
        """When; oldest first."""

    def allow(self, what: Hashable, now_ns: int) -> bool:
        """Whether it may be said now; if so it counts as said."""
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
