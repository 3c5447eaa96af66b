"""What the cluster is told: changes of Kubernetes objects, answers of the daemon, ends of writes, the time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey
from schedulerd.kubernetes.objects.cluster import Namespace, PodDisruptionBudget, PriorityClass
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import CoschedulingPodGroup, PodGroup, Workload
from schedulerd.kubernetes.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from schedulerd.kubernetes.reasons.waiting import Waiting

KubernetesObject: TypeAlias = (
    Pod
    | Node
    | Namespace
    | PriorityClass
    | PodDisruptionBudget
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | CoschedulingPodGroup
    | PodGroup
    | Workload
)


@dataclass(frozen=True, slots=True)
class Put:
    """An object is new, or has changed."""

    object: KubernetesObject | Any


@dataclass(frozen=True, slots=True)
class Gone:
    """An object is deleted, or no longer selected by its watch: a pod that has ended."""

    object: KubernetesObject | Any


@dataclass(frozen=True, slots=True)
class GangSourceServed:
    """The API server has objects of this kind, by which pods become gangs; told before the objects."""

    source: GangSource


@dataclass(frozen=True, slots=True)
class Started:
    """All objects that were there at the start are put, and the daemon is to be told."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: `Cluster.next_due_ns` was reached."""


@dataclass(frozen=True, slots=True)
class ReportBegun:
    """The daemon has lost its state, and these are being reported to it again: all answers from now on are to that."""

    applications: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resynced:
    """The daemon had lost its state, and everything was reported to it again."""


@dataclass(frozen=True, slots=True)
class ApplicationAccepted:
    application_id: str


@dataclass(frozen=True, slots=True)
class ApplicationRejected:
    application_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationUpdated:
    application_id: str
    state: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeAccepted:
    name: str


@dataclass(frozen=True, slots=True)
class NodeRejected:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Allocated:
    application_id: str
    key: str
    uuid: str
    node: str


@dataclass(frozen=True, slots=True)
class AllocationReleased:
    """An allocation is gone: confirmation of a release, or its node was removed."""

    application_id: str
    key: str
    uuid: str


class Cause(Enum):
    """Why the daemon wants a pod to end."""

    PREEMPTED = "preempted"
    TIMEOUT = "timeout"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class ReleaseWanted:
    application_id: str
    key: str
    uuid: str
    cause: Cause
    message: str


@dataclass(frozen=True, slots=True)
class AskRejected:
    application_id: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class AskReleased:
    """The daemon confirms that an ask is gone: it was withdrawn, or its application removed."""

    application_id: str
    key: str


@dataclass(frozen=True, slots=True)
class AskTimedOut:
    """The daemon has given up the ask."""

    application_id: str
    key: str


@dataclass(frozen=True, slots=True)
class PendingReasonTold:
    """The daemon says why an ask waits."""

    application_id: str
    key: str
    waiting: Waiting


class BindResult(Enum):
    DONE = "done"
    GONE = "gone"
    """The pod does not exist any longer, or is being deleted."""
    ELSEWHERE = "elsewhere"
    """The pod is on another node."""
    FAILED = "failed"
    """Refused, or not performed in time."""
    UNKNOWN = "unknown"
    """Nobody knows whether it was performed."""


@dataclass(frozen=True, slots=True)
class BindEnded:
    uid: str
    node: str
    result: BindResult
    message: str = ""
    is_at: str = ""
    """With ELSEWHERE, the node of the pod."""


class VolumeResult(Enum):
    DONE = "done"
    CHANGED = "changed"
    """The volume or claim was changed by somebody else meanwhile, or is gone."""
    FAILED = "failed"
    """Refused, or not performed in time."""
    UNKNOWN = "unknown"
    """Nobody knows whether it was performed."""


@dataclass(frozen=True, slots=True)
class VolumeWritten:
    """How BindVolume or SelectNode has ended."""

    uid: str
    """Of the pod."""
    attempt: int
    written: WriteKey
    result: VolumeResult
    message: str = ""
    resource_version: str = ""
    """With DONE: of what was written."""


@dataclass(frozen=True, slots=True)
class DeleteEnded:
    uid: str
    is_done: bool
    message: str = ""


class CreateResult(Enum):
    DONE = "done"
    EXISTS = "exists"
    """A pod of that name is there."""
    REFUSED = "refused"
    FAILED = "failed"
    """Not performed in time, or nobody knows."""


@dataclass(frozen=True, slots=True)
class CreateEnded:
    application_id: str
    name: str
    result: CreateResult
    message: str = ""
    pod: Pod | None = None
    """With EXISTS, the pod that is there."""


Event: TypeAlias = (
    Put
    | Gone
    | GangSourceServed
    | Started
    | Tick
    | ReportBegun
    | Resynced
    | ApplicationAccepted
    | ApplicationRejected
    | ApplicationUpdated
    | NodeAccepted
    | NodeRejected
    | Allocated
    | AllocationReleased
    | ReleaseWanted
    | AskRejected
    | AskReleased
    | AskTimedOut
    | PendingReasonTold
    | BindEnded
    | VolumeWritten
    | DeleteEnded
    | CreateEnded
)
