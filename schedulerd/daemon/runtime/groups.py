"""The groups of a user according to the operating system, for users that the resource manager sent without groups.

Used where the queue file says `usergroupresolver: {type: os}`. A look-up may query a directory over the network and
block for seconds, so results are cached, and the daemon looks up outside its event loop.
"""

from __future__ import annotations

import grp
import os
import pwd
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers

KNOWN_NS = 300 * SECOND_NS
"""How long the groups of a user are cached."""
UNKNOWN_NS = 30 * SECOND_NS
"""How long it is cached that a user is unknown, has no groups or could not be looked up."""
USERS_MAX = 10_000
"""Number of users in the cache. It is bounded because clients send the names."""

LOOK_UP_SECONDS_MAX = 10.0
"""How long an application waits for the groups of its user."""
_THREADS = 4

log = structlog.stdlib.get_logger(__name__)


def operating_system_groups(user: str) -> tuple[str, ...]:
    """The names of the groups of `user`, the primary group first; empty if the system does not know the user.

    Raises OSError if the system cannot be asked.
    """
    try:
        gid = pwd.getpwnam(user).pw_gid
    except (KeyError, ValueError):  # ValueError: no possible user name, such as one with a null character
        return ()
    return tuple(dict.fromkeys(_names(os.getgrouplist(user, gid))))


def _names(gids: list[int]) -> Iterator[str]:
    for gid in gids:
        try:
            yield grp.getgrgid(gid).gr_name
        except KeyError:  # A group may have no name but a number; no access list or limit can name such a group.
            continue


@dataclass(frozen=True, slots=True)
class _Known:
    groups: tuple[str, ...]
    until_ns: int


class Groups:
    """Groups of users for the event loop: cached ones at once, others from a thread within `seconds_max`."""

    def __init__(self, resolver: GroupResolver, *, waiting_max: int, seconds_max: float = LOOK_UP_SECONDS_MAX) -> None:
        self._resolver = resolver
        self._workers = Workers(
            "look-ups of groups", threads=_THREADS, waiting_max=waiting_max, seconds_max=seconds_max
        )

    async def groups(self, user: str) -> tuple[str, ...]:
        """The groups of `user`; empty if the user is unknown, or cannot be looked up now."""
        known = self._resolver.remembered(user)
        if known is not None:
            return known
        try:
            return await self._workers.run(self._resolver.groups, user)
        except (Busy, TooSlow) as error:
            log.warning("groups of a user cannot be looked up", user=user, error=str(error))
            return ()


class GroupResolver:
    """Caches the groups of each user: 300 s for a user with groups, 30 s for one without.

    `now_ns` is a monotonic clock. May be used by several threads; at worst, two look up the same user at once.
    """

    def __init__(
        self, now_ns: Callable[[], int], look_up: Callable[[str], tuple[str, ...]] = operating_system_groups
    ) -> None:
        self._now_ns = now_ns
        self._look_up = look_up
        self._known: dict[str, _Known] = {}
        """By user, the oldest look-up first."""
        self._lock = threading.Lock()

    def groups(self, user: str) -> tuple[str, ...]:
        """The groups of `user`; empty if the user is unknown or cannot be looked up now. Blocks during a look-up."""
        known = self.remembered(user)
        return self._ask(user).groups if known is None else known

    def remembered(self, user: str) -> tuple[str, ...] | None:
        """The cached groups of `user`; None if a look-up is needed."""
        known = self._known.get(user)
        return None if known is None or known.until_ns <= self._now_ns() else known.groups

    def _ask(self, user: str) -> _Known:
        try:
            groups = self._look_up(user)
        except OSError as error:
            log.warning("groups of a user cannot be looked up", user=user, error=str(error))
            groups = ()
        known = _Known(groups, self._now_ns() + (KNOWN_NS if groups else UNKNOWN_NS))
        with self._lock:
            self._known.pop(user, None)
            self._known[user] = known
            if len(self._known) > USERS_MAX:
                del self._known[next(iter(self._known))]
        return known
