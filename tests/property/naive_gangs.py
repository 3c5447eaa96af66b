"""Whether a gang has room, and in how few domains, worked out the slow way: all ways are tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product


@dataclass(frozen=True)
class Place:
    """A node: what is free there, and its domains."""

    free: int
    block: str
    rack: str


@dataclass(frozen=True)
class Group:
    """A task group by the sizes of its members."""

    sizes: tuple[int, ...]
    required: str = ""
    """'' or the name of a field of Place."""
    preferred: str = ""


def packs(wanted: Sequence[tuple[int, frozenset[int]]], free: Sequence[int]) -> bool:
    """Whether there is a node for each size, among those that are allowed to it."""
    if not wanted:
        return True
    (size, allowed), *rest = wanted
    return any(
        free[at] >= size and packs(rest, [*free[:at], free[at] - size, *free[at + 1 :]]) for at in sorted(allowed)
    )


def values(places: Iterable[Place], level: str) -> list[str]:
    return sorted({str(getattr(one, level)) for one in places})


def among(places: Sequence[Place], level: str, allowed: Iterable[str]) -> frozenset[int]:
    wanted = set(allowed)
    return frozenset(at for at, one in enumerate(places) if not level or getattr(one, level) in wanted)


def has_room(groups: Sequence[Group], places: Sequence[Place], whole: str = "") -> bool:
    """Whether all members have room, with each group in one domain of the level that it requires, and all of them in
    one of the level `whole`."""
    free = [one.free for one in places]
    for common in values(places, whole) if whole else [""]:
        inside = among(places, whole, [common])
        choices = [values(places, one.required) if one.required else [""] for one in groups]
        for chosen in product(*choices):
            wanted = [
                (size, inside & among(places, group.required, [value]))
                for group, value in zip(groups, chosen, strict=True)
                for size in group.sizes
            ]
            if packs(sorted(wanted, key=lambda one: -one[0]), free):
                return True
    return False


def fewest(group: Group, places: Sequence[Place]) -> int | None:
    """In how few domains of the level that it prefers the group has room; None if it has none."""
    free, sizes = [one.free for one in places], sorted(group.sizes, reverse=True)
    domains = values(places, group.preferred)
    for count in range(1, len(domains) + 1):
        for chosen in combinations(domains, count):
            allowed = among(places, group.preferred, chosen)
            if packs([(size, allowed) for size in sizes], free):
                return count
    return None
