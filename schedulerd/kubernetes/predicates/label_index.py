"""What is for some nodes, found by their labels: local volumes and their capacities are as many as nodes.

A thing that wants a label to have one of a few values is found by these. All others are found for every node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from schedulerd.kubernetes.predicates.selectors import IN, Requirement

_Thing = TypeVar("_Thing")

_VALUES_MAX = 16
"""A requirement with more values is not filed by."""

_Pin = tuple[str, str]
"""Label and value."""


class LabelIndex(Generic[_Thing]):
    """Things by name, each with what it requires of labels, which is the same when it is removed."""

    def __init__(self) -> None:
        self._loose: dict[Hashable, _Thing] = {}
        self._pinned: dict[_Pin, dict[Hashable, _Thing]] = {}
        self._labels: dict[str, int] = {}
        """How many pins there are by label."""

    def add(self, name: Hashable, thing: _Thing, requirements: Iterable[Requirement]) -> None:
        pins = _pins(requirements)
        if pins is None:
            self._loose[name] = thing
        for pin in pins or ():
            if pin not in self._pinned:
                self._pinned[pin] = {}
                self._labels[pin[0]] = self._labels.get(pin[0], 0) + 1
            self._pinned[pin][name] = thing

    def remove(self, name: Hashable, requirements: Iterable[Requirement]) -> None:
        self._loose.pop(name, None)
        for pin in _pins(requirements) or ():
            del self._pinned[pin][name]
            if not self._pinned[pin]:
                del self._pinned[pin]
                self._labels[pin[0]] -= 1
                if not self._labels[pin[0]]:
                    del self._labels[pin[0]]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[_Thing]:
        """Each thing whose requirements a node with these labels meets, once, and perhaps others."""
        yield from self._loose.values()
        for label in self._labels:
            value = labels.get(label)
            if value is not None:
                yield from self._pinned.get((label, value), {}).values()


def _pins(requirements: Iterable[Requirement]) -> tuple[_Pin, ...] | None:
    """A label with values of which a node has to have one; None if there is no such label."""
    for one in requirements:
        if one.operator == IN and len(one.values) <= _VALUES_MAX:
            return tuple((one.key, value) for value in one.values)
    return None
