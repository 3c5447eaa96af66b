"""The times of a gang, but for the one at whose end it is given up."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm


class GangTimes:
    """Alarms of a gang, but for the one that ends it, and since when what they wait for is so."""

    __slots__ = (
        "below_min_alarm",
        "deadlock_alarm",
        "idle_alarm",
        "idle_since_ns",
        "is_check_postponed",
        "requeue_alarm",
        "short_since_ns",
    )

    def __init__(self) -> None:
        self.requeue_alarm: Alarm | None = None
        """Rings when it may gather again, after its time was over."""
        self.below_min_alarm: Alarm | None = None
        """Rings when it has been short for `gang.below-min.timeout`."""
        self.short_since_ns: int | None = None
        """Since when it is short, while its application is active."""
        self.idle_alarm: Alarm | None = None
        """Rings when its placeholders may have been idle for too long; set while the gang is complete and has idle
        ones."""
        self.idle_since_ns: int | None = None
        """When it became complete, or when an ask last took one of its placeholders; None while it is incomplete or has
        no idle ones."""
        self.deadlock_alarm: Alarm | None = None
        """Rings for the next deadlock check; set again while the gang has its time."""
        self.is_check_postponed = False
        """Whether its deadlock check was postponed to a time of its own, because other gangs were to be checked at the
        same time."""

    def alarms(self) -> Iterator[Alarm | None]:
        yield self.deadlock_alarm
        yield self.idle_alarm
        yield self.requeue_alarm
        yield self.below_min_alarm
