"""Volumes and nodes that claims are assumed to get, until the API server knows of it.

A pod that waits for its first volumes has a node before its claims have volumes. What was chosen for it counts for all
other pods from that moment: a volume is not chosen twice, and pods that share a claim go to one node. What two
pods that share a claim have in common ends with the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

ClaimKey = tuple[str, str]
"""Namespace and name."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _OfPod(NamedTuple):
    volumes: Mapping[str, ClaimKey]
    """Claims by the volume that each of them gets."""
    nodes: Mapping[ClaimKey, str]
    """By claim: the node for which its volume is to be made."""


class AssumedVolumes:
    def __init__(self) -> None:
        self._pods: dict[str, _OfPod] = {}
        """By uid of the pod, oldest first."""
        self._holders: dict[str, dict[str, ClaimKey]] = {}
        """By volume: the pods that hold it, with the claim."""
        self._volumes: dict[ClaimKey, dict[str, str]] = {}
        """By claim: the pods that hold a volume for it, with the volume."""
        self._selecting: dict[ClaimKey, dict[str, str]] = {}
        """By claim: the pods that have selected a node for it, with the node."""

    def __len__(self) -> int:
        return len(self._pods)

    def assume(self, uid: str, volumes: Mapping[str, ClaimKey], nodes: Mapping[ClaimKey, str]) -> None:
        """What the claims of the pod get, instead of what was assumed of it before."""
        self.forget(uid)
        self._pods[uid] = _OfPod(dict(volumes), dict(nodes))
        for volume, claim in volumes.items():
            self._holders.setdefault(volume, {})[uid] = claim
            self._volumes.setdefault(claim, {})[uid] = volume
        for claim, node in nodes.items():
            self._selecting.setdefault(claim, {})[uid] = node

    def forget(self, uid: str) -> bool:
        """Nothing is assumed of the pod any longer; whether something was."""
        of_pod = self._pods.pop(uid, None)
        if of_pod is None:
            return False
        for volume, claim in of_pod.volumes.items():
            _drop(self._holders, volume, uid)
            _drop(self._volumes, claim, uid)
        for claim in of_pod.nodes:
            _drop(self._selecting, claim, uid)
        return True

    def owner(self, volume: str) -> ClaimKey | None:
        """The claim that gets the volume."""
        return next(iter(self._holders.get(volume, {}).values()), None)

    def volumes(self, claim: ClaimKey) -> set[str]:
        """The volumes that the claim gets."""
        return set(self._volumes.get(claim, {}).values())

    def selected_node(self, claim: ClaimKey) -> str | None:
        """The node for which a volume is to be made for the claim."""
        return next(iter(self._selecting.get(claim, {}).values()), None)


def _drop(held: dict[_Key, dict[str, _Value]], key: _Key, uid: str) -> None:
    held[key].pop(uid)
    if not held[key]:
        del held[key]
