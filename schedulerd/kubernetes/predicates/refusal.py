"""Why a pod may not run on a node: structured, so that words are made at the edge (`words`) and never parsed."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What can lift a refusal. The values are kube-scheduler's names."""

    UNSCHEDULABLE = "Unschedulable"
    """Other pods: the node may be usable once some have ended."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Only a change of the node, of the pod or of its volumes."""


class Code(Enum):
    """Why. The comment says what `Refusal.data` holds, if anything."""

    NODE_UNSCHEDULABLE = "node unschedulable"
    NODE_NAME = "other node name"
    TAINT = "untolerated taint"  # key, value, effect
    NODE_AFFINITY = "node affinity"
    NODE_AFFINITY_CONFLICT = "node affinity names no node"
    HOST_PORT = "host port in use"  # protocol, port, address
    TOO_MANY_PODS = "too many pods"
    INSUFFICIENT = "insufficient resource"  # resource
    SPREAD_SKEW = "topology spread"  # topology key, pods there with this one, minimum, maximum skew
    SPREAD_LABEL_MISSING = "no label for topology spread"  # topology key
    POD_AFFINITY = "pod affinity"  # topology key of the first term that is not met
    POD_ANTI_AFFINITY = "pod anti-affinity"  # topology key of the first term that is broken
    EXISTING_ANTI_AFFINITY = "anti-affinity of other pods"  # topology key
    DISK_CONFLICT = "disk in use"  # volume of the pod
    CLAIM_IN_USE = "claim for one pod in use"  # claim
    VOLUME_LIMIT = "too many volumes"  # driver, volumes there with the new ones, limit
    VOLUME_ZONE = "volume zone"  # persistent volume
    CLAIM_NOT_FOUND = "claim not found"  # claim
    CLAIM_AWAITED = "claim of ephemeral volume not made yet"  # claim
    CLAIM_LOST = "claim lost its volume"  # claim, persistent volume
    CLAIM_DELETED = "claim is being deleted"  # claim
    CLAIM_FOREIGN = "claim belongs to another pod"  # claim
    CLAIM_UNBOUND = "claim not bound"  # claim
    VOLUME_AFFINITY = "volume node affinity"  # persistent volume
    VOLUME_NOT_FOUND = "bound volume does not exist"  # persistent volume
    VOLUME_NO_MATCH = "no volume to bind"  # claim
    VOLUME_NO_SPACE = "no room for a new volume"  # claim
    CLASS_NOT_FOUND = "storage class not found"  # claim, storage class
    NODE_UNKNOWN = "node not known"
    DEVICE_CLAIM = "claims on devices are not supported"
    MALFORMED = "cannot be read"  # field, problem


class Refusal(NamedTuple):
    """One reason of one plugin. Two nodes that refuse for the same reason give equal refusals."""

    plugin: str
    kind: Kind
    code: Code
    data: tuple[str | int, ...] = ()


Refusals = tuple[Refusal, ...]
"""What a plugin says of a node: nothing if the pod may run there."""

NONE: Refusals = ()
