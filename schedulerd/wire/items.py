"""Items of requests that both dialects have, under the same names."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.language.commands import NO_TAGS, ApplicationRemoval, ExistingAllocation, NewApplication
from schedulerd.wire.ask_ages import AskAges
from schedulerd.wire.names import partition_from_wire
from schedulerd.wire.shared_resources import SharedResources

NODE_PARTITION_ATTRIBUTE = "si/node-partition"


def node_partition(rm_id: str, attributes: Mapping[str, str]) -> str:
    """The partition of a node, which SI carries in an attribute; '' for the default one."""
    return partition_from_wire(rm_id, attributes.get(NODE_PARTITION_ATTRIBUTE, ""))


def new_application(
    rm_id: str,
    message: si_pb2.AddApplicationRequest | si_2021_pb2.AddApplicationRequest,
    shared: SharedResources,
    ages: AskAges,
    gang_style: str = "",
) -> NewApplication:
    """`gang_style` is a field of 2023-06 only; for 2021-02 a setting gives it."""
    age = ages.asked_at(message.tags)
    return NewApplication(
        application_id=message.applicationID,
        queue=message.queueName,
        partition=partition_from_wire(rm_id, message.partitionName),
        user=message.ugi.user,
        groups=tuple(message.ugi.groups),
        tags=dict(message.tags),
        execution_timeout_ms=message.executionTimeoutMilliSeconds,
        placeholder_ask=shared.of(message.placeholderAsk),
        gang_style=gang_style,
        asked_at_ns=age.monotonic_ns,
        unreadable=age.unreadable,
    )


def application_removal(
    rm_id: str, message: si_pb2.RemoveApplicationRequest | si_2021_pb2.RemoveApplicationRequest
) -> ApplicationRemoval:
    return ApplicationRemoval(message.applicationID, partition_from_wire(rm_id, message.partitionName))


def existing_allocation(
    rm_id: str,
    message: si_pb2.Allocation | si_2021_pb2.Allocation,
    shared: SharedResources,
    *,
    priority: int,
    queue: str = "",
    unreadable: str = "",
) -> ExistingAllocation:
    """What an allocation says alike in both dialects, with the rest as it was read by the caller."""
    return ExistingAllocation(
        application_id=message.applicationID,
        allocation_key=message.allocationKey,
        uuid=message.UUID,
        resources=shared.of(message.resourcePerAlloc),
        node_id=message.nodeID,
        partition=partition_from_wire(rm_id, message.partitionName),
        priority=priority,
        task_group=message.taskGroupName,
        placeholder=message.placeholder,
        tags=dict(message.allocationTags) or NO_TAGS,
        queue=queue,
        unreadable=unreadable,
    )
