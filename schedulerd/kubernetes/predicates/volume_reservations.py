"""Volumes and nodes that are promised to claims until the API server knows of it.

A pod that waits for its first volumes has a node before its claims have volumes. What was chosen for it counts for all
other pods from that moment: a volume is not chosen twice, and pods that share a claim go to one node. Two pods that
share a claim promise the same, and the promise ends with the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

ClaimKey = tuple[str, str]
"""Namespace and name."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Promise(NamedTuple):
    volumes: Mapping[str, ClaimKey]
    """Claims by the volume that each of them gets."""
    nodes: Mapping[ClaimKey, str]
    """By claim: the node for which its volume is to be made."""


class VolumeReservations:
    def __init__(self) -> None:
        self._promises: dict[str, _Promise] = {}
        """By uid of the pod, oldest first."""
        self._holders: dict[str, dict[str, ClaimKey]] = {}
        """By volume: the pods that hold it, with the claim."""
        self._volumes: dict[ClaimKey, dict[str, str]] = {}
        """By claim: the pods that hold a volume for it, with the volume."""
        self._selecting: dict[ClaimKey, dict[str, str]] = {}
        """By claim: the pods that have selected a node for it, with the node."""

    def __len__(self) -> int:
        return len(self._promises)

    def reserve(self, uid: str, volumes: Mapping[str, ClaimKey], nodes: Mapping[ClaimKey, str]) -> None:
        """What the pod promises, instead of what it promised before."""
        self.release(uid)
        if not volumes and not nodes:
            return
        self._promises[uid] = _Promise(dict(volumes), dict(nodes))
        for volume, claim in volumes.items():
            self._holders.setdefault(volume, {})[uid] = claim
            self._volumes.setdefault(claim, {})[uid] = volume
        for claim, node in nodes.items():
            self._selecting.setdefault(claim, {})[uid] = node

    def release(self, uid: str) -> bool:
        """The pod promises nothing any longer; whether it did."""
        promise = self._promises.pop(uid, None)
        if promise is None:
            return False
        for volume, claim in promise.volumes.items():
            _drop(self._holders, volume, uid)
            _drop(self._volumes, claim, uid)
        for claim in promise.nodes:
            _drop(self._selecting, claim, uid)
        return True

    def owner(self, volume: str) -> ClaimKey | None:
        """The claim that the volume is promised to."""
        return next(iter(self._holders.get(volume, {}).values()), None)

    def volumes(self, claim: ClaimKey) -> set[str]:
        """The volumes that are promised to the claim."""
        return set(self._volumes.get(claim, {}).values())

    def selected_node(self, claim: ClaimKey) -> str | None:
        """The node for which a volume is to be made for the claim."""
        return next(iter(self._selecting.get(claim, {}).values()), None)


def _drop(held: dict[_Key, dict[str, _Value]], key: _Key, uid: str) -> None:
    held[key].pop(uid)
    if not held[key]:
        del held[key]
