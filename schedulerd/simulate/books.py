"""What a resource manager sent and what came back, counted so that a mistake on either side shows.

Every number is counted where it happens (an ask on the wire, an allocation in a response), and none is derived from
another: so the sums at the end can fail, and do if an ask is placed twice, lost, or placed where there is no room.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

SURPRISES_SHOWN_MAX = 5
RECENT_MAX = 2_000


class Latencies:
    """Durations in seconds: all of them for the summary, the last ones for the live view."""

    def __init__(self) -> None:
        self._all = array("d")
        self._recent: deque[float] = deque(maxlen=RECENT_MAX)

    def add(self, duration_s: float) -> None:
        self._all.append(duration_s)
        self._recent.append(duration_s)

    def __len__(self) -> int:
        return len(self._all)

    def percentiles_s(self, *ranks: float) -> tuple[float, ...]:
        """The percentiles (each 0 to 100) of all durations; zeroes if there are none."""
        return _percentiles(self._all, ranks)

    def recent_percentiles_s(self, *ranks: float) -> tuple[float, ...]:
        """The same of the last `RECENT_MAX` durations."""
        return _percentiles(self._recent, ranks)


def _percentiles(durations_s: Sequence[float], ranks: Sequence[float]) -> tuple[float, ...]:
    """Nearest-rank percentiles: each is a duration that was really measured."""
    if not durations_s:
        return tuple(0.0 for _ in ranks)
    ordered = sorted(durations_s)
    last = len(ordered) - 1
    return tuple(ordered[min(last, max(0, -int(-rank / 100 * len(ordered) // 1) - 1))] for rank in ranks)


@dataclass(slots=True)
class Books:
    """Counts of one run."""

    asks_sent: int = 0
    allocations: int = 0
    """Allocations received, whatever they were for."""
    asks_rejected: int = 0
    asks_withdrawn: int = 0
    """Asks that ended without an allocation because the resource manager, or the scheduler, took them back."""
    releases_sent: int = 0
    releases_confirmed: int = 0
    stopped_by_scheduler: int = 0
    """Allocations that ended because the scheduler wanted it (preemption, timeout); confirmed to it."""
    applications_sent: int = 0
    applications_accepted: int = 0
    applications_rejected: int = 0
    applications_removed: int = 0
    nodes_rejected: int = 0
    surprises: int = 0
    """Messages that no correct scheduler sends, such as a second allocation for one ask."""
    surprise_texts: list[str] = field(default_factory=list)
    rejection_texts: list[str] = field(default_factory=list)
    placing: Latencies = field(default_factory=Latencies)
    """From ask sent to allocation received, the wait for room included."""
    confirming: Latencies = field(default_factory=Latencies)
    """From release sent to confirmation received: a round trip that waits for nothing."""

    def surprise(self, text: str) -> None:
        self.surprises += 1
        if len(self.surprise_texts) < SURPRISES_SHOWN_MAX:
            self.surprise_texts.append(text)

    def rejection(self, text: str) -> None:
        if len(self.rejection_texts) < SURPRISES_SHOWN_MAX:
            self.rejection_texts.append(text)

    def discrepancies(self, *, pending: int, held: int) -> list[str]:
        """Sums that do not add up, as sentences; `pending` asks are open and `held` allocations not yet released."""
        found = []
        accounted = self.allocations + pending + self.asks_withdrawn + self.asks_rejected
        if accounted != self.asks_sent:
            found.append(
                f"{self.asks_sent} asks sent, but {self.allocations} placed + {pending} pending"
                f" + {self.asks_withdrawn} released + {self.asks_rejected} rejected = {accounted}"
            )
        ended = self.releases_confirmed + self.stopped_by_scheduler + held
        if ended != self.allocations:
            found.append(
                f"{self.allocations} allocations received, but {self.releases_confirmed} releases confirmed"
                f" + {self.stopped_by_scheduler} stopped by the scheduler + {held} held = {ended}"
            )
        if self.surprises:
            found.append(f"{self.surprises} messages that should not have come, such as: {self.surprise_texts[0]}")
        return found
