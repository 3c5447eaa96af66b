"""On whose account an application runs: its user and the one group that counts, and what limits they have where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedulerd.core.specs import LimitSpec, QueueSpec

if TYPE_CHECKING:
    from schedulerd.core.model.queue import Queue

EVERYBODY_ELSE = "*"


@dataclass(frozen=True, slots=True)
class LimitSubject:
    """A user with the group that was found for the application, '' for none. Equal parties are interchangeable."""

    user: str
    group: str

    def limits_at(self, queue: Queue | QueueSpec) -> Iterator[tuple[LimitSpec, str, bool]]:
        """The limits of this queue that hold for it: (limit, name under which usage counts, whether that is a group).

        `*` among the users stands for every user the queue's limits do not name, each on its own; `*` among the groups
        only for the limit subject whose group is `*`.
        """
        is_named = any(self.user in limit.users for limit in queue.limits)
        for limit in queue.limits:
            if self.user in limit.users or (not is_named and EVERYBODY_ELSE in limit.users):
                yield limit, self.user, False
            if self.group and self.group in limit.groups:
                yield limit, self.group, True


def group_of(queue: Queue, groups: tuple[str, ...]) -> str:
    """The one group of the user that counts for an application in this leaf, resolved once, when it is submitted.

    The limits of the queues are looked at from the leaf up, those of one queue in the order of its list, and the groups
    of one limit in theirs: the first that the user is in counts, whatever the order of the user's groups (SEMANTICS
    I21). `*` if there is none and a limit is for all other groups; '' if no limit is for groups at all.
    """
    of_user = frozenset(groups)
    for one in queue.path_to_root:
        for limit in one.limits:
            for group in limit.groups:
                if group in of_user and group != EVERYBODY_ELSE:
                    return group
    for one in queue.path_to_root:
        if any(EVERYBODY_ELSE in limit.groups for limit in one.limits):
            return EVERYBODY_ELSE
    return ""


def limit_subject_of(queue: Queue, user: str, group: str) -> LimitSubject | None:
    """The limit subject of an application in this leaf; None if no limit on the way to the root is for it."""
    limit_subject = LimitSubject(user, group)
    return limit_subject if any(True for one in queue.path_to_root for _ in limit_subject.limits_at(one)) else None
