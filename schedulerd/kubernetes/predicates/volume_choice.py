"""Which volume an unbound claim gets on a node, and whether its class can make one there.

Source: component-helpers `storage/volume` FindMatchingVolume; kube-scheduler's volume binder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedulerd.kubernetes.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from schedulerd.kubernetes.predicates.node_state import NodeFacts
from schedulerd.kubernetes.predicates.refusal import Code
from schedulerd.kubernetes.predicates.selectors import NOTHING, MalformedSelector, Selector, compiled
from schedulerd.kubernetes.predicates.storage import (
    NO_PROVISIONER,
    Storage,
    VolumeFacts,
    claim_class,
    is_usable,
    storage_size,
)

_AVAILABLE = "Available"
_FILESYSTEM = "Filesystem"


def smallest_match(claim: PersistentVolumeClaim, facts: NodeFacts, storage: Storage, taken: set[str]) -> str | None:
    """Name of the volume that is bound to the claim beforehand, else of the smallest free one that fits."""
    wanted = storage_size(claim.spec.resources.requests) or 0
    for one in sorted(_promised(claim, storage), key=_size):
        if one.name not in taken and one.capacity >= wanted and _is_alike(one.volume, claim):
            return one.name if is_usable(one.requirement, facts.labels) else None
    selector = _claim_selector(claim)
    smallest: VolumeFacts | None = None
    for one in storage.volumes_of(claim_class(claim)).free(facts.labels):
        if (
            one.capacity >= wanted
            and (smallest is None or _size(one) < _size(smallest))
            and one.name not in taken
            and storage.assumed.owner(one.name) is None
            and _is_alike(one.volume, claim)
            and is_usable(one.requirement, facts.labels)
            and _is_free(one, claim, selector)
        ):
            smallest = one
    return smallest.name if smallest is not None else None


def unprovisionable(claim: PersistentVolumeClaim, facts: NodeFacts, storage: Storage) -> tuple[Code, str] | None:
    """Why no volume can be made on the node for the claim, which waits for its consumer: code and data of a refusal;
    None if one can."""
    name, found = claim.metadata.name, storage.classes[claim_class(claim)]
    if found.provisioner in ("", NO_PROVISIONER) or not _allows(found, facts.labels):
        return (Code.VOLUME_NO_MATCH, name)
    if not _has_room(claim, found, facts, storage):
        return (Code.VOLUME_NO_SPACE, name)
    return None


def _size(one: VolumeFacts) -> tuple[int, str]:
    return one.capacity, one.name


def _promised(claim: PersistentVolumeClaim, storage: Storage) -> Iterator[VolumeFacts]:
    """The volumes that are the claim's: by what the API server says, or by what is assumed here."""
    key = (claim.metadata.namespace, claim.metadata.name)
    for one in storage.volumes_of(claim_class(claim)).promised(key):
        reference = one.volume.spec.claim_ref
        if reference is not None and reference.uid in ("", claim.metadata.uid):
            yield one
    for name in storage.assumed.volumes(key):
        reserved = storage.volumes.get(name)
        if reserved is not None and reserved.promised_to is None:
            yield reserved


def _is_alike(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Mode and attributes class are those of the claim, and the volume is not being deleted."""
    return (
        (volume.spec.volume_mode or _FILESYSTEM) == (claim.spec.volume_mode or _FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_free(one: VolumeFacts, claim: PersistentVolumeClaim, selector: Selector | None) -> bool:
    volume = one.volume
    return (
        volume.status.phase == _AVAILABLE
        and (selector is None or selector.matches(volume.metadata.labels or {}))
        and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
    )


def _claim_selector(claim: PersistentVolumeClaim) -> Selector | None:
    """None if the claim takes volumes with any labels; one that cannot be read takes none."""
    if claim.spec.selector is None:
        return None
    try:
        return compiled(claim.spec.selector)
    except MalformedSelector:
        return NOTHING


def _allows(found: StorageClass, labels: Mapping[str, str]) -> bool:
    """Nodes with these labels are among the class' allowed topologies."""
    terms = found.allowed_topologies
    return not terms or any(_topology_matches(term, labels) for term in terms)


def _topology_matches(term: TopologySelectorTerm, labels: Mapping[str, str]) -> bool:
    """A term without expressions matches no node."""
    expressions = term.match_label_expressions
    return bool(expressions) and all(
        one.key in labels and labels[one.key] in (one.values or ()) for one in expressions or ()
    )


def _has_room(claim: PersistentVolumeClaim, found: StorageClass, facts: NodeFacts, storage: Storage) -> bool:
    """Drivers that publish capacity have some for this class that the node can reach."""
    wanted = storage_size(claim.spec.resources.requests)
    driver = storage.csi_drivers.get(found.provisioner)
    if wanted is None or driver is None or not driver.spec.storage_capacity:
        return True
    return storage.largest_volume(found.metadata.name, facts.labels) >= wanted
