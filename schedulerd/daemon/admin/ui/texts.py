"""Values as people read them. Whatever a tenant may have written goes through `visible` before it is on a page."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2s

from schedulerd.amounts import VCORE, resource

TEXT_LENGTH_SHOWN = 400
"""Characters of one text on a page."""

NONE = "\N{EN DASH}"
"""Stands for a value that is not there."""

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = ("memory", "ephemeral-storage")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that a page never shows: control characters, marks of direction, line separators."""


def visible(text: str) -> str:
    """The text without characters that cannot be seen or that change the direction of others, and not too long."""
    if not text.isprintable():
        text = "".join(" " if one in "\t\n\r" else one for one in text if _is_seen(one))
    return text if len(text) <= TEXT_LENGTH_SHOWN else f"{text[: TEXT_LENGTH_SHOWN - 1]}…"


def _is_seen(character: str) -> bool:
    return character in "\t\n\r" or unicodedata.category(character) not in _UNSEEN


def row_key(*parts: object) -> str:
    """A short key for the object with these names, safe in an attribute whatever the names are."""
    text = "\0".join(map(str, parts))
    return blake2s(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def count(number: int) -> str:
    return f"{number:,}"


def short_count(number: float) -> str:
    """Three digits: `940`, `2.4k`, `1.3M`."""
    for limit, factor, suffix in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")):
        if number < limit:
            value = number / factor
            return f"{value:.0f}{suffix}" if value >= 100 or not suffix else f"{value:.1f}{suffix}"
    return f"{number / 1e9:.1f}G"


def many(number: int, what: str, plural: str = "") -> str:
    """`1 node`, `1,200 nodes`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def amount(name: str, value: int) -> str:
    """About three digits, in the units of `schedulerd.amounts`, as sentences have them too."""
    if value < 0:
        return f"-{amount(name, -value)}"
    if name == VCORE:
        if value % 1000 == 0 or value >= 100_000:
            return f"{value / 1000:,.0f}"
        return f"{value}m" if value < 10_000 else f"{value / 1000:.1f}"
    if name in _BYTES or name.startswith("hugepages-"):
        return _bytes(value)
    return f"{value:,}"


def amounts(resources: Mapping[str, int]) -> str:
    """`1Gi memory, 500m cpu`."""
    return ", ".join(f"{amount(name, value)} {resource(name)}" for name, value in resources.items())


def _bytes(value: int) -> str:
    power, size = 0, float(value)
    while size >= 1024 and power < len(_BINARY) - 1:
        size /= 1024
        power += 1
    digits = f"{size:.0f}" if size >= 100 or size == int(size) else f"{size:.3g}"
    return f"{digits}{_BINARY[power]}"


def percent(part: int, whole: int) -> int:
    """Rounded down, so that 100 means all of it; at least 1 if there is anything."""
    if whole <= 0:
        return 100 if part > 0 else 0
    return max(part * 100 // whole, 1) if part > 0 else 0


def clock_time(wall_ns: int) -> str:
    """Time of day in UTC."""
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).strftime("%H:%M:%S")


def date_time(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def moment(wall_ns: int, now_wall_ns: int) -> str:
    """Time of day in UTC, with the date if it is another one than now."""
    is_today = date_time(wall_ns)[:10] == date_time(now_wall_ns)[:10]
    return clock_time(wall_ns) if is_today else date_time(wall_ns)
