"""Checks the `limits` of users and groups: within one list, and between a queue and the queues above it."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import dataclass, field

from schedulerd.amounts import amount_text
from schedulerd.config.acl import GROUP_NAME, NAME_RULE, USER_NAME, WILDCARD
from schedulerd.config.models import Limit, Partition, Queue
from schedulerd.core.language.resources import Limits
from schedulerd.settings.problems import Finding, Path, shorten


@dataclass(frozen=True, slots=True)
class _Bound:
    """The limit of one user or group at one level; 0 applications means no limit."""

    resources: Limits = field(default_factory=Limits)
    applications: int = 0

    def within(self, above: _Bound) -> _Bound:
        applications = min((count for count in (self.applications, above.applications) if count), default=0)
        return _Bound(self.resources.tightest(above.resources), applications)


_Bounds = ChainMap[tuple[str, str], _Bound]
"""By kind (users or groups) and name; a map for each queue on the way, so that none is copied."""


def check_limits(partition: Partition, at: Path, root: Queue, root_at: Path) -> Iterator[Finding]:
    """Checks the limits of all queues. The limits of the partition are those of its root queue."""
    if root.limits and partition.limits and root.limits != partition.limits:
        yield (*at, "limits"), "differ from the limits of the root queue, which mean the same; keep one of the two"
    limits, limits_at = (root.limits, root_at) if root.limits else (partition.limits, at)
    yield from _check_queue(root, root_at, limits, (*limits_at, "limits"), ChainMap())


def _check_queue(
    queue: Queue, at: Path, limits: tuple[Limit, ...], limits_at: Path, above: _Bounds
) -> Iterator[Finding]:
    """Checks one queue; `above` has the limits of each user and group in the queues above."""
    yield from _check_list(limits, limits_at)
    queue_bound = _Bound(Limits(queue.resources.max.items()), queue.maxapplications)
    bounds = above.new_child() if limits else above
    for index, limit in enumerate(limits):
        here = (*limits_at, index)
        own = _Bound(Limits(limit.maxresources.items()), limit.maxapplications)
        yield from _check_within(own, queue_bound, "the queue", here)
        for kind, names in (("users", limit.users), ("groups", limit.groups)):
            for name in names:
                outer = above.get((kind, name)) or above.get((kind, WILDCARD)) or _Bound()
                yield from _check_within(own, outer, f'the limit for "{shorten(name)}" in a queue above', here)
                bounds[kind, name] = own.within(outer)
    for index, child in enumerate(queue.queues):
        child_at = (*at, "queues", index)
        yield from _check_queue(child, child_at, child.limits, (*child_at, "limits"), bounds)


def _check_within(own: _Bound, outer: _Bound, whose: str, at: Path) -> Iterator[Finding]:
    for name, amount in own.resources.items():
        if name in outer.resources and amount > outer.resources[name]:
            most = amount_text(name, outer.resources[name])
            yield (*at, "maxresources", name), f"{amount_text(name, amount)} is more than {whose} allows, {most}"
    if outer.applications and own.applications > outer.applications:
        yield (*at, "maxapplications"), f"more than {whose} allows, {outer.applications}"


def _check_list(limits: tuple[Limit, ...], at: Path) -> Iterator[Finding]:
    """Checks one list of limits: each entry names users or groups and limits something, and wildcards come last."""
    seen: dict[str, set[str]] = {"users": set(), "groups": set()}
    for index, limit in enumerate(limits):
        here = (*at, index)
        if not limit.users and not limit.groups:
            yield here, "names no user and no group; list at least one"
        amounts = limit.maxresources.items()
        if amounts and not any(amounts.values()):
            yield (*here, "maxresources"), "all amounts are 0; give at least one that is more, or leave it out"
        elif not amounts and not limit.maxapplications:
            yield here, "limits nothing; set maxapplications or maxresources"
        yield from _check_names(limit.users, USER_NAME, seen["users"], (*here, "users"))
        yield from _check_names(limit.groups, GROUP_NAME, seen["groups"], (*here, "groups"))
        if WILDCARD in limit.groups and seen["groups"] == {WILDCARD}:
            yield (
                (*here, "groups"),
                "* is for the groups that are not named, but none is named before it; limit the queue itself instead",
            )


def _check_names(names: tuple[str, ...], form: re.Pattern[str], seen: set[str], at: Path) -> Iterator[Finding]:
    for index, name in enumerate(names):
        here = (*at, index)
        if name != WILDCARD and not form.fullmatch(name):
            yield here, f"not a name: {NAME_RULE}"
        elif name in seen:
            yield here, "already named in a limit of this queue; a name may be in one limit only"
        elif WILDCARD in seen:
            yield here, "comes after *, which is for all not named before; move the limit of * to the end"
        seen.add(name)
