"""Storage: volumes, claims, classes, and what CSI drivers say about nodes (core/v1, storage.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.objects.meta import LabelSelector, NodeSelector, ObjectMeta, ObjectReference
from schedulerd.kubernetes.objects.pod import Quantities, ResourceRequirements


class CsiVolumeSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    required: NodeSelector | None = None


class PersistentVolumeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    capacity: Quantities | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    """Filesystem if absent, or Block."""
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolumeSource | None = None


class PersistentVolumeStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""


class PersistentVolume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()


class PersistentVolumeClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologyRequirement(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    values: tuple[str, ...] | None = None


class TopologySelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClass(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] | None = None


class VolumeNodeResources(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    count: int | None = None


class CsiNodeDriver(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CsiNodeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    drivers: tuple[CsiNodeDriver, ...] | None = None


class CSINode(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Has the name of its node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    storage_capacity: bool | None = None


class CSIDriver(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: CsiDriverSpec = CsiDriverSpec()


class CSIStorageCapacity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How much room for new volumes of a class there is for the nodes of a topology."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None


class AttachmentSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
