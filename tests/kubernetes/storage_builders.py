"""Short ways to make volumes, claims and classes."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.objects import storage
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.predicates.storage import BOUND_ANNOTATION, Storage
from tests.kubernetes.builders import JSON

WAIT = "WaitForFirstConsumer"


def volume(
    name: str = "v",
    size: str = "10Gi",
    meta: JSON | None = None,
    phase: str = "Available",
    node: str = "",
    **spec: Any,
) -> storage.PersistentVolume:
    """Usable on nodes with `disk=<node>` if a node is given."""
    full = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", **spec}
    if node:
        term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [node]}]}
        full["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return convert(
        storage.PersistentVolume, {"metadata": {"name": name, **(meta or {})}, "spec": full, "status": {"phase": phase}}
    )


def claim(
    name: str = "c", bound_to: str = "", size: str = "5Gi", meta: JSON | None = None, phase: str = "", **spec: Any
) -> storage.PersistentVolumeClaim:
    full = {
        "volumeName": bound_to,
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    annotations = {BOUND_ANNOTATION: "yes"} if bound_to else None
    metadata = {"name": name, "namespace": "ns", "uid": f"uid of {name}", "annotations": annotations, **(meta or {})}
    return convert(storage.PersistentVolumeClaim, {"metadata": metadata, "spec": full, "status": {"phase": phase}})


def storage_class(
    name: str = "fast", mode: str | None = WAIT, provisioner: str = "", **more: Any
) -> storage.StorageClass:
    return convert(
        storage.StorageClass,
        {"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner, **more},
    )


def capacity(name: str, size: str | None, topology: JSON | None, **more: Any) -> storage.CSIStorageCapacity:
    return convert(
        storage.CSIStorageCapacity,
        {"metadata": {"name": name}, "storageClassName": "fast", "capacity": size, "nodeTopology": topology, **more},
    )


def csi_node(name: str, **limits: int | None) -> storage.CSINode:
    drivers = [{"name": driver, "allocatable": {"count": count}} for driver, count in limits.items()]
    return convert(storage.CSINode, {"metadata": {"name": name}, "spec": {"drivers": drivers}})


def csi_driver(name: str, publishes: bool | None) -> storage.CSIDriver:
    return convert(storage.CSIDriver, {"metadata": {"name": name}, "spec": {"storageCapacity": publishes}})


def attachment(name: str, node: str, volume_name: str) -> storage.VolumeAttachment:
    spec = {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return convert(storage.VolumeAttachment, {"metadata": {"name": name}, "spec": spec})


def uses(*claims: str) -> list[JSON]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def put(state: Storage, *objects: Any) -> None:
    for one in objects:
        match one:
            case storage.PersistentVolume():
                state.put_volume(one)
            case storage.PersistentVolumeClaim():
                state.put_claim(one)
            case storage.StorageClass():
                state.put_class(one)
            case storage.CSIStorageCapacity():
                state.put_capacity(one)
            case storage.CSINode():
                state.put_csi_node(one)
            case storage.CSIDriver():
                state.put_csi_driver(one)
            case _:
                state.put_attachment(one)
