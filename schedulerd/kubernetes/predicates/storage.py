"""Volumes, claims and classes of the cluster, and the questions that several volume plugins ask about them.

Source: component-helpers `storage/volume`; Kubernetes' documentation "Persistent Volumes", "Storage Capacity".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schedulerd.kubernetes.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from schedulerd.kubernetes.predicates.assumed_volumes import AssumedVolumes
from schedulerd.kubernetes.predicates.assumed_volumes import ClaimKey as ClaimKey
from schedulerd.kubernetes.predicates.label_index import LabelIndex
from schedulerd.kubernetes.predicates.node_requirement import NodeRequirement, of_selector
from schedulerd.kubernetes.predicates.selectors import NOTHING, MalformedSelector, Selector, compiled
from schedulerd.kubernetes.predicates.volume_index import VolumeFacts as VolumeFacts
from schedulerd.kubernetes.predicates.volume_index import VolumeIndex, Zone
from schedulerd.kubernetes.quantity import MalformedQuantity, units

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

_NO_VOLUMES = VolumeIndex()

ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of volumes and nodes that say where they are: by each, the label that stands in where a node lacks it."""

_ZONES_SEPARATOR = "__"


class CapacityFacts(NamedTuple):
    """A CSIStorageCapacity with what is read of it once."""

    class_name: str
    bytes_max: int
    """Of a volume; -1 if nothing is said, or nothing that can be read."""
    topology: Selector


class Handle(NamedTuple):
    """A volume as its driver knows it; two claims with equal handles are one volume of a node."""

    driver: str
    volume: str


class Storage:
    """Pure state: an object that comes again replaces the former one."""

    def __init__(self) -> None:
        self.claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, VolumeFacts] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_drivers: dict[str, CSIDriver] = {}
        self.limited_drivers: dict[str, int] = {}
        """How many nodes limit the volumes of a CSI driver."""
        self.capacities: dict[ClaimKey, CapacityFacts] = {}
        self._capacities_of: dict[str, LabelIndex[CapacityFacts]] = {}
        """By storage class."""
        self.assumed = AssumedVolumes()
        self._csi_nodes: dict[str, CSINode] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._attached: dict[str, dict[str, VolumeAttachment]] = {}
        """By node, by name."""
        self._by_class: dict[str, VolumeIndex] = {}

    def put_volume(self, volume: PersistentVolume) -> None:
        self.remove_volume(volume.metadata.name)
        facts = VolumeFacts(
            volume,
            storage_size(volume.spec.capacity) or 0,
            of_selector(volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None),
            zones(volume),
        )
        self.volumes[volume.metadata.name] = facts
        self._by_class.setdefault(volume_class(volume), VolumeIndex()).add(facts)

    def remove_volume(self, name: str) -> None:
        facts = self.volumes.pop(name, None)
        if facts is not None:
            self._by_class[volume_class(facts.volume)].remove(facts)

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        self.claims[claim.metadata.namespace, claim.metadata.name] = claim

    def remove_claim(self, namespace: str, name: str) -> None:
        self.claims.pop((namespace, name), None)

    def put_class(self, found: StorageClass) -> None:
        self.classes[found.metadata.name] = found

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)

    def put_csi_driver(self, driver: CSIDriver) -> None:
        self.csi_drivers[driver.metadata.name] = driver

    def remove_csi_driver(self, name: str) -> None:
        self.csi_drivers.pop(name, None)

    def put_csi_node(self, node: CSINode) -> None:
        self.remove_csi_node(node.metadata.name)
        self._csi_nodes[node.metadata.name] = node
        for driver in volume_limits(node):
            self.limited_drivers[driver] = self.limited_drivers.get(driver, 0) + 1

    def remove_csi_node(self, name: str) -> None:
        node = self._csi_nodes.pop(name, None)
        for driver in volume_limits(node):
            self.limited_drivers[driver] -= 1
            if not self.limited_drivers[driver]:
                del self.limited_drivers[driver]

    def limits_of(self, node: str) -> dict[str, int]:
        """How many volumes can be attached to a node, by driver; drivers without a limit are missing."""
        return volume_limits(self._csi_nodes.get(node))

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        key = (capacity.metadata.namespace, capacity.metadata.name)
        self.remove_capacity(*key)
        facts = self.capacities[key] = read_capacity(capacity)
        index = self._capacities_of.setdefault(facts.class_name, LabelIndex())
        index.add(key, facts, facts.topology.requirements)

    def remove_capacity(self, namespace: str, name: str) -> None:
        facts = self.capacities.pop((namespace, name), None)
        if facts is not None:
            self._capacities_of[facts.class_name].remove((namespace, name), facts.topology.requirements)

    def largest_volume(self, class_name: str, labels: Mapping[str, str]) -> int:
        """Bytes of the largest volume of the class that can be made for nodes with these labels; -1 if none can."""
        index = self._capacities_of.get(class_name)
        found = index.candidates(labels) if index is not None else ()
        return max((one.bytes_max for one in found if one.topology.matches(labels)), default=-1)

    def put_attachment(self, attachment: VolumeAttachment) -> None:
        name = attachment.metadata.name
        self.remove_attachment(name)
        self._attachments[name] = attachment
        self._attached.setdefault(attachment.spec.node_name, {})[name] = attachment

    def remove_attachment(self, name: str) -> None:
        attachment = self._attachments.pop(name, None)
        if attachment is not None:
            del self._attached[attachment.spec.node_name][name]

    def attached_to(self, node: str) -> Iterable[VolumeAttachment]:
        return self._attached.get(node, {}).values()

    def volumes_of(self, class_name: str) -> VolumeIndex:
        return self._by_class.get(class_name, _NO_VOLUMES)

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        """The node for which a volume of the claim is to be made; None if none was chosen."""
        selected = (claim.metadata.annotations or {}).get(SELECTED_NODE_ANNOTATION)
        if selected is not None:
            return selected
        return self.assumed.selected_node((claim.metadata.namespace, claim.metadata.name))

    def waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """The claim is bound only once a pod that uses it has a node."""
        found = self.classes.get(claim_class(claim))
        return found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def handle(self, claim: PersistentVolumeClaim) -> Handle | None:
        """The CSI volume behind the claim, or the one that will be made for it; None if no CSI driver has it."""
        bound = self.volumes.get(claim.spec.volume_name)
        if bound is not None:
            return csi_handle(bound.volume)
        found = self.classes.get(claim_class(claim))
        if found is None or not found.provisioner:
            return None
        return Handle(found.provisioner, f"claim {claim.metadata.namespace}/{claim.metadata.name}")


def volume_limits(node: CSINode | None) -> dict[str, int]:
    """What a CSINode says about limits, by driver."""
    drivers = (node.spec.drivers or ()) if node is not None else ()
    return {
        driver.name: driver.allocatable.count
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def read_capacity(capacity: CSIStorageCapacity) -> CapacityFacts:
    """What cannot be read is for no node."""
    quantity = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    try:
        topology, bytes_max = compiled(capacity.node_topology), -1 if quantity is None else units(quantity)
    except (MalformedSelector, MalformedQuantity):
        topology, bytes_max = NOTHING, -1
    return CapacityFacts(capacity.storage_class_name, bytes_max, topology)


def csi_handle(volume: PersistentVolume) -> Handle | None:
    source = volume.spec.csi
    return Handle(source.driver, source.volume_handle) if source is not None else None


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """The controller has bound the claim and says so."""
    return bool(claim.spec.volume_name) and BOUND_ANNOTATION in (claim.metadata.annotations or {})


def claim_class(claim: PersistentVolumeClaim) -> str:
    annotations = claim.metadata.annotations or {}
    return annotations.get(CLASS_ANNOTATION, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    annotations = volume.metadata.annotations or {}
    return annotations.get(CLASS_ANNOTATION, volume.spec.storage_class_name)


def storage_size(quantities: Mapping[str, str | int] | None) -> int | None:
    """Bytes of storage; None if nothing is said, or nothing that can be read."""
    quantity = (quantities or {}).get("storage")
    if quantity is None:
        return None
    try:
        return units(quantity)
    except MalformedQuantity:
        return None


def zones(volume: PersistentVolume) -> tuple[Zone, ...]:
    """Where the volume's labels allow it; a label with an empty part is left out."""
    found: list[Zone] = []
    for label in ZONE_LABELS:
        text = (volume.metadata.labels or {}).get(label)
        if text is not None:
            values = {value.strip() for value in text.split(_ZONES_SEPARATOR)}
            if "" not in values:
                found.append(Zone(label, tuple(sorted(values))))
    return tuple(found)


def is_usable(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    """A volume's node affinity allows nodes with these labels. Kubernetes does not compare names here."""
    return requirement.matches("", labels)


def is_reachable(zone: Zone, labels: Mapping[str, str]) -> bool:
    """A node with these labels is where the volume is."""
    value = labels.get(zone.label, labels.get(ZONE_LABELS[zone.label]))
    return value in zone.values


def says_where(labels: Mapping[str, str]) -> bool:
    """The labels of a node have any zone or region."""
    return any(label in labels for label in ZONE_LABELS)
