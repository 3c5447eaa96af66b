"""A client for resource managers written in Python: subclass `ResourceManager`, connect it with a `Client`.

It speaks the scheduler interface of 2023-06 and the callback stream, knows nothing of schedulerd but its messages, and
is what `schedulerd simulate` is made of.
"""

from schedulerd._generated.schedulerd.v1.callback_pb2 import (
    ApplicationNotice,
    Hold,
    PendingReason,
    PredicatesCall,
    PreemptionPredicatesCall,
    Unhold,
)
from schedulerd._generated.si.v1.si_pb2 import (
    Allocation,
    AllocationAskRelease,
    AllocationRelease,
    EventRecord,
    RejectedAllocationAsk,
    RejectedApplication,
    RejectedNode,
    TerminationType,
    UpdateContainerSchedulingStateRequest,
    UpdatedApplication,
)
from schedulerd.client.client import Client
from schedulerd.client.errors import (
    ApplicationRejected,
    NodeRejected,
    RegistrationRejected,
    ResyncRequired,
    SchedulerError,
    SchedulerUnreachable,
    SendQueueFull,
    StreamRefused,
    Superseded,
)
from schedulerd.client.resource_manager import ResourceManager

__all__ = [
    "Allocation",
    "AllocationAskRelease",
    "AllocationRelease",
    "ApplicationNotice",
    "ApplicationRejected",
    "Client",
    "EventRecord",
    "Hold",
    "NodeRejected",
    "PendingReason",
    "PredicatesCall",
    "PreemptionPredicatesCall",
    "RegistrationRejected",
    "RejectedAllocationAsk",
    "RejectedApplication",
    "RejectedNode",
    "ResourceManager",
    "ResyncRequired",
    "SchedulerError",
    "SchedulerUnreachable",
    "SendQueueFull",
    "StreamRefused",
    "Superseded",
    "TerminationType",
    "Unhold",
    "UpdateContainerSchedulingStateRequest",
    "UpdatedApplication",
]
