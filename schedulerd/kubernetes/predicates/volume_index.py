"""Volumes of one class, so that a node is not held against all of them: local volumes are as many as nodes.

A volume whose node affinity is one term with a label among some values is found by these; all others are loose, and
looked at for every node. Volumes that are promised to a claim are found by that claim alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from schedulerd.kubernetes.objects.storage import PersistentVolume
from schedulerd.kubernetes.predicates.node_requirement import NodeRequirement
from schedulerd.kubernetes.predicates.selectors import IN
from schedulerd.kubernetes.predicates.volume_reservations import ClaimKey

_VALUES_MAX = 16
"""A volume with more values is loose."""

_Pin = tuple[str, str]
"""Label and value."""


class Zone(NamedTuple):
    """A volume's label that says where it can be used."""

    label: str
    values: tuple[str, ...]


class VolumeFacts(NamedTuple):
    """A persistent volume with what is read of it once."""

    volume: PersistentVolume
    capacity: int
    requirement: NodeRequirement
    zones: tuple[Zone, ...]

    @property
    def name(self) -> str:
        return self.volume.metadata.name

    @property
    def promised_to(self) -> ClaimKey | None:
        reference = self.volume.spec.claim_ref
        return (reference.namespace, reference.name) if reference is not None else None


class VolumeIndex:
    def __init__(self) -> None:
        self._loose: dict[str, VolumeFacts] = {}
        self._pinned: dict[_Pin, dict[str, VolumeFacts]] = {}
        self._labels: dict[str, int] = {}
        """How many pins there are by label."""
        self._promised: dict[ClaimKey, dict[str, VolumeFacts]] = {}

    def add(self, one: VolumeFacts) -> None:
        if one.promised_to is not None:
            self._promised.setdefault(one.promised_to, {})[one.name] = one
            return
        pins = _pins(one.requirement)
        if pins is None:
            self._loose[one.name] = one
        for pin in pins or ():
            if pin not in self._pinned:
                self._pinned[pin] = {}
                self._labels[pin[0]] = self._labels.get(pin[0], 0) + 1
            self._pinned[pin][one.name] = one

    def remove(self, one: VolumeFacts) -> None:
        if one.promised_to is not None:
            del self._promised[one.promised_to][one.name]
            if not self._promised[one.promised_to]:
                del self._promised[one.promised_to]
            return
        self._loose.pop(one.name, None)
        for pin in _pins(one.requirement) or ():
            del self._pinned[pin][one.name]
            if not self._pinned[pin]:
                del self._pinned[pin]
                self._labels[pin[0]] -= 1
                if not self._labels[pin[0]]:
                    del self._labels[pin[0]]

    def free(self, labels: Mapping[str, str]) -> Iterator[VolumeFacts]:
        """All volumes without a claim that nodes with these labels can use, and perhaps some that they cannot; one with
        several pins once, as a node has one value of a label."""
        yield from self._loose.values()
        for label in self._labels:
            value = labels.get(label)
            if value is not None:
                yield from self._pinned.get((label, value), {}).values()

    def promised(self, claim: ClaimKey) -> Iterator[VolumeFacts]:
        """Volumes that are promised to a claim of this name."""
        return iter(self._promised.get(claim, {}).values())


def _pins(requirement: NodeRequirement) -> tuple[_Pin, ...] | None:
    """Labels with values one of which a node has to have; None if there is no such label."""
    if requirement.terms is None or len(requirement.terms) != 1:
        return None
    for one in requirement.terms[0].labels:
        if one.operator == IN and len(one.values) <= _VALUES_MAX:
            return tuple((one.key, value) for value in one.values)
    return None
