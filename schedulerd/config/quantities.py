"""Amounts and durations as they are written in a queue file: `4`, `500m`, `64Gi`, `30s`.

Amounts are whole: an int64 in the units of the wire, which is thousandths of a core for `vcore` and the plain number
for all others (SEMANTICS D). A value that cannot be exact is refused rather than rounded.
"""

from __future__ import annotations

import re
from fractions import Fraction

INT64_MAX = 2**63 - 1
VCORE = "vcore"
MILLI_PER_CORE = 1000

_DIGITS_MAX = len(str(INT64_MAX))

_SUFFIXES = {
    "": 1,
    **{suffix: 1000**power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_AMOUNT = re.compile(r"([0-9]+)\s*([A-Za-z]*)")
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION_CHARACTERS_MAX = 64
_DURATION_UNITS_NS = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 1_000),
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


def parse_amount(text: str) -> int:
    """An amount of any resource but vcore, like `500`, `10M` or `64 Gi`.

    Raises ValueError with what would be right.
    """
    return _parse(text, _SUFFIXES, "a whole number with an optional suffix k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei")


def parse_vcore(text: str) -> int:
    """An amount of vcore in thousandths of a core: `4` is 4000, `500m` is 500.

    Raises ValueError with what would be right.
    """
    scaled = {suffix: factor * MILLI_PER_CORE for suffix, factor in _SUFFIXES.items()} | {"m": 1}
    return _parse(text, scaled, "whole cores like 4, or thousandths of a core like 500m")


def _parse(text: str, factors: dict[str, int], right: str) -> int:
    match = _AMOUNT.fullmatch(text)
    if match is None or not match[0].isascii() or match[2] not in factors:
        raise ValueError(f"not a quantity; write {right}, without sign or decimals")
    digits = match[1].lstrip("0")
    amount = int(digits or "0") * factors[match[2]] if len(digits) <= _DIGITS_MAX else INT64_MAX + 1
    if amount > INT64_MAX:
        raise ValueError(f"too large: the most is {INT64_MAX}{' thousandths of a core' if 'm' in factors else ''}")
    return amount


def parse_duration_ns(text: str) -> int:
    """A duration like `30s`, `1h30m` or `300ms`, in nanoseconds; `0` needs no unit.

    Raises ValueError with what would be right.
    """
    sign = -1 if text.startswith("-") else 1
    digits = text.removeprefix("-" if sign < 0 else "+")
    if digits == "0":
        return 0
    parts = _DURATION_PART.findall(digits)
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        raise ValueError("not a duration; write a number with a unit ns, us, ms, s, m or h, like 30s or 1h30m")
    if len(digits) > _DURATION_CHARACTERS_MAX:
        raise ValueError(f"too long to read: write at most {_DURATION_CHARACTERS_MAX} characters")
    duration_ns = sign * int(sum(Fraction(number) * _DURATION_UNITS_NS[unit] for number, unit in parts))
    if abs(duration_ns) > INT64_MAX:
        raise ValueError("too long: the most is about 292 years")
    return duration_ns
