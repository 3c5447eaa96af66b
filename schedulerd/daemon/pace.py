"""How long a cycle may be, in placements: as many as take a few milliseconds here and now.

A placement costs two to three times as much in a cluster of a hundred thousand nodes as in one of a thousand, and
machines differ as well. The bound itself is a count and part of the command, so what the scheduler does is still a
function of its commands alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.core.facts import CycleRan, Fact

CYCLE_SECONDS = 0.005
"""What a cycle is to take. Requests and responses wait for its end."""

PLACEMENTS_MIN = 20
"""Below this the cost of a turn outweighs that of what is placed in it."""

_FIRST_GUESS_SECONDS = 50e-6
_WEIGHT = 1 / 8
"""Of the last cycle in the average: a pause of the machine does not make the next cycles short."""


class Pace:
    """Learns from every cycle what a placement takes."""

    def __init__(self, placements_max: int) -> None:
        """`placements_max` is never exceeded, however fast it goes."""
        self._placements_max = placements_max
        self._seconds_each = _FIRST_GUESS_SECONDS

    @property
    def placements(self) -> int:
        """That the next cycle may make."""
        return min(self._placements_max, max(PLACEMENTS_MIN, int(CYCLE_SECONDS / self._seconds_each)))

    def took(self, seconds: float, facts: Sequence[Fact]) -> None:
        """A cycle that said this took so long. One that placed nothing does not tell what a placement takes."""
        ran = next((fact for fact in reversed(facts) if isinstance(fact, CycleRan)), None)
        if ran is not None and ran.allocations:
            self._seconds_each += (seconds / ran.allocations - self._seconds_each) * _WEIGHT
