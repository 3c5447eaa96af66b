"""What an item from a resource manager must satisfy whatever it is for: ids, resources, counts.

A check returns None or a `Mistake`: the kind for counting, and a sentence that names the field, the value and what
would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from schedulerd.core.facts import RejectCode

ID_LENGTH_MAX = 1024
_SHOWN_MAX = 80


class Mistake(NamedTuple):
    code: RejectCode
    reason: str


def shown(value: str) -> str:
    """A value as it may stand in a sentence: quoted, and cut if it is long."""
    return repr(value) if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]!r}... ({len(value)} characters)"


def identifier(field: str, value: str) -> Mistake | None:
    """Ids must be there and of sane length."""
    if not value:
        return Mistake(RejectCode.EMPTY_ID, f"{field} is empty; it must be set")
    if len(value) > ID_LENGTH_MAX:
        return Mistake(
            RejectCode.INVALID_FIELD, f"{field} is {shown(value)}; at most {ID_LENGTH_MAX} characters are allowed"
        )
    return None


def not_negative(field: str, resources: Mapping[str, int]) -> Mistake | None:
    """No amount may be below zero."""
    for name in sorted(resources):
        if resources[name] < 0:
            return Mistake(
                RejectCode.INVALID_RESOURCES, f"{field}[{shown(name)}] is {resources[name]}; it must be 0 or more"
            )
    return None


def request(field: str, resources: Mapping[str, int]) -> Mistake | None:
    """What is asked for or allocated: nothing negative, and something above zero."""
    if any(resources.values()):
        return not_negative(field, resources)
    amounts = f"is {dict(resources)}" if resources else "is empty"
    return Mistake(RejectCode.INVALID_RESOURCES, f"{field} {amounts}; at least one resource must be above 0")


def unknown_partition(name: str, known: Mapping[str, object]) -> Mistake:
    return Mistake(
        RejectCode.UNKNOWN_PARTITION,
        f"partitionName {shown(name)} is not a partition of this resource manager; known: {', '.join(known)}",
    )
