"""Index between affinities and the allocations that they count, by tag, so that no search visits all of either.

An affinity is indexed by one tag that every allocation it counts must have: the tag of an IN expression, else of an
EXIST expression. Allocations are indexed only by the tags with such keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.state.constraints.affinity import Affinity
from schedulerd.core.state.model.dismantle import clear_stepwise

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Allocation
    from schedulerd.core.state.model.node import Unclaimed

Counted: TypeAlias = "Allocation | Unclaimed"
"""What has tags and a node."""


def _anchor(affinity: Affinity) -> Expression | None:
    """The expression by which the affinity is indexed; None if it requires no tag."""
    positive = [one for one in affinity.expressions if one.operator in (Operator.IN, Operator.EXIST)]
    return min(positive, key=lambda one: one.operator is Operator.EXIST, default=None)


class _Key:
    """One tag key by which affinities are indexed."""

    __slots__ = ("allocations", "any_value", "by_value")

    def __init__(self, key: str, allocations: Iterable[Counted]) -> None:
        self.allocations: dict[str, dict[Counted, None]] = {}
        """Allocations by the value of the tag; no empty entries."""
        self.by_value: dict[str, dict[Affinity, None]] = {}
        """Affinities with an IN expression, under each of their values; no empty entries."""
        self.any_value: dict[Affinity, None] = {}
        for allocation in allocations:
            value = allocation.spec.tags.get(key)
            if value is not None:
                self.allocations.setdefault(value, {})[allocation] = None

    def affinities(self, value: str) -> Iterator[Affinity]:
        """The affinities that may count an allocation with this value of the tag."""
        return chain(self.by_value.get(value, ()), self.any_value)


class Tagged:
    __slots__ = ("_everywhere", "_keys")

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}
        self._everywhere: dict[Affinity, None] = {}
        """Affinities that require no tag and so cannot be indexed by one."""

    def watch(self, affinity: Affinity, allocations: Iterable[Counted]) -> Iterator[Counted]:
        """Adds the affinity to the index. Returns the given allocations that it counts."""
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
        """Removes a watched affinity from the index."""
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

    def add(self, allocation: Counted) -> None:
        tags = allocation.spec.tags
        for name, key in self._keys.items():
            value = tags.get(name)
            if value is not None:
                key.allocations.setdefault(value, {})[allocation] = None

    def drop(self, allocation: Counted) -> None:
        tags = allocation.spec.tags
        for name, key in self._keys.items():
            value = tags.get(name)
            if value is not None:
                del key.allocations[value][allocation]
                if not key.allocations[value]:
                    del key.allocations[value]

    def watched_keys(self) -> list[str]:
        """The tag keys in the index."""
        return list(self._keys)

    def allocations(self, key: str) -> Mapping[str, Mapping[Counted, None]]:
        """The allocations that have this tag, by its value."""
        return self._keys[key].allocations

    def dismantle(self) -> Iterator[None]:
        for key in self._keys.values():
            for allocations in key.allocations.values():
                yield from clear_stepwise(allocations)
            yield from clear_stepwise(key.allocations, key.by_value, key.any_value)
        yield from clear_stepwise(self._keys, self._everywhere)

    def counting(self, tags: Mapping[str, str]) -> list[Affinity]:
        """The affinities that count an allocation with these tags, each once."""
        found: list[Affinity] = []
        for name, key in self._keys.items():
            value = tags.get(name)
            if value is not None:
                # The index key holds already, and most affinities have no other expression.
                found += [one for one in key.affinities(value) if len(one.expressions) == 1 or one.matches(tags)]
        found += [one for one in self._everywhere if one.matches(tags)]
        return found
