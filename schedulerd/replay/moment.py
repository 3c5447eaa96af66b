"""Moments of a history as people write and read them: a time of day, or seconds since the start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from schedulerd.core.specs import SECOND_NS

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


class MomentInvalid(ValueError):
    """A text that is no moment; the message says what is one."""


def parse_moment(text: str, start_ns: int) -> int:
    """Nanoseconds since the epoch of `text`: seconds after `start_ns`, or an ISO 8601 time, in UTC if it does not say.

    Raises `MomentInvalid`.
    """
    try:
        return start_ns + round(float(text) * SECOND_NS)
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise MomentInvalid(
            f"{text!r} is not a time: write seconds since the start of the journal like 12.5, or 2026-11-21T09:30:00Z"
        ) from error
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND * 1_000


def time_text(at_ns: int) -> str:
    """ISO 8601 in UTC, to the microsecond; what `parse_moment` takes."""
    moment = _EPOCH + timedelta(microseconds=at_ns // 1_000)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def offset_text(at_ns: int, start_ns: int) -> str:
    """Seconds since the start, to the millisecond; likewise."""
    return f"{(at_ns - start_ns) / SECOND_NS:.3f}"


def duration_text(duration_ns: int) -> str:
    """A length of time for people, to three digits or so."""
    seconds = duration_ns / SECOND_NS
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 100:
        return f"{seconds:.2f} s"
    return f"{seconds:,.0f} s"
