"""The time of a gang, as a daemon is told that starts to count it anew."""

from __future__ import annotations

LEAST_S = 5.0
"""A gang that is complete has to be known as such before its time ends."""


def left_ms(whole_s: float, elapsed_s: float) -> int:
    """What is left of the time of a gang, in milliseconds."""
    return int(1000 * max(min(LEAST_S, whole_s), min(whole_s, whole_s - elapsed_s)))
