"""Namespace tags that set the quotas of a dynamic queue: read exactly, or not at all (SEMANTICS I5).

The case of tag names is ignored. An empty tag, or a quota without resources, counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from schedulerd.core.language import checks, reading
from schedulerd.core.language.ask_tags import tag
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.facts.fact import RejectCode
from schedulerd.core.language.reading import Unreadable
from schedulerd.core.language.specs import QUEUE_NAME, QUEUE_NAME_FORM

QUOTA_TAG = "namespace.resourcequota"
GUARANTEED_TAG = "namespace.resourceguaranteed"
MAX_APPLICATIONS_TAG = "namespace.resourcemaxapps"
PARENT_QUEUE_TAG = "namespace.parentqueue"

_QUEUE_PATH = re.compile(rf"{QUEUE_NAME.pattern}(?:\.{QUEUE_NAME.pattern})*")


def is_of_namespace(name: str) -> bool:
    """Whether a tag of this name says something of the namespace, and not of the application itself."""
    return name.lower().startswith("namespace.")


class UnreadableTag(NamedTuple):
    """A tag of an application that cannot be read."""

    name: str
    """Name of the tag as written."""
    mistake: Mistake
    """Names the tag, its value, and what would be valid."""


def unreadable(tags: Mapping[str, str]) -> list[UnreadableTag]:
    """The namespace tags that cannot be read, in the order of the tags."""
    found = []
    for name, text in tags.items():
        reader = _READERS.get(name.lower())
        if reader is not None and text:
            try:
                reader(text)
            except Unreadable as error:
                reason = f"tags[{name}] is {shown(text)}: {error}"
                found.append(UnreadableTag(name, Mistake(RejectCode.INVALID_FIELD, reason)))
    return found


def quota(tags: Mapping[str, str]) -> dict[str, int]:
    """The max of the namespace's queue; 0 means nothing of a resource. Raises Unreadable."""
    return _amounts(tag(tags, QUOTA_TAG))


def guaranteed(tags: Mapping[str, str]) -> dict[str, int]:
    """The guarantee of the namespace's queue. Raises Unreadable."""
    return _amounts(tag(tags, GUARANTEED_TAG))


def max_applications(tags: Mapping[str, str]) -> int | None:
    """How many applications of the namespace may run: 0 means no limit, None not set. Raises Unreadable."""
    text = tag(tags, MAX_APPLICATIONS_TAG)
    return reading.count(text) if text else None


def _amounts(text: str) -> dict[str, int]:
    if not text:
        return {}
    amounts = reading.amounts(text)
    mistake = checks.names("resources", amounts)
    if mistake is not None:
        raise Unreadable(mistake.reason)
    return amounts


def _quota(text: str) -> None:
    try:
        _amounts(text)
    except Unreadable as error:
        right = '{"resources": {"memory": {"value": 30}}} with whole amounts in the units of the interface'
        raise Unreadable(f"{error}; write {right}") from None


def _queue_path(text: str) -> None:
    if len(text) > checks.ID_LENGTH_MAX or not _QUEUE_PATH.fullmatch(text):
        raise Unreadable(
            "must be the path of a queue: names with a dot between them, each of "
            f"{QUEUE_NAME_FORM}, and at most {checks.ID_LENGTH_MAX} characters in all"
        )


_READERS: Mapping[str, Callable[[str], object]] = {
    QUOTA_TAG: _quota,
    GUARANTEED_TAG: _quota,
    MAX_APPLICATIONS_TAG: reading.count,
    PARENT_QUEUE_TAG: _queue_path,
}
