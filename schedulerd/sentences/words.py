"""Times, counts and lists in sentences: `14 min`, `21:09:13`, `3 pods`, `a, b and c`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SECOND_NS = 1_000_000_000
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def many(number: int, what: str) -> str:
    """`1 node`, `1,200 nodes`."""
    return f"{number:,} {what if number == 1 else what + 's'}"


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def duration(ns: int) -> str:
    """A duration in one or two units: `40 s`, `3 min`, `2 h 5 min`, `4 d`."""
    seconds = max(0, round(ns / SECOND_NS))
    if seconds < 2 * _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{round(seconds / _MINUTE)} min"
    if seconds < _DAY:
        hours, rest = divmod(seconds, _HOUR)
        return f"{hours} h {rest // _MINUTE} min" if rest >= _MINUTE else f"{hours} h"
    return f"{seconds // _DAY} d"


def clock_time(wall_ns: int) -> str:
    """Time of day in UTC: `21:09:13`."""
    minutes, seconds = divmod(wall_ns // SECOND_NS % _DAY, _MINUTE)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def sentence(clause: str) -> str:
    """With a capital and a full stop."""
    return f"{clause[:1].upper()}{clause[1:]}."


def sentences(clauses: Iterable[str]) -> str:
    """Several, without those that are empty."""
    return " ".join(sentence(one) for one in clauses if one)
