"""What the cluster wants done: messages to the daemon, and writes to the API server.

Effects of one step are to be carried out in their order. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Amounts = Mapping[str, int]
"""By resource name of the scheduler interface."""


# To the daemon.


@dataclass(frozen=True, slots=True)
class AddApplication:
    application_id: str
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


@dataclass(frozen=True, slots=True)
class RemoveApplication:
    application_id: str


@dataclass(frozen=True, slots=True)
class Ask:
    """An ask, or a change of the ask with this key."""

    application_id: str
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


@dataclass(frozen=True, slots=True)
class ReleaseAsk:
    application_id: str
    key: str


@dataclass(frozen=True, slots=True)
class ReleaseAllocation:
    """The pod of the allocation has ended, or will not run on its node."""

    application_id: str
    key: str
    uuid: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ConfirmRelease:
    """The pod that the daemon wanted to end has ended."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ExistingAllocation:
    """A pod that runs on a node already."""

    application_id: str
    key: str
    uuid: str
    resources: Amounts
    priority: int
    tags: Mapping[str, str]
    task_group: str = ""
    is_placeholder: bool = False


@dataclass(frozen=True, slots=True)
class CreateNode:
    name: str
    resources: Amounts
    occupied: Amounts
    attributes: Mapping[str, str]
    existing: tuple[ExistingAllocation, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """None says that this has not changed."""

    name: str
    resources: Amounts | None = None
    occupied: Amounts | None = None
    attributes: Mapping[str, str] | None = None
    existing: tuple[ExistingAllocation, ...] = ()
    """Pods that run there and that the daemon does not know, or knows with another node or other amounts."""


@dataclass(frozen=True, slots=True)
class RemoveNode:
    name: str


# To the API server.


@dataclass(frozen=True, slots=True)
class PodName:
    """Which pod is meant."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Answered by the event BindEnded."""

    pod: PodName
    node: str


@dataclass(frozen=True, slots=True)
class ClaimName:
    """Which claim is meant, in the version that is known."""

    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class BindVolume:
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


@dataclass(frozen=True, slots=True)
class SelectNode:
    """A volume of the claim is to be made for the node. Answered as BindVolume is."""

    pod: PodName
    attempt: int
    claim: ClaimName
    """It is left alone if it has another version by now."""
    node: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Answered by the event DeleteEnded."""

    pod: PodName


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Answered by the event CreateEnded."""

    application_id: str
    namespace: str
    name: str
    body: Mapping[str, Any]
    """In the notation of the API."""


@dataclass(frozen=True, slots=True)
class FailPod:
    """The pod has failed before it ran."""

    pod: PodName
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PatchPodCondition:
    pod: PodName
    type: str
    is_true: bool
    reason: str
    message: str
    is_transition: bool
    """The condition was not of this status before."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """What an event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class RecordEvent:
    regarding: ObjectName
    reason: str
    action: str
    note: str
    is_warning: bool = False


# Of both.


@dataclass(frozen=True, slots=True)
class Recovery:
    """The whole report after a start: applications first, then nodes, then asks, each answered before the next."""

    applications: tuple[AddApplication, ...]
    nodes: tuple[CreateNode, ...]
    asks: tuple[Ask, ...]
    others: tuple[Effect, ...] = field(default=())


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
    | RecordEvent
    | Recovery
)
