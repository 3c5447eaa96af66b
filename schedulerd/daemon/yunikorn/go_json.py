"""JSON as Go's encoder writes it, in pieces.

Zero values are left out (`omitempty`), amounts are sorted by name, `<`, `>` and `&` are escaped. A list that may be
long is a `Listed`: its items are made and written one after the other, so that other work can run in between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schedulerd.core.language.resources import within_int64

PAUSE: Any = object()
"""In place of an item of a `Listed`: nothing to write, but a good moment for other work."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})

_SPECIAL = re.compile("[<>&\u2028\u2029]")
"""What has to be escaped, which is rare; a search is fifty times as fast as `str.translate`."""

Fields = dict[str, Any]


class Listed:
    """A list of which each item is made when it is written."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items


def encode(value: object) -> str:
    """The text of a small value, in one call."""
    text = _encode(value)
    return text if _SPECIAL.search(text) is None else text.translate(_ESCAPES)


def pieces(value: object) -> Iterator[str]:
    """The text of a value that may contain `Listed` values; '' where other work can run although nothing is written."""
    return _pieces(value, "")


def _pieces(value: object, before: str) -> Iterator[str]:
    """`before` is text in front of the first piece."""
    if isinstance(value, Listed):
        separator = before + "["
        for item in value.items:
            if item is PAUSE:
                yield ""
                continue
            yield from _pieces(item, separator)
            separator = ","
        yield "]" if separator == "," else separator + "]"
    elif isinstance(value, dict) and any(map(_is_long, value.values())):
        separator = before + "{"
        for name, part in value.items():
            yield from _pieces(part, f"{separator}{encode(name)}:")
            separator = ","
        yield "}"
    else:
        yield before + encode(value)


def _is_long(value: object) -> bool:
    """Whether there is a `Listed` in it. Lists that are not `Listed` are short, and contain none."""
    return isinstance(value, Listed) or (isinstance(value, dict) and any(map(_is_long, value.values())))


def go_object(fields: Fields, always: frozenset[str] = frozenset()) -> Fields:
    """The fields without those that have the zero value, unless they are always there."""
    return {name: value for name, value in fields.items() if value or name in always}


def amounts(resources: Mapping[str, int]) -> dict[str, int]:
    """Amounts without zeros, sorted by name."""
    return {name: within_int64(amount) for name, amount in sorted(resources.items()) if amount}


def quota(limits: Mapping[str, int] | None) -> dict[str, int]:
    """Amounts of a quota, sorted by name. A zero stays, because it means none at all."""
    return {name: within_int64(amount) for name, amount in sorted(limits.items())} if limits else {}


def percentages(used: Mapping[str, int], capacity: Mapping[str, int]) -> dict[str, int]:
    """Use in whole percent, cut off, of the resources that both name; 100 where there is use but no capacity."""
    return {name: percentage(used[name], capacity[name]) for name in sorted(used) if name in capacity}


def percentage(used: int, capacity: int) -> int:
    """Use in whole percent, cut off."""
    if used <= 0:
        return 0
    return min(used * 100 // capacity, 2**31 - 1) if capacity > 0 else 100


def duration(nanoseconds: int) -> str:
    """A duration as Go writes it: `30s`, `1m30s`, `1.5s`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if left < size * 1_000:
            return f"{sign}{_decimal(left, size)}{unit}"
    minutes, rest = divmod(left, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    return f"{whole}.{str(rest + unit)[1:].rstrip('0')}" if rest else str(whole)
