"""Amounts of resources: what is used or offered (`Resources`), and what may be used (`Limits`).

Two types, because a resource that is not named means opposite things: in a usage or a capacity it is 0, in a quota it
is unlimited (SEMANTICS D). Both map resource names to int64 in the units of the wire: `vcore` in thousandths of a core,
`memory` in bytes or whatever unit the resource manager uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from schedulerd.core.language.reading import INT64_MAX, INT64_MIN

Items: TypeAlias = tuple[tuple[str, int], ...]


def within_int64(number: int) -> int:
    """A number as it is shown outside: the nearest int64.

    Every amount that comes in is an int64, but sums inside are exact and may be larger. Neither the interface nor
    readers of our JSON allow larger numbers, so all messages, events and dumps show amounts through this function.
    """
    return max(INT64_MIN, min(number, INT64_MAX))


class Resources(dict[str, int]):
    """Amounts by resource name; a missing name is 0. Equality ignores zeros, so `{"gpu": 0}` equals `{}`."""

    __slots__ = ()

    def __missing__(self, name: str) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        if dict.__eq__(self, other) is True:
            return True
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.canonical() == Resources.canonical(other)

    def __ne__(self, other: object) -> bool:
        if dict.__eq__(self, other) is True:
            return False
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None  # a ledger changes; use `canonical()` as a key

    def canonical(self: Mapping[str, int]) -> Items:
        """The non-zero amounts sorted by name. Equal resources have equal items, so they can be a dictionary key."""
        return tuple(sorted(self.items() if all(self.values()) else [item for item in self.items() if item[1]]))

    def nonzero(self) -> dict[str, int]:
        """A plain dictionary of the amounts that are not 0, sorted by name."""
        return dict(self.canonical()) if self else {}

    def is_zero(self) -> bool:
        return not any(self.values())

    def add(self, items: Iterable[tuple[str, int]], times: int = 1) -> None:
        """Adds `times` the amounts in place. For ledgers only, never for a value that is shared.

        A name that becomes 0 is removed, so a ledger does not remember every resource that it ever had.
        """
        for name, amount in items:
            total = self[name] + amount * times
            if total:
                self[name] = total
            else:
                self.pop(name, None)

    def subtract(self, items: Iterable[tuple[str, int]], times: int = 1) -> None:
        """Subtracts `times` the amounts in place. May go below zero: over-commit is legal (SEMANTICS D)."""
        for name, amount in items:
            left = self[name] - amount * times
            if left:
                self[name] = left
            else:
                self.pop(name, None)

    def times(self, count: int) -> Resources:
        return Resources({name: amount * count for name, amount in self.items()})

    def plus(self, other: Mapping[str, int]) -> Resources:
        total = Resources(self)
        total.add(other.items())
        return total

    def minus(self, other: Mapping[str, int]) -> Resources:
        rest = Resources(self)
        rest.subtract(other.items())
        return rest

    def lacks(self, items: Iterable[tuple[str, int]]) -> str | None:
        """The first resource of `items` of which there is not enough here; None if all fit."""
        get = self.get
        for name, amount in items:
            if amount > get(name, 0):
                return name
        return None


class Limits(dict[str, int]):
    """Upper limits by resource name; a missing name is unlimited, 0 allows nothing."""

    __slots__ = ()

    def exceeded_by(self, used: Mapping[str, int], items: Iterable[tuple[str, int]]) -> str | None:
        """The first resource of which `used` plus `items` would be above the limit; None if all stay within.

        Only resources that `items` asks for are compared: usage already above a limit does not block other resources.
        """
        get = self.get
        for name, amount in items:
            limit = get(name)
            if limit is not None and amount and used.get(name, 0) + amount > limit:
                return name
        return None

    def tightest(self, other: Mapping[str, int]) -> Limits:
        """Both limits together: the smaller one where both name a resource."""
        both = Limits(self)
        for name, limit in other.items():
            both[name] = min(both.get(name, limit), limit)
        return both

    def left(self, used: Mapping[str, int]) -> Limits:
        """What may still be used, for limited resources only; negative where usage is above the limit."""
        return Limits({name: limit - used.get(name, 0) for name, limit in self.items()})
