"""What the cluster wants done: messages to the daemon, and writes to the API server.

Effects of one step are to be carried out in their order. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from schedulerd.kubernetes.metadata.application_ids import ApplicationId

Amounts = Mapping[str, int]
"""By resource name of the scheduler interface."""


# To the daemon.


class AddApplication(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    queue: str
    user: str
    groups: tuple[str, ...]
    tags: Mapping[str, str]
    placeholder_ask: Amounts | None = None
    """Of a gang: the sum of all placeholders."""
    gang_style: str = ""
    gang_timeout_s: int = 0
    """0: the daemon's default."""
    gang_began_s: int = 0
    """Wall time in seconds since the epoch at which the time of the gang began; 0: it begins later."""
    asked_at_ns: int = 0
    """Wall time from which its age counts; 0 is now."""


class RemoveApplication(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId


class Ask(msgspec.Struct, frozen=True, gc=False):
    """An ask, or a change of the ask with this key."""

    application_id: ApplicationId
    key: str
    resources: Amounts
    priority: int
    tags: Mapping[str, str]
    allow_preempt_self: bool
    allow_preempt_other: bool
    asked_at_ns: int = 0
    """Wall time from which its age counts; 0 is now."""
    task_group: str = ""
    is_placeholder: bool = False
    is_originator: bool = False


class ReleaseAsk(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    key: str


class ReleaseAllocation(msgspec.Struct, frozen=True, gc=False):
    """The pod of the allocation has ended, or will not run on its node."""

    application_id: ApplicationId
    key: str
    uuid: str
    message: str = ""


class ConfirmRelease(msgspec.Struct, frozen=True, gc=False):
    """The pod that the daemon wanted to end has ended."""

    uuid: str


class ExistingAllocation(msgspec.Struct, frozen=True, gc=False):
    """A pod that runs on a node already."""

    application_id: ApplicationId
    key: str
    uuid: str
    resources: Amounts
    priority: int
    tags: Mapping[str, str]
    task_group: str = ""
    is_placeholder: bool = False


class CreateNode(msgspec.Struct, frozen=True, gc=False):
    name: str
    resources: Amounts
    occupied: Amounts
    attributes: Mapping[str, str]
    existing: tuple[ExistingAllocation, ...] = ()


class UpdateNode(msgspec.Struct, frozen=True, gc=False):
    """None says that this has not changed."""

    name: str
    resources: Amounts | None = None
    occupied: Amounts | None = None
    attributes: Mapping[str, str] | None = None
    existing: tuple[ExistingAllocation, ...] = ()
    """Pods that run there and that the daemon does not know, or knows with another node or other amounts."""


class RemoveNode(msgspec.Struct, frozen=True, gc=False):
    name: str


# To the API server.


class PodName(msgspec.Struct, frozen=True, gc=False):
    """Which pod is meant."""

    namespace: str
    name: str
    uid: str


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Answered by the event BindEnded."""

    pod: PodName
    node: str
    annotations: dict[str, str] | None = None
    """Which the pod gets with its node, or not at all."""


class ClaimName(msgspec.Struct, frozen=True, gc=False):
    """Which claim is meant, in the version that is known."""

    namespace: str
    name: str
    uid: str
    resource_version: str


class BindVolume(msgspec.Struct, frozen=True, gc=False):
    """The volume is promised to the claim. Answered by the event VolumeWritten, for this pod and attempt."""

    pod: PodName
    attempt: int
    volume: str
    uid: str
    resource_version: str
    """The volume is left alone if it has another one by now."""
    claim: ClaimName
    was_promised: bool
    """Somebody had promised it to a claim of that name beforehand."""


class SelectNode(msgspec.Struct, frozen=True, gc=False):
    """A volume of the claim is to be made for the node. Answered as BindVolume is."""

    pod: PodName
    attempt: int
    claim: ClaimName
    """It is left alone if it has another version by now."""
    node: str


class DeletePod(msgspec.Struct, frozen=True, gc=False):
    """Answered by the event DeleteEnded."""

    pod: PodName


class CreatePod(msgspec.Struct, frozen=True, gc=False):
    """Answered by the event CreateEnded."""

    application_id: ApplicationId
    namespace: str
    name: str
    body: Mapping[str, Any]
    """In the notation of the API."""


class FailPod(msgspec.Struct, frozen=True, gc=False):
    """The pod has failed before it ran. Answered by the event FailEnded."""

    pod: PodName
    reason: str
    message: str


class PatchPodCondition(msgspec.Struct, frozen=True, gc=False):
    """The event ConditionLost says if it was not written."""

    pod: PodName
    type: str
    is_true: bool
    reason: str
    message: str
    is_transition: bool
    """The condition was not of this status before."""
    since_ns: int = 0
    """Of a transition, its wall time; 0 is now."""


class ObjectName(msgspec.Struct, frozen=True, gc=False):
    """What an event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


class PatchGroupCondition(msgspec.Struct, frozen=True, gc=False):
    """The condition `PodGroupScheduled` of a PodGroup of Kubernetes."""

    group: ObjectName
    is_true: bool
    reason: str
    message: str
    generation: int
    """Of the PodGroup, as it was read."""
    since_ns: int
    """Wall time of the transition."""


class RecordEvent(msgspec.Struct, frozen=True, gc=False):
    regarding: ObjectName
    reason: str
    action: str
    note: str
    is_warning: bool = False
    happens_once: bool = False
    """It will not be recorded again, and need not be remembered."""


# Of both.


class Recovery(msgspec.Struct, frozen=True, gc=False):
    """The whole report after a start: applications first, then nodes, then asks, each answered before the next."""

    applications: tuple[AddApplication, ...]
    nodes: tuple[CreateNode, ...]
    asks: tuple[Ask, ...]
    others: tuple[Effect, ...] = ()


Effect = (
    AddApplication
    | RemoveApplication
    | Ask
    | ReleaseAsk
    | ReleaseAllocation
    | ConfirmRelease
    | CreateNode
    | UpdateNode
    | RemoveNode
    | Bind
    | BindVolume
    | SelectNode
    | DeletePod
    | CreatePod
    | FailPod
    | PatchPodCondition
    | PatchGroupCondition
    | RecordEvent
    | Recovery
)
