"""Which affinities count an allocation, and which allocations an affinity counts, without going through all of either.

An affinity is found by a tag that every allocation it counts must have: that of an IN expression, or else of an EXIST.
Allocations are remembered by the tags with such keys only, whatever other tags they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from schedulerd.core.commands import Expression, Operator
from schedulerd.core.model.affinity import Affinity
from schedulerd.core.model.apart import emptied

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Allocation


def _anchor(affinity: Affinity) -> Expression | None:
    """The expression that an affinity is found by; None if it demands nothing that must be there."""
    positive = [one for one in affinity.expressions if one.operator in (Operator.IN, Operator.EXIST)]
    return min(positive, key=lambda one: one.operator is Operator.EXIST, default=None)


class _Key:
    """One tag key that affinities are found by."""

    __slots__ = ("allocations", "any_value", "by_value")

    def __init__(self, key: str, allocations: Iterable[Allocation]) -> None:
        self.allocations: dict[str, dict[Allocation, None]] = {}
        """By the value of the tag; no empty ones."""
        self.by_value: dict[str, dict[Affinity, None]] = {}
        """Affinities that want one of some values, under each of them; no empty ones."""
        self.any_value: dict[Affinity, None] = {}
        for allocation in allocations:
            value = allocation.spec.tags.get(key)
            if value is not None:
                self.allocations.setdefault(value, {})[allocation] = None

    def affinities(self, value: str) -> Iterator[Affinity]:
        """Those that may count an allocation with this value."""
        return chain(self.by_value.get(value, ()), self.any_value)


class Tagged:
    __slots__ = ("_everywhere", "_keys")

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}
        self._everywhere: dict[Affinity, None] = {}
        """Affinities that no tag leads to."""

    def watch(self, affinity: Affinity, allocations: Iterable[Allocation]) -> Iterator[Allocation]:
        """The affinity is found from now on. Gives those of the allocations that it counts."""
        anchor = _anchor(affinity)
        if anchor is None:
            self._everywhere[affinity] = None
            return (one for one in allocations if affinity.matches(one.spec.tags))
        key = self._keys.get(anchor.key)
        if key is None:
            key = self._keys[anchor.key] = _Key(anchor.key, allocations)
        values: Iterable[str]
        if anchor.operator is Operator.IN:
            values = anchor.values
            for value in values:
                key.by_value.setdefault(value, {})[affinity] = None
        else:
            values = key.allocations
            key.any_value[affinity] = None
        candidates = chain.from_iterable(key.allocations.get(value, ()) for value in values)
        return (one for one in candidates if affinity.matches(one.spec.tags))

    def forget(self, affinity: Affinity) -> None:
        """The affinity, which was watched, counts nothing any longer."""
        anchor = _anchor(affinity)
        if anchor is None:
            del self._everywhere[affinity]
            return
        key = self._keys[anchor.key]
        if anchor.operator is Operator.IN:
            for value in anchor.values:
                del key.by_value[value][affinity]
                if not key.by_value[value]:
                    del key.by_value[value]
        else:
            del key.any_value[affinity]
        if not key.by_value and not key.any_value:
            del self._keys[anchor.key]

    def add(self, allocation: Allocation) -> None:
        tags = allocation.spec.tags
        for name, key in self._keys.items():
            value = tags.get(name)
            if value is not None:
                key.allocations.setdefault(value, {})[allocation] = None

    def drop(self, allocation: Allocation) -> None:
        tags = allocation.spec.tags
        for name, key in self._keys.items():
            value = tags.get(name)
            if value is not None:
                del key.allocations[value][allocation]
                if not key.allocations[value]:
                    del key.allocations[value]

    def watched_keys(self) -> list[str]:
        """The tag keys that are looked at."""
        return list(self._keys)

    def allocations(self, key: str) -> Mapping[str, Mapping[Allocation, None]]:
        """All that have the tag, by its value."""
        return self._keys[key].allocations

    def take_apart(self) -> Iterator[None]:
        for key in self._keys.values():
            for allocations in key.allocations.values():
                yield from emptied(allocations)
            yield from emptied(key.allocations, key.by_value, key.any_value)
        yield from emptied(self._keys, self._everywhere)

    def counting(self, tags: Mapping[str, str]) -> Iterator[Affinity]:
        """The affinities that count an allocation with these tags, each once."""
        for name, key in self._keys.items():
            value = tags.get(name)
            if value is not None:
                yield from (one for one in key.affinities(value) if one.matches(tags))
        yield from (one for one in self._everywhere if one.matches(tags))
