"""Volumes of one class, so that a node is not held against all of them. Promised ones are found by their claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from schedulerd.kubernetes.objects.storage import PersistentVolume
from schedulerd.kubernetes.predicates.assumed_volumes import ClaimKey
from schedulerd.kubernetes.predicates.label_index import LabelIndex
from schedulerd.kubernetes.predicates.node_requirement import NodeRequirement
from schedulerd.kubernetes.predicates.selectors import Requirement


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
        self._free: LabelIndex[VolumeFacts] = LabelIndex()
        self._promised: dict[ClaimKey, dict[str, VolumeFacts]] = {}

    def add(self, one: VolumeFacts) -> None:
        if one.promised_to is not None:
            self._promised.setdefault(one.promised_to, {})[one.name] = one
        else:
            self._free.add(one.name, one, _required(one))

    def remove(self, one: VolumeFacts) -> None:
        if one.promised_to is None:
            self._free.remove(one.name, _required(one))
            return
        promised = self._promised[one.promised_to]
        del promised[one.name]
        if not promised:
            del self._promised[one.promised_to]

    def free(self, labels: Mapping[str, str]) -> Iterator[VolumeFacts]:
        """All volumes without a claim that nodes with these labels can use, and perhaps some that they cannot."""
        return self._free.candidates(labels)

    def promised(self, claim: ClaimKey) -> Iterator[VolumeFacts]:
        """Volumes that are promised to a claim of this name."""
        return iter(self._promised.get(claim, {}).values())


def _required(one: VolumeFacts) -> tuple[Requirement, ...]:
    """What every node has to meet that can use the volume."""
    terms = one.requirement.terms
    return terms[0].labels if terms is not None and len(terms) == 1 else ()
