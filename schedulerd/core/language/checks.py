"""Checks that are common to all items from resource managers: ids, names, resources, counts.

A check returns None or a `Mistake`: a code for counting, and a sentence that names the field, the value and what would
be right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from schedulerd.core.language.facts.fact import RejectCode

ID_LENGTH_MAX = 1024
TAGS_LENGTH_MAX = 65_536
TAGS_MAX = 10_000
GROUPS_MAX = 1_000
MESSAGE_LENGTH_MAX = 1_000
"""Longest message of a resource manager with a release. A longer one is cut, not rejected: it is sent back with each
allocation that the release concerns."""
RESOURCE_NAMES_MAX = 64
RESOURCE_NAME_LENGTH_MAX = 256
_SHOWN_MAX = 80
LISTED_MAX = 10
"""Most names or reasons listed in one sentence, because the sentence is sent back with every item that it is about."""


class Mistake(NamedTuple):
    code: RejectCode
    reason: str


def shown(value: str) -> str:
    """A value as it is shown in a sentence: quoted, and cut if it is long."""
    return repr(value) if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]!r}... ({len(value)} characters)"


def identifier(field: str, value: str) -> Mistake | None:
    """An id must not be empty, and must have at most `ID_LENGTH_MAX` characters."""
    if 0 < len(value) <= ID_LENGTH_MAX:
        return None  # the short way, because every ask has two ids
    return text(field, value) if value else Mistake(RejectCode.EMPTY_ID, f"{field} is empty; it must be set")


def text(field: str, value: str) -> Mistake | None:
    """A text that may be empty; it must have at most `ID_LENGTH_MAX` characters."""
    if len(value) > ID_LENGTH_MAX:
        return Mistake(
            RejectCode.INVALID_FIELD, f"{field} is {shown(value)}; at most {ID_LENGTH_MAX} characters are allowed"
        )
    return None


def not_negative(field: str, resources: Mapping[str, int]) -> Mistake | None:
    """Resource names must be valid (`names`), and no amount may be below 0."""
    mistake = names(field, resources)
    if mistake is not None:
        return mistake
    for name in sorted(resources):
        if resources[name] < 0:
            return Mistake(
                RejectCode.INVALID_RESOURCES, f"{field}[{shown(name)}] is {resources[name]}; it must be 0 or more"
            )
    return None


def names(field: str, resources: Mapping[str, int]) -> Mistake | None:
    """Resource names must not be empty, too long or too many."""
    if len(resources) > RESOURCE_NAMES_MAX:
        return Mistake(
            RejectCode.INVALID_RESOURCES,
            f"{field} has more than {RESOURCE_NAMES_MAX} resources; at most {RESOURCE_NAMES_MAX} are allowed",
        )
    for name in resources:
        if not 0 < len(name) <= RESOURCE_NAME_LENGTH_MAX:
            return Mistake(
                RejectCode.INVALID_RESOURCES,
                f"{field} names the resource {shown(name)}; a name has 1 to {RESOURCE_NAME_LENGTH_MAX} characters",
            )
    return None


def tags(field: str, values: Mapping[str, str]) -> Mistake | None:
    """Tags must have at most `TAGS_MAX` entries and `TAGS_LENGTH_MAX` characters in all, because every allocation of an
    ask repeats them."""
    if len(values) > TAGS_MAX:
        return Mistake(
            RejectCode.INVALID_FIELD, f"{field} have more than {TAGS_MAX} entries; at most {TAGS_MAX} are allowed"
        )
    length = 0
    for name, value in values.items():
        length += len(name) + len(value)
    if length <= TAGS_LENGTH_MAX:
        return None
    return Mistake(
        RejectCode.INVALID_FIELD, f"{field} have {length} characters in all; at most {TAGS_LENGTH_MAX} are allowed"
    )


def user(name: str, groups: Sequence[str]) -> Mistake | None:
    """The user of an application and the user's groups: names must not be too long, and groups not too many."""
    if len(groups) > GROUPS_MAX:
        return Mistake(
            RejectCode.INVALID_FIELD, f"ugi.groups has {len(groups)} names; at most {GROUPS_MAX} are allowed"
        )
    named = (text(f"ugi.groups[{at}]", group) for at, group in enumerate(groups))
    return text("ugi.user", name) or next((mistake for mistake in named if mistake is not None), None)


def message(said: str, length_max: int = MESSAGE_LENGTH_MAX) -> str:
    """A text for people, cut to `length_max` characters."""
    return said if len(said) <= length_max else f"{said[:length_max]}... ({len(said)} characters)"


def request(field: str, resources: Mapping[str, int]) -> Mistake | None:
    """Resources that are asked for or allocated: valid names, no amount below 0, and at least one above 0."""
    mistake = not_negative(field, resources)
    if mistake is not None or any(resources.values()):
        return mistake
    amounts = f"is {dict(resources)}" if resources else "is empty"
    return Mistake(RejectCode.INVALID_RESOURCES, f"{field} {amounts}; at least one resource must be above 0")


def some(values: Collection[str], separator: str = ", ", show: Callable[[str], str] = str) -> str:
    """The first `LISTED_MAX` values for a sentence, and how many more there are."""
    more = f" and {len(values) - LISTED_MAX} more" if len(values) > LISTED_MAX else ""
    return separator.join(map(show, itertools.islice(values, LISTED_MAX))) + more


def unknown_partition(name: str, known: Collection[str]) -> Mistake:
    return Mistake(
        RejectCode.UNKNOWN_PARTITION,
        f"partitionName {shown(name)} is not a partition of this resource manager; known: {some(known)}",
    )
