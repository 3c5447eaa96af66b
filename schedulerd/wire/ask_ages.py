"""From when asks and applications count as old: a tag says it in wall time, the scheduler needs it in monotonic time.

A resource manager that asks again, after a restart for example, says with the tag how long the ask or application has
waited (SEMANTICS I27). The scheduler knows no wall time, so the conversion happens where a request is decoded, and the
command carries its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from schedulerd.core.language import reading
from schedulerd.core.language.ask_tags import ASKED_AT_TAG
from schedulerd.core.language.checks import shown
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.instant import Instant, read_clocks

EARLIEST_NS = 10**17
"""In the year 1973. Numbers below are seconds, milliseconds or microseconds by mistake."""

CLOCK_SET_NS = SECOND_NS // 10
"""From this difference on the wall clock counts as set. Below it the conversion stays as it was, so that asks with the
same tag are asked at the same time, whenever they arrive."""


AHEAD_MAX_NS = 60 * SECOND_NS
"""A time that is to come by no more counts as now: clocks of two machines never agree, and drift apart in one machine
too, where a program keeps the difference of its own two clocks."""


class AskedAt(NamedTuple):
    monotonic_ns: int | None
    """None if there is no such tag, or it cannot be read."""
    unreadable: str = ""
    """Why not, as a reason to reject the item."""


_NOT_SAID = AskedAt(None)


class AskAges:
    """Reads the tag. Keeps the difference of the clocks."""

    def __init__(self, clocks: Callable[[], Instant] = read_clocks) -> None:
        self._clocks = clocks
        self._epoch_ns: int | None = None

    def asked_at(self, tags: Mapping[str, str]) -> AskedAt:
        text = tags.get(ASKED_AT_TAG)
        if text is None:
            return _NOT_SAID
        now = self._clocks()
        try:
            wall_ns = reading.whole_number(text, EARLIEST_NS, now.wall_ns + AHEAD_MAX_NS, signed=False)
        except reading.Unreadable:
            return AskedAt(
                None,
                f"tags[{ASKED_AT_TAG}] is {shown(text)}; it must be nanoseconds since the epoch, a whole number from "
                f"{EARLIEST_NS} to now, which is {now.wall_ns}",
            )
        if self._epoch_ns is None or abs(now.epoch_ns - self._epoch_ns) >= CLOCK_SET_NS:
            self._epoch_ns = now.epoch_ns
        return AskedAt(min(wall_ns - self._epoch_ns, now.monotonic_ns))
