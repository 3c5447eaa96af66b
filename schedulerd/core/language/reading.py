"""Reads numbers, durations and JSON in texts from outside: tags, the queue file, headers. No other module does.

Each reader bounds the length of its text first; docs/security.md has the time that each takes. Unless a reader says
otherwise, the values that it returns are exact and within int64, so they can be encoded wherever they go. What cannot
be read exactly is refused and never rounded (SEMANTICS D and I5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NoReturn

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT64_MAX = 2**64 - 1
VCORE = "vcore"
MILLI_PER_CORE = 1000

CHARACTERS_MAX = 64
"""Longest number, quantity or duration; the longest plausible one has about 30 characters."""
JSON_CHARACTERS_MAX = 32_768
JSON_BRACKETS_MAX = 200
"""Most opening brackets in a JSON text; this bounds its depth, and its number of lists and objects."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_DECIMAL_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SUFFIXES = {
    "": 1,
    **{suffix: 1000**power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_VCORE_SUFFIXES = {suffix: factor * MILLI_PER_CORE for suffix, factor in _SUFFIXES.items()} | {"m": 1}
_QUANTITY = re.compile(r"([0-9]+)\s*([A-Za-z]*)")
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION_UNITS_NS = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 1_000),
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


class Unreadable(ValueError):
    """A text that a reader refuses. The message says what would be right, and does not repeat the text."""


def whole_number(text: str, least: int = INT64_MIN, most: int = INT64_MAX, *, signed: bool = True) -> int:
    """A decimal whole number within the bounds, in ASCII digits; a sign is allowed if `signed`. Raises Unreadable."""
    is_number = len(text) <= CHARACTERS_MAX and _WHOLE_NUMBER.fullmatch(text) is not None
    if not is_number or not (signed or text[0].isdigit()) or not least <= int(text) <= most:
        raise Unreadable(f"must be a whole number from {least} to {most}")
    return int(text)


def count(text: str) -> int:
    """A limit on a number of things, without sign; 0 is no limit. Up to uint64, as in the queue file. Raises
    Unreadable."""
    try:
        return whole_number(text, 0, UINT64_MAX, signed=False)
    except Unreadable:
        raise Unreadable(f"must be a whole number from 0 (no limit) to {UINT64_MAX}") from None


def weight(text: str) -> float:
    """A decimal number from 0 to the largest int64, so that sums of weights stay finite. Raises Unreadable."""
    if len(text) <= CHARACTERS_MAX and _DECIMAL_NUMBER.fullmatch(text):
        number = float(text)
        if number > INT64_MAX:
            raise Unreadable(f"a weight is at most {INT64_MAX}")
        if number >= 0:
            return number
    raise Unreadable("a weight is a number, 0 or more")


def amount(text: str) -> int:
    """An amount of any resource but vcore, like `500`, `10M` or `64 Gi`. Raises Unreadable."""
    right = "a whole number with an optional suffix k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei"
    return _quantity(text, _SUFFIXES, right, "")


def vcore(text: str) -> int:
    """An amount of vcore in thousandths of a core: `4` is 4000, `500m` is 500. Raises Unreadable."""
    right = "whole cores like 4, or thousandths of a core like 500m"
    return _quantity(text, _VCORE_SUFFIXES, right, " thousandths of a core")


def _quantity(text: str, factors: Mapping[str, int], right: str, unit: str) -> int:
    _check_length(text)
    match = _QUANTITY.fullmatch(text)
    if match is None or not text.isascii() or match[2] not in factors:
        raise Unreadable(f"not a quantity; write {right}, without sign or decimals")
    found = int(match[1]) * factors[match[2]]
    if found > INT64_MAX:
        raise Unreadable(f"too large: the most is {INT64_MAX}{unit}")
    return found


def duration_ns(text: str) -> int:
    """A duration like `30s`, `1h30m` or `300ms`, in nanoseconds; `0` needs no unit. Raises Unreadable."""
    _check_length(text)
    sign = -1 if text.startswith("-") else 1
    digits = text.removeprefix("-" if sign < 0 else "+")
    if digits == "0":
        return 0
    total, at = Fraction(0), 0
    while match := _DURATION_PART.match(digits, at):
        total += Fraction(match[1]) * _DURATION_UNITS_NS[match[2]]
        at = match.end()
    if not at or at < len(digits):
        raise Unreadable("not a duration; write a number with a unit ns, us, ms, s, m or h, like 30s or 1h30m")
    if int(total) > INT64_MAX:
        raise Unreadable("too long: the most is about 292 years")
    return sign * int(total)


def _check_length(text: str) -> None:
    if len(text) > CHARACTERS_MAX:
        raise Unreadable(f"too long to read: write at most {CHARACTERS_MAX} characters")


def amounts(text: str) -> dict[str, int]:
    """The amounts of an SI `Resource` in JSON, in the units of the wire: `{"resources": {"memory": {"value": 30}}}`.

    As in the JSON form of protobuf messages, an amount may be a string of digits, and a missing value is 0. The result
    is empty if the text names no resource. Raises Unreadable.
    """
    message = fields(json_value(text), {"resources"}, "the whole text")
    quantities = json_object(message.get("resources", {}), '"resources"')
    return {name: _value(name, quantity) for name, quantity in quantities.items()}


def _value(name: str, quantity: object) -> int:
    where = f"the amount of {name[:CHARACTERS_MAX]!r}"
    value = fields(quantity, {"value"}, where).get("value", 0)
    if isinstance(value, str):
        try:
            value = whole_number(value, 0)
        except Unreadable as error:
            raise Unreadable(f"{where} {error}") from None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INT64_MAX:
        raise Unreadable(f"{where} must be a whole number from 0 to {INT64_MAX}")
    return value


def fields(value: object, known: set[str], where: str) -> dict[str, object]:
    """The value as a JSON object with no other keys than these. Raises Unreadable; `where` is what it calls the
    object."""
    found = json_object(value, where)
    unknown = [name for name in found if name not in known]
    if unknown:
        raise Unreadable(f"{where} must have no other key than {', '.join(map(repr, sorted(known)))}")
    return found


def json_object(value: object, where: str) -> dict[str, object]:
    """The value as a JSON object. Raises Unreadable; `where` is what it calls the object."""
    if not isinstance(value, dict):
        raise Unreadable(f"{where} must be a JSON object")
    return value


def json_value(text: str, brackets_max: int = JSON_BRACKETS_MAX) -> object:
    """The value of a JSON text in which no object repeats a key, and every number is a whole int64. Raises
    Unreadable."""
    if len(text) > JSON_CHARACTERS_MAX:
        raise Unreadable(f"the text must have at most {JSON_CHARACTERS_MAX} characters")
    if text.count("[") + text.count("{") > brackets_max:
        raise Unreadable(f"the text must have at most {brackets_max} opening brackets")
    try:
        return json.loads(
            text,
            object_pairs_hook=_once,
            parse_int=whole_number,
            parse_float=_no_fraction,
            parse_constant=_no_fraction,
        )
    except json.JSONDecodeError as error:
        raise Unreadable(f"the text must be JSON; {error.msg} at character {error.pos}") from None


_SURROGATES = range(0xD800, 0xE000)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a key must stand only once in an object")
    for name in found:
        if any(ord(character) in _SURROGATES for character in name):
            raise Unreadable("a key must be Unicode text, without half of a surrogate pair")
    return found


def _no_fraction(_text: str) -> NoReturn:
    raise Unreadable("a number must be whole, without decimals or exponent")
