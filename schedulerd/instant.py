"""One moment as two clocks tell it: a monotonic clock for deadlines and durations, the wall clock for people.

The wall clock is set by operators and by NTP, backwards as well. So it enters no deadline: the scheduler is stepped
with the monotonic time alone, and a time is converted to wall time where it leaves the process.
"""

from __future__ import annotations

import time
from typing import NamedTuple


class Instant(NamedTuple):
    """One moment on both clocks."""

    monotonic_ns: int
    """Nanoseconds since an arbitrary moment, the boot of the machine on Linux; never runs backwards."""
    wall_ns: int
    """Nanoseconds since the Unix epoch."""

    @property
    def epoch_ns(self) -> int:
        """The wall time of monotonic time 0, as the clocks stand at this instant."""
        return self.wall_ns - self.monotonic_ns

    def wall_of(self, monotonic_ns: int) -> int:
        """The wall time, in nanoseconds since the Unix epoch, of another monotonic time.

        The wall clock counts as never set between then and this instant: what happened 5 s ago is shown as 5 s ago.
        """
        return self.epoch_ns + monotonic_ns


def read_clocks() -> Instant:
    """This moment."""
    return Instant(time.monotonic_ns(), time.time_ns())
