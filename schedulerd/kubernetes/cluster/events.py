"""What the cluster is told: changes of Kubernetes objects, answers of the daemon, ends of writes, the time."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import msgspec

from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.objects.cluster import DaemonSet, Namespace, PodDisruptionBudget, PriorityClass
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
    | DaemonSet
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


class Put(msgspec.Struct, frozen=True, gc=False):
    """An object is new, or has changed."""

    object: KubernetesObject | Any


class Gone(msgspec.Struct, frozen=True, gc=False):
    """An object is deleted, or no longer selected by its watch: a pod that has ended."""

    object: KubernetesObject | Any


class GangSourceServed(msgspec.Struct, frozen=True, gc=False):
    """The API server has objects of this kind, by which pods become gangs; told before the objects."""

    source: GangSource


class DaemonSetsListed(msgspec.Struct, frozen=True, gc=False):
    """All DaemonSets are told, or the API server does not let this process watch them."""

    is_allowed: bool


class Started(msgspec.Struct, frozen=True, gc=False):
    """All objects that were there at the start are put, and the daemon is to be told."""

    epoch_ns: int
    """Wall time at which the clock of the cluster was 0."""


class Tick(msgspec.Struct, frozen=True, gc=False):
    """Time has passed: `Cluster.next_due_ns` was reached."""


class ReportBegun(msgspec.Struct, frozen=True, gc=False):
    """The daemon has lost its state, and these are being reported to it again: all answers from now on are to that."""

    applications: tuple[ApplicationId, ...]
    nodes: tuple[str, ...]


class Resynced(msgspec.Struct, frozen=True, gc=False):
    """The daemon had lost its state, and everything was reported to it again."""


class ApplicationAccepted(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId


class ApplicationRejected(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    reason: str


class ApplicationUpdated(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    state: str
    message: str


class QueueNameUnused(msgspec.Struct, frozen=True, gc=False):
    """The daemon has accepted the application into another queue than the one that it names."""

    application_id: ApplicationId
    queue: str
    message: str


class NodeAccepted(msgspec.Struct, frozen=True, gc=False):
    name: str


class NodeRejected(msgspec.Struct, frozen=True, gc=False):
    """The daemon takes neither the node, nor anything of the update of it."""

    name: str
    reason: str
    key: str = ""
    """Of the existing allocation that is to blame; empty if none is."""


class Allocated(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    key: str
    uuid: str
    node: str


class AllocationReleased(msgspec.Struct, frozen=True, gc=False):
    """An allocation is gone: confirmation of a release, or its node was removed."""

    application_id: ApplicationId
    key: str
    uuid: str


class Cause(Enum):
    """Why the daemon wants a pod to end."""

    PREEMPTED = "preempted"
    TIMEOUT = "timeout"
    REPLACED = "replaced"


class ReleaseWanted(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    key: str
    uuid: str
    cause: Cause
    message: str


class AskRejected(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    key: str
    reason: str


class AskReleased(msgspec.Struct, frozen=True, gc=False):
    """The daemon confirms that an ask is gone: it was withdrawn, or its application removed."""

    application_id: ApplicationId
    key: str


class AskTimedOut(msgspec.Struct, frozen=True, gc=False):
    """The daemon has given up the ask."""

    application_id: ApplicationId
    key: str


class PendingReasonTold(msgspec.Struct, frozen=True, gc=False):
    """The daemon says why an ask waits."""

    application_id: ApplicationId
    key: str
    waiting: Waiting


class RoomHeld(msgspec.Struct, frozen=True, gc=False):
    """The daemon holds room for a member of a gang without placeholder pods."""

    hold_id: str
    application_id: ApplicationId
    key: str
    """Of the member; empty: for any member of the task group."""
    task_group: str
    node: str


class RoomFreed(msgspec.Struct, frozen=True, gc=False):
    hold_id: str
    taken_by: str = ""
    """The key of the member that has the room now."""


class HoldsVoid(msgspec.Struct, frozen=True, gc=False):
    """The daemon tells anew what it holds."""


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


class BindEnded(msgspec.Struct, frozen=True, gc=False):
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


class VolumeWritten(msgspec.Struct, frozen=True, gc=False):
    """How BindVolume or SelectNode has ended."""

    uid: str
    """Of the pod."""
    attempt: int
    written: WriteKey
    result: VolumeResult
    message: str = ""
    resource_version: str = ""
    """With DONE: of what was written."""


class DeleteEnded(msgspec.Struct, frozen=True, gc=False):
    uid: str
    is_done: bool
    message: str = ""


class FailEnded(msgspec.Struct, frozen=True, gc=False):
    uid: str
    is_done: bool
    message: str = ""


class ConditionLost(msgspec.Struct, frozen=True, gc=False):
    """The condition of a pod was not written, as far as is known: refused, not performed in time, or withdrawn."""

    uid: str
    type: str
    reason: str
    message: str


class CreateResult(Enum):
    DONE = "done"
    EXISTS = "exists"
    """A pod of that name is there."""
    REFUSED = "refused"
    FAILED = "failed"
    """Not performed in time, or nobody knows."""


class CreateEnded(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    name: str
    result: CreateResult
    message: str = ""
    pod: Pod | None = None
    """With EXISTS, the pod that is there."""


Event: TypeAlias = (
    Put
    | Gone
    | GangSourceServed
    | DaemonSetsListed
    | Started
    | Tick
    | ReportBegun
    | Resynced
    | ApplicationAccepted
    | ApplicationRejected
    | ApplicationUpdated
    | QueueNameUnused
    | NodeAccepted
    | NodeRejected
    | Allocated
    | AllocationReleased
    | ReleaseWanted
    | AskRejected
    | AskReleased
    | AskTimedOut
    | PendingReasonTold
    | RoomHeld
    | RoomFreed
    | HoldsVoid
    | BindEnded
    | VolumeWritten
    | DeleteEnded
    | FailEnded
    | ConditionLost
    | CreateEnded
)
