"""Volumes, claims and what is written of them, for plays with pods that wait for volumes."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.cluster.effects import (
    Ask,
    Effect,
    PodName,
    ReleaseAllocation,
)
from schedulerd.kubernetes.cluster.events import (
    VolumeResult,
    VolumeWritten,
)
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey, Written
from schedulerd.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from schedulerd.kubernetes.predicates.storage import BOUND_ANNOTATION, SELECTED_NODE_ANNOTATION
from tests.kubernetes.builders import app, node
from tests.kubernetes.cluster.play import Play, of, own
from tests.kubernetes.storage_builders import claim, uses, volume

P, Q = PodName("ns", "p", "p"), PodName("ns", "q", "q")
APP = app("yunikorn-ns-autogen")
DRIVER = "disks.example.com"
SELECTOR = "schedulerd.io/node-selector"


def pv(name: str = "v", version: str = "10", promised_to: str = "", uid: str = "", **more: Any) -> PersistentVolume:
    if promised_to:
        more["claimRef"] = {"namespace": "ns", "name": promised_to, "uid": uid or f"uid of {promised_to}"}
    return volume(name, meta={"uid": f"uid of {name}", "resourceVersion": version}, **more)


def pvc(
    name: str = "c", version: str = "20", bound_to: str = "", selected: str = "", **more: Any
) -> PersistentVolumeClaim:
    annotations = {BOUND_ANNOTATION: "yes"} if bound_to else {}
    if selected:
        annotations[SELECTED_NODE_ANNOTATION] = selected
    return claim(name, bound_to, meta={"resourceVersion": version, "annotations": annotations}, **more)


def on(name: str) -> object:
    return node(name, {"disk": name})


def reads(name: str = "p", *claims: str) -> Any:
    return own(name, volumes=uses(*(claims or ("c",))))


def volume_written(
    name: str = "v", result: VolumeResult = VolumeResult.DONE, version: str = "11", attempt: int = 1, key: str = "p"
) -> VolumeWritten:
    return VolumeWritten(key, attempt, WriteKey(Written.VOLUME, name), result, "no", version)


def claim_written(
    name: str = "c", result: VolumeResult = VolumeResult.DONE, version: str = "21", attempt: int = 1
) -> VolumeWritten:
    return VolumeWritten("p", attempt, WriteKey(Written.CLAIM, name), result, "no", version)


def nothing_is_kept(play: Play) -> bool:
    model = play.cluster.model
    return not model.awaiting_volumes and not len(model.cache.storage.assumed)


def failed(effects: list[Effect], message: str, uuid: str = "u-p") -> None:
    """The allocation was given back, and the pod is not asked for at once."""
    release, *others = effects
    assert isinstance(release, ReleaseAllocation)
    assert release.uuid == uuid
    assert message in release.message
    assert of(others, Ask) == []
