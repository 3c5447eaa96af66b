"""Promises volumes to claims and selects nodes for claims, and tells the cluster how that ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from schedulerd.kubernetes.api import Outcome, Result, WritePool
from schedulerd.kubernetes.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from schedulerd.kubernetes.api.writes import PatchVolume
from schedulerd.kubernetes.cluster.effects import BindVolume, SelectNode
from schedulerd.kubernetes.cluster.events import Event, VolumeResult, VolumeWritten
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey, Written
from schedulerd.kubernetes.objects.decode import MalformedObject, decode
from schedulerd.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from schedulerd.kubernetes.predicates.storage import SELECTED_NODE_ANNOTATION

BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller"
"""Of a volume: the promise was no wish of its owner, and ends with the claim."""
_RESULTS = {
    Result.DONE: VolumeResult.DONE,
    Result.CONFLICT: VolumeResult.CHANGED,
    Result.GONE: VolumeResult.CHANGED,
    Result.REFUSED: VolumeResult.FAILED,
    Result.FAILED: VolumeResult.FAILED,
}
"""All others are UNKNOWN."""
_OVER = (Result.CLOSED, Result.NOT_LEADER)
"""This process is about to end."""

_Effect: TypeAlias = BindVolume | SelectNode


class VolumeWriter:
    def __init__(self, pool: WritePool, handle: Callable[[list[Event]], None]) -> None:
        self._pool = pool
        self._handle = handle

    def bind(self, effect: BindVolume) -> None:
        claim = effect.claim
        reference = {
            "kind": PERSISTENT_VOLUME_CLAIMS.kind,
            "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        patch: dict[str, Any] = {"spec": {"claimRef": reference}}
        if not effect.was_promised:
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER_ANNOTATION: "yes"}}
        write = PatchVolume(
            PERSISTENT_VOLUMES,
            "",
            effect.volume,
            effect.uid,
            patch,
            subresource="",
            resource_version=effect.resource_version,
        )
        self._submit(write, effect, WriteKey(Written.VOLUME, effect.volume))

    def select_node(self, effect: SelectNode) -> None:
        claim = effect.claim
        patch: Mapping[str, Any] = {"metadata": {"annotations": {SELECTED_NODE_ANNOTATION: effect.node}}}
        write = PatchVolume(
            PERSISTENT_VOLUME_CLAIMS,
            claim.namespace,
            claim.name,
            claim.uid,
            patch,
            subresource="",
            resource_version=claim.resource_version,
        )
        self._submit(write, effect, WriteKey(Written.CLAIM, claim.name))

    def _submit(self, write: PatchVolume, effect: _Effect, key: WriteKey) -> None:
        def ended(done: asyncio.Future[Outcome]) -> None:
            outcome = done.result()
            if outcome.result in _OVER:
                return
            result = _RESULTS.get(outcome.result, VolumeResult.UNKNOWN)
            version = ""
            if outcome.result in (Result.DONE, Result.CONFLICT):
                version, is_there = _found(effect, outcome.object)
                if is_there:  # a conflict after a lost answer is one with the write itself
                    result = VolumeResult.DONE
            self._handle([VolumeWritten(effect.pod.uid, effect.attempt, key, result, outcome.message, version)])

        self._pool.submit(write).add_done_callback(ended)


def _found(effect: _Effect, body: bytes) -> tuple[str, bool]:
    """The version of the object that the server has, and whether it says what was to be written."""
    try:
        if isinstance(effect, BindVolume):
            volume = decode(PersistentVolume, body)
            reference = volume.spec.claim_ref
            return volume.metadata.resource_version, reference is not None and reference.uid == effect.claim.uid
        metadata = decode(PersistentVolumeClaim, body).metadata
    except MalformedObject:
        return "", False
    return metadata.resource_version, (metadata.annotations or {}).get(SELECTED_NODE_ANNOTATION) == effect.node
