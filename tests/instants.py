"""Instants for tests, of clocks that stand far apart: a test that takes one for the other fails."""

from __future__ import annotations

from schedulerd.core.language.specs import SECOND_NS
from schedulerd.instant import Instant

EPOCH_NS = 1_600_000_000 * SECOND_NS
"""The wall time of monotonic time 0."""


def at(monotonic_ns: int) -> Instant:
    """That time on both clocks."""
    return Instant(monotonic_ns, EPOCH_NS + monotonic_ns)
