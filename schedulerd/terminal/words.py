"""Texts and amounts as a terminal shows them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime

from schedulerd.amounts import amounts as amount_texts

SECOND_NS = 1_000_000_000
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are removed: controls, formats (with marks of direction), and line separators."""


def clean(text: object) -> str:
    """A text without anything that could move the cursor, change colours, or turn the direction of writing."""
    return "".join(one for one in str(text) if unicodedata.category(one) not in _HIDDEN)


def amounts(resources: Mapping[str, int]) -> str:
    """`1Gi memory, 500m cpu`; `-` for nothing."""
    return clean(amount_texts(resources)) or "-"


def free(node: Mapping[str, Mapping[str, int]]) -> str:
    """What is left of a node, also of what nothing is left of."""
    return amounts({**dict.fromkeys(node["capacity"], 0), **node["available"]})


def age(ns: int | None, now_ns: int) -> str:
    """How long ago, in one unit: `12s`, `5m`, `3h`, `2d`; `-` without a time."""
    if ns is None:
        return "-"
    seconds = max(0, (now_ns - ns) // SECOND_NS)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def moment(ns: int) -> str:
    """The local time of day of a wall time."""
    return datetime.fromtimestamp(ns / SECOND_NS, tz=UTC).astimezone().strftime("%H:%M:%S")


def share(used: int, most: int) -> str:
    """`92 %`; `-` of nothing."""
    return f"{round(100 * used / most)} %" if most > 0 else "-"


def bar(used: int, most: int, width: int) -> str:
    """A bar that is as full as the share."""
    full = min(width, round(width * used / most)) if most > 0 else 0
    return "█" * full + "░" * (width - full)
