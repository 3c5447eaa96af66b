"""Carries out the effects that are messages to the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Allocation, AllocationRelease, Client
from schedulerd.kubernetes.cluster.effects import (
    AddApplication,
    Ask,
    ConfirmRelease,
    CreateNode,
    Effect,
    ExistingAllocation,
    ReleaseAllocation,
    ReleaseAsk,
    RemoveApplication,
    RemoveNode,
    UpdateNode,
)
from schedulerd.kubernetes.shim.application_ids import to_daemon
from schedulerd.kubernetes.shim.gang_times import left_ms

ASKED_AT_TAG = "schedulerd.io/asked-at"
"""Wall time in nanoseconds from which the age of an ask or application counts; never in the future."""


class DaemonWriter:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.wanted: dict[str, AllocationRelease] = {}
        """By UUID: the releases that the daemon wants and that are not confirmed."""
        self.performers: dict[type[Effect], Callable[[Any], None]] = {
            Ask: self._ask,
            ReleaseAllocation: self._release,
            ConfirmRelease: self._confirm,
            ReleaseAsk: lambda effect: client.withdraw(to_daemon(effect.application_id), effect.key),
            UpdateNode: self._update_node,
            AddApplication: lambda effect: client.send(si_pb2.ApplicationRequest(new=[_application(effect)])),
            RemoveApplication: lambda effect: client.remove_application(to_daemon(effect.application_id)),
            CreateNode: lambda effect: client.send(si_pb2.NodeRequest(nodes=[_node(effect)])),
            RemoveNode: lambda effect: client.remove_node(effect.name),
        }

    def _release(self, effect: ReleaseAllocation) -> None:
        application_id = to_daemon(effect.application_id)
        released = Allocation(applicationID=application_id, allocationKey=effect.key, UUID=effect.uuid)
        self._client.release(released, effect.message)

    def _confirm(self, effect: ConfirmRelease) -> None:
        wanted = self.wanted.pop(effect.uuid, None)
        if wanted is not None:
            self._client.confirm(wanted)

    def _update_node(self, effect: UpdateNode) -> None:
        self._client.update_node(
            effect.name,
            resources=effect.resources,
            occupied=effect.occupied,
            attributes=effect.attributes,
            existing=[_existing(one, effect.name) for one in effect.existing],
        )

    def _ask(self, ask: Ask) -> None:
        self._client.ask(
            to_daemon(ask.application_id),
            ask.key,
            ask.resources,
            priority=ask.priority,
            tags=_with_age(ask.tags, ask.asked_at_ns),
            allow_preempt_self=ask.allow_preempt_self,
            allow_preempt_other=ask.allow_preempt_other,
            task_group=ask.task_group,
            placeholder=ask.is_placeholder,
            originator=ask.is_originator,
        )


def _with_age(tags: Mapping[str, str], asked_at_ns: int) -> Mapping[str, str]:
    """Not of a time that is to come, which the daemon rejects: the clock may have been set back, or have drifted away
    from that of the loop."""
    return {**tags, ASKED_AT_TAG: str(min(asked_at_ns, time.time_ns()))} if asked_at_ns > 0 else tags


def _application(effect: AddApplication) -> si_pb2.AddApplicationRequest:
    return si_pb2.AddApplicationRequest(
        applicationID=to_daemon(effect.application_id),
        queueName=effect.queue,
        ugi=si_pb2.UserGroupInformation(user=effect.user, groups=effect.groups),
        tags=_with_age(effect.tags, effect.asked_at_ns),
        executionTimeoutMilliSeconds=_gang_timeout_ms(effect),
        placeholderAsk=None if effect.placeholder_ask is None else _resource(effect.placeholder_ask),
        gangSchedulingStyle=effect.gang_style,
    )


def _gang_timeout_ms(effect: AddApplication) -> int:
    """What is left of the time of the gang; 0 is the daemon's default."""
    whole_s = effect.gang_timeout_s
    if not whole_s or not effect.gang_began_s:
        return whole_s * 1000
    return left_ms(whole_s, time.time() - effect.gang_began_s)


def _node(effect: CreateNode) -> si_pb2.NodeInfo:
    return si_pb2.NodeInfo(
        nodeID=effect.name,
        action=si_pb2.NodeInfo.CREATE,
        attributes=effect.attributes,
        schedulableResource=_resource(effect.resources),
        occupiedResource=_resource(effect.occupied),
        existingAllocations=[_existing(one, effect.name) for one in effect.existing],
    )


def _existing(one: ExistingAllocation, node: str) -> si_pb2.Allocation:
    return si_pb2.Allocation(
        applicationID=to_daemon(one.application_id),
        allocationKey=one.key,
        UUID=one.uuid,
        nodeID=node,
        resourcePerAlloc=_resource(one.resources),
        priority=one.priority,
        allocationTags=one.tags,
        taskGroupName=one.task_group,
        placeholder=one.is_placeholder,
    )


def _resource(amounts: Mapping[str, int]) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts.items()})
