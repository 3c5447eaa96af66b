"""Limit subjects: the user and the one group that count for an application, and the limits for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from schedulerd.core.language.specs import LimitSpec

EVERYBODY_ELSE = "*"

Limits: TypeAlias = tuple[LimitSpec, ...]
"""The limits of one queue, in the order of the file."""


@dataclass(frozen=True, slots=True)
class LimitSubject:
    """The account of an application: its user, and the one group that counts ('' for none). Applications with equal
    subjects are interchangeable for limits."""

    user: str
    group: str

    def limits_among(self, limits: Limits) -> Iterator[tuple[LimitSpec, str, bool]]:
        """The limits of one queue that apply: (limit, name under which usage counts, whether that is a group).

        `*` among the users stands for each user that the limits of this queue do not name; `*` among the groups applies
        only if the group is `*`.
        """
        is_named = any(self.user in limit.users for limit in limits)
        for limit in limits:
            if self.user in limit.users or (not is_named and EVERYBODY_ELSE in limit.users):
                yield limit, self.user, False
            if self.group and self.group in limit.groups:
                yield limit, self.group, True


def group_of(limits: Sequence[Limits], groups: tuple[str, ...]) -> str:
    """The one group of the user that counts for an application; determined once, at submission.

    `limits` has the limits of the leaf first and those of the root last.

    Queues are searched from the leaf up, the limits of a queue in the order of its list, and the groups of a limit in
    their order: the first group that the user is in counts, whatever the order of the user's groups (SEMANTICS I21).
    `*` if there is none and a limit is for `*`; '' otherwise.
    """
    of_user = frozenset(groups)
    for of_queue in limits:
        for limit in of_queue:
            for group in limit.groups:
                if group in of_user and group != EVERYBODY_ELSE:
                    return group
    if any(EVERYBODY_ELSE in limit.groups for of_queue in limits for limit in of_queue):
        return EVERYBODY_ELSE
    return ""


def limit_subject_of(limits: Sequence[Limits], user: str, group: str) -> LimitSubject | None:
    """The limit subject of an application, for the limits from its leaf to the root; None if no limit applies to it."""
    limit_subject = LimitSubject(user, group)
    return limit_subject if any(True for of_queue in limits for _ in limit_subject.limits_among(of_queue)) else None
