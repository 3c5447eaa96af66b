"""Finds what selects a pod without trying every selector.

Each entry is filed under labels that a pod must have to be selected (all its pods have one of them): a pod is looked up
by its own labels. Selectors that demand no label's value are filed under their namespaces, or under the empty key,
which every pod has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from schedulerd.kubernetes.predicates.selectors import IN
from schedulerd.kubernetes.predicates.terms import PodFilter

_Entry = TypeVar("_Entry")

FileKey: TypeAlias = tuple[str, ...]
"""(), (namespace,), (label, value) or (namespace, label, value)."""

_KEYS_MAX = 64
"""Entries that would need more keys are filed under fewer, less exact ones."""


class SelectorIndex(Generic[_Entry]):
    """Entries by the pods they may select. An entry is found at most once for a pod."""

    def __init__(self) -> None:
        self._entries: dict[FileKey, dict[_Entry, None]] = {}

    def add(self, entry: _Entry, filters: Iterable[PodFilter]) -> None:
        for key in file_keys(filters):
            self._entries.setdefault(key, {})[entry] = None

    def remove(self, entry: _Entry, filters: Iterable[PodFilter]) -> None:
        for key in file_keys(filters):
            entries = self._entries[key]
            del entries[entry]
            if not entries:
                del self._entries[key]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[_Entry]:
        """All entries that select such a pod, and perhaps some that do not."""
        find = self._entries.get
        yield from find((), ())
        yield from find((namespace,), ())
        for key, value in labels.items():
            yield from find((key, value), ())
            yield from find((namespace, key, value), ())


def file_keys(filters: Iterable[PodFilter]) -> tuple[FileKey, ...]:
    """Where to file what selects by all of these; nowhere if that selects nothing."""
    filters = tuple(filters)
    if any(one.selector.matches_nothing for one in filters):
        return ()
    return min((_keys(one) for one in filters), key=_exactness)


def _keys(one: PodFilter) -> tuple[FileKey, ...]:
    pairs = [
        [(found.key, value) for value in found.values] for found in one.selector.requirements if found.operator == IN
    ]
    names = one.scope.names if one.scope.selector is None else ()
    fewest = min(pairs, key=len, default=[])
    if fewest and names and len(fewest) * len(names) <= _KEYS_MAX:
        return tuple((name, *pair) for name in names for pair in fewest)
    if 0 < len(fewest) <= _KEYS_MAX:
        return tuple(fewest)
    if 0 < len(names) <= _KEYS_MAX:
        return tuple((name,) for name in names)
    return ((),)


def _exactness(keys: tuple[FileKey, ...]) -> tuple[int, int]:
    """Longer keys are rarer, fewer keys are cheaper."""
    return (-len(keys[0]), len(keys))
