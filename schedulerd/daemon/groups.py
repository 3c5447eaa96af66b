"""The groups of a user whom the resource manager sent without any, as the operating system knows them.

Used where the queue file says `usergroupresolver: {type: os}`. A look-up may ask a directory over the network and block
for seconds, so it is remembered, and a server makes it outside its event loop.
"""

from __future__ import annotations

import grp
import os
import pwd
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from schedulerd.core.specs import SECOND_NS
from schedulerd.daemon.workers import Busy, TooSlow, Workers

KNOWN_NS = 300 * SECOND_NS
"""How long the groups of a user are remembered."""
UNKNOWN_NS = 30 * SECOND_NS
"""How long it is remembered that a user is not known, or cannot be asked for."""
USERS_MAX = 10_000
"""How many users are remembered: names come over the wire, and there is no end of them."""

LOOK_UP_SECONDS_MAX = 10.0
"""How long an application waits for the groups of its user."""
_THREADS = 4

log = structlog.stdlib.get_logger(__name__)


def operating_system_groups(user: str) -> tuple[str, ...]:
    """The names of the groups of `user`, the primary one first; none if the system does not know the user.

    Raises OSError if the system cannot be asked.
    """
    try:
        gid = pwd.getpwnam(user).pw_gid
    except (KeyError, ValueError):  # ValueError: no name of a user at all, such as one with a null character
        return ()
    return tuple(dict.fromkeys(_names(os.getgrouplist(user, gid))))


def _names(gids: list[int]) -> Iterator[str]:
    for gid in gids:
        try:
            yield grp.getgrgid(gid).gr_name
        except KeyError:  # A group can be a number only; no access list or limit can mean it.
            continue


@dataclass(frozen=True, slots=True)
class _Known:
    groups: tuple[str, ...]
    until_ns: int


class Groups:
    """What the loop asks: users who are remembered at once, others in threads, and no longer than so many seconds."""

    def __init__(self, resolver: GroupResolver, *, waiting_max: int, seconds_max: float = LOOK_UP_SECONDS_MAX) -> None:
        self._resolver = resolver
        self._workers = Workers(
            "look-ups of groups", threads=_THREADS, waiting_max=waiting_max, seconds_max=seconds_max
        )

    async def groups(self, user: str) -> tuple[str, ...]:
        """The groups of `user`; none if the user is not known or nobody can be asked now."""
        known = self._resolver.remembered(user)
        if known is not None:
            return known
        try:
            return await self._workers.run(self._resolver.groups, user)
        except (Busy, TooSlow) as error:
            log.warning("groups of a user cannot be looked up", user=user, error=str(error))
            return ()


class GroupResolver:
    """Remembers what `look_up` says of each user: 300 s for one with groups, 30 s for one without.

    `now_ns` is a monotonic clock. May be used from several threads: at worst two ask for the same user at once.
    """

    def __init__(
        self, now_ns: Callable[[], int], look_up: Callable[[str], tuple[str, ...]] = operating_system_groups
    ) -> None:
        self._now_ns = now_ns
        self._look_up = look_up
        self._known: dict[str, _Known] = {}
        """By user, the one asked for longest ago first."""
        self._lock = threading.Lock()

    def groups(self, user: str) -> tuple[str, ...]:
        """The groups of `user`; none if the user is not known or nobody can be asked now. Blocks while it is asked."""
        known = self.remembered(user)
        return self._ask(user).groups if known is None else known

    def remembered(self, user: str) -> tuple[str, ...] | None:
        """The groups of `user` if nobody has to be asked for them."""
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
