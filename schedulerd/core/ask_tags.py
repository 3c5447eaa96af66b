"""Tags of asks that mean something to the scheduler, where the interface has no field: what they may say."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.core.checks import Mistake, shown
from schedulerd.core.facts import RejectCode

PREDICATES_TAG = "schedulerd.io/predicates"
"""Tag of an ask: whether predicate calls are made for it on the callback stream (SEMANTICS I18)."""
NO_PREDICATES = "none"
"""The only value of that tag: the scheduler allocates the ask without asking the resource manager."""


def skips_predicates(tags: Mapping[str, str]) -> bool:
    return tags.get(PREDICATES_TAG) == NO_PREDICATES


def mistake(tags: Mapping[str, str]) -> Mistake | None:
    """The first of these tags that cannot be read."""
    predicates = tags.get(PREDICATES_TAG, NO_PREDICATES)
    if predicates != NO_PREDICATES:
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"tags[{PREDICATES_TAG}] is {shown(predicates)}; it must be {NO_PREDICATES!r}, or not be there",
        )
    return None
