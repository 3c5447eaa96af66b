"""One moment on two clocks: the monotonic clock for deadlines and durations, the wall clock for people.

Operators and NTP set the wall clock, also backwards. So no deadline uses it: the scheduler is stepped with the
monotonic time alone, and a time is converted to wall time where it leaves the process.
"""

from __future__ import annotations

import time
from typing import NamedTuple


class Instant(NamedTuple):
    """One moment on both clocks."""

    monotonic_ns: int
    """Nanoseconds since an arbitrary moment (on Linux the boot of the machine); never runs backwards."""
    wall_ns: int
    """Nanoseconds since the Unix epoch."""

    @property
    def epoch_ns(self) -> int:
        """The wall time of monotonic time 0, computed from this instant."""
        return self.wall_ns - self.monotonic_ns

    def wall_of(self, monotonic_ns: int) -> int:
        """The wall time, in nanoseconds since the Unix epoch, of another monotonic time.

        The result ignores changes of the wall clock between then and this instant: what happened 5 s ago is shown as 5
        s ago.
        """
        return self.epoch_ns + monotonic_ns


def read_clocks() -> Instant:
    """Reads both clocks now."""
    return Instant(time.monotonic_ns(), time.time_ns())
