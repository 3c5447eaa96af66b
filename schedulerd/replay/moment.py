"""Moments of a history as people write and read them: a time of day, or seconds since the start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from schedulerd.core.language.specs import SECOND_NS
from schedulerd.instant import Instant

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


class MomentInvalid(ValueError):
    """A text that is not a valid time; the message says what is."""


def parse_end(text: str, start: Instant) -> Callable[[Instant], bool]:
    """A function that tells whether an instant is after the time in `text`. Raises `MomentInvalid`.

    A number is seconds after `start` by the monotonic clock; an ISO 8601 time, UTC by default, is compared with the
    wall clock.
    """
    try:
        end_ns = start.monotonic_ns + round(float(text) * SECOND_NS)
    except (ValueError, OverflowError):
        wall_ns = _parse_time(text)
        return lambda now: now.wall_ns > wall_ns
    return lambda now: now.monotonic_ns > end_ns


def _parse_time(text: str) -> int:
    """Nanoseconds since the Unix epoch."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise MomentInvalid(
            f"{text!r} is not a time: write seconds since the start of the journal like 12.5, or 2026-11-21T09:30:00Z"
        ) from error
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND * 1_000


def time_text(wall_ns: int) -> str:
    """ISO 8601 in UTC, to the microsecond, of nanoseconds since the Unix epoch; what `parse_end` takes."""
    moment = _EPOCH + timedelta(microseconds=wall_ns // 1_000)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def offset_text(at_ns: int, start_ns: int) -> str:
    """Seconds since the start, to the millisecond; what `parse_end` takes. Both are monotonic times."""
    return f"{(at_ns - start_ns) / SECOND_NS:.3f}"


def duration_text(duration_ns: int) -> str:
    """A length of time for people, to three digits or so."""
    seconds = duration_ns / SECOND_NS
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 100:
        return f"{seconds:.2f} s"
    return f"{seconds:,.0f} s"
