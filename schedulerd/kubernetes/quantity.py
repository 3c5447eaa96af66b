"""Kubernetes quantities (`500m`, `1.5Gi`, `2e3`) as exact integers; no float is involved.

The unit is the nano (1e-9), the smallest that Kubernetes keeps. Source: Kubernetes' documentation "Quantity".
"""

from __future__ import annotations

import re
from functools import lru_cache

_TEXT_LENGTH_MAX = 64
"""Characters of a quantity; the API server writes fewer than 30."""

_INT64_MAX = 2**63 - 1

NANOS = 10**9
"""Nanos in a unit."""

_NANOS_OF_MILLI = 10**6

_TEXTS_MAX = 16_384
"""How many texts are remembered with what they say: those of one workload are alike."""

_SUFFIXES = {
    "n": (10, -9), "u": (10, -6), "m": (10, -3), "": (10, 0),
    "k": (10, 3), "M": (10, 6), "G": (10, 9), "T": (10, 12), "P": (10, 15), "E": (10, 18),
    "Ki": (2, 10), "Mi": (2, 20), "Gi": (2, 30), "Ti": (2, 40), "Pi": (2, 50), "Ei": (2, 60),
}  # fmt: skip
"""Base and exponent by suffix."""

_QUANTITY = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?(?:[eE]([+-]?[0-9]++)|([numkMGTPE]|[KMGTPE]i|))")

_EXPONENT_MAX = 100
"""Decimal exponents beyond this are decided by their sign, without computing the power."""


class MalformedQuantity(ValueError):
    """The text is no quantity."""


@lru_cache(_TEXTS_MAX)
def nanos(quantity: str | int) -> int:
    """The quantity in nanos, what is finer rounded away from zero; at most 2^63-1 units in magnitude.

    Raises MalformedQuantity.
    """
    if isinstance(quantity, int):
        return _bounded(quantity * NANOS)
    match = _QUANTITY.fullmatch(quantity) if len(quantity) <= _TEXT_LENGTH_MAX else None
    if match is None or not (match[2] or match[3]):
        raise MalformedQuantity(f"{quantity[:_TEXT_LENGTH_MAX]!r} is no quantity, like 500m, 2 or 1.5Gi")
    sign, fraction = -1 if match[1] == "-" else 1, match[3] or ""
    digits = int((match[2] or "") + fraction)
    base, exponent = _SUFFIXES[match[5]] if match[4] is None else (10, int(match[4]))
    if base == 2:
        return _bounded(sign * _quotient(digits * 2**exponent * NANOS, 10 ** len(fraction)))
    power = exponent + 9 - len(fraction)
    if power >= 0:
        return _bounded(sign * digits * 10 ** min(power, _EXPONENT_MAX))
    return _bounded(sign * _quotient(digits, 10 ** min(-power, _EXPONENT_MAX)))


def units(quantity: str | int) -> int:
    """In whole units (bytes, devices), rounded away from zero. Raises MalformedQuantity."""
    return to_units(nanos(quantity))


def millis(quantity: str | int) -> int:
    """In thousandths (of a processor), rounded away from zero, at most an int64. Raises MalformedQuantity."""
    return to_millis(nanos(quantity))


def to_units(amount: int) -> int:
    """Nanos in whole units, rounded away from zero; at most 2^63-1 in magnitude."""
    return _saturated(_rounded(amount, NANOS))


def to_millis(amount: int) -> int:
    """Nanos in thousandths, rounded away from zero; at most 2^63-1 in magnitude."""
    return _saturated(_rounded(amount, _NANOS_OF_MILLI))


def _quotient(amount: int, divisor: int) -> int:
    """Rounded up; the amount is not negative."""
    return -(-amount // divisor)


def _rounded(amount: int, divisor: int) -> int:
    return _quotient(amount, divisor) if amount >= 0 else -_quotient(-amount, divisor)


def _bounded(amount: int) -> int:
    return max(-_INT64_MAX * NANOS, min(_INT64_MAX * NANOS, amount))


def _saturated(amount: int) -> int:
    return max(-_INT64_MAX, min(_INT64_MAX, amount))
