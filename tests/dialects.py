"""The two dialects as a resource manager speaks and hears them: commands said in its messages, and its responses read.

This is the other side of `schedulerd.wire`, written from the specifications. What only one dialect can say is left out
of what the other says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from schedulerd._generated.si.v1 import si_pb2 as si_2023_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.language.commands import (
    AllocationAffinity,
    AllocationRelease,
    ApplicationRemoval,
    Command,
    ExistingAllocation,
    Expression,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    PlacementConstraint,
    ReportUtilization,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Fact
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.decode_2021 import UpdateDecoder
from schedulerd.wire.dialect import Dialect, Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at

WireCommand: TypeAlias = UpdateNodes | UpdateApplications | UpdateAllocations | ReportUtilization
PRIORITY_CLASSES = {"high": 1000, "low": -10}


class Heard(NamedTuple):
    """One item of a response, as both dialects say it."""

    what: str
    content: Mapping[str, Any]


class Speaker(ABC):
    """One dialect."""

    dialect: Dialect

    def through_the_wire(self, command: WireCommand) -> list[Command]:
        """What the scheduler is told when a resource manager says this."""
        return [heard for stream, payload in self.requests(command) for heard in self.decoded(stream, payload)]

    def told(self, facts: Sequence[Fact], rm_id: str) -> list[Heard]:
        """All that the resource manager hears of these facts: of each kind of item all, in order."""
        encoder = ResponseEncoder()
        encoder.set_dialect(rm_id, self.dialect)
        encoder.add(facts, at(0))
        payloads: dict[Stream, bytes] = {}
        for response in encoder.drain():
            if response.rm_id == rm_id:
                payloads[response.stream] = payloads.get(response.stream, b"") + response.payload
        return sorted(
            (heard for stream, payload in payloads.items() for heard in self.heard(stream, payload)),
            key=lambda heard: heard.what,
        )

    @abstractmethod
    def requests(self, command: WireCommand) -> Iterator[tuple[Stream, bytes]]:
        """The command as requests."""

    @abstractmethod
    def decoded(self, stream: Stream, payload: bytes) -> Iterator[Command]:
        """What the daemon makes of a request."""

    @abstractmethod
    def heard(self, stream: Stream, payload: bytes) -> Iterator[Heard]:
        """The items of a response."""


class Speaker2023(Speaker):
    dialect = Dialect.V2023_06

    def __init__(self) -> None:
        self._decoder = RequestDecoder()

    def requests(self, command: WireCommand) -> Iterator[tuple[Stream, bytes]]:
        rm_id = command.rm_id
        if isinstance(command, UpdateNodes):
            nodes = [_node_2023(rm_id, node) for node in command.nodes]
            yield Stream.NODE, si_2023_pb2.NodeRequest(rmID=rm_id, nodes=nodes).SerializeToString()
        elif isinstance(command, UpdateApplications):
            applications = si_2023_pb2.ApplicationRequest(rmID=rm_id)
            applications.new.extend(
                _application(si_2023_pb2, rm_id, one, gangSchedulingStyle=one.gang_style) for one in command.new
            )
            applications.remove.extend(_removal(si_2023_pb2, rm_id, one) for one in command.remove)
            yield Stream.APPLICATION, applications.SerializeToString()
        elif isinstance(command, UpdateAllocations):
            allocations = si_2023_pb2.AllocationRequest(rmID=rm_id)
            allocations.asks.extend(_ask_2023(rm_id, one) for one in command.asks)
            releases = allocations.releases
            releases.allocationsToRelease.extend(
                _release(
                    si_2023_pb2, rm_id, one, allocationKey=one.allocation_key, terminationType=int(one.termination)
                )
                for one in command.releases
            )
            releases.allocationAsksToRelease.extend(
                si_2023_pb2.AllocationAskRelease(
                    partitionName=f"[{rm_id}]{one.partition}",
                    applicationID=one.application_id,
                    allocationKey=one.allocation_key,
                    terminationType=int(one.termination),  # type: ignore[arg-type]
                    message=one.message,
                )
                for one in command.ask_releases
            )
            yield Stream.ALLOCATION, allocations.SerializeToString()

    def decoded(self, stream: Stream, payload: bytes) -> Iterator[Command]:
        if stream is Stream.NODE:
            yield from self._decoder.nodes(si_2023_pb2.NodeRequest.FromString(payload))
        elif stream is Stream.APPLICATION:
            yield from self._decoder.applications(si_2023_pb2.ApplicationRequest.FromString(payload))
        else:
            yield from self._decoder.allocations(si_2023_pb2.AllocationRequest.FromString(payload))

    def heard(self, stream: Stream, payload: bytes) -> Iterator[Heard]:
        if stream is Stream.NODE:
            nodes = si_2023_pb2.NodeResponse.FromString(payload)
            yield from _plain("accepted node", nodes.accepted)
            yield from _plain("rejected node", nodes.rejected)
        elif stream is Stream.APPLICATION:
            applications = si_2023_pb2.ApplicationResponse.FromString(payload)
            yield from _plain("accepted application", applications.accepted)
            yield from _plain("rejected application", applications.rejected)
            yield from _plain("updated application", applications.updated)
        else:
            allocations = si_2023_pb2.AllocationResponse.FromString(payload)
            yield from _allocations(allocations.new, lambda item: item.priority)
            kinds = si_2023_pb2.TerminationType
            yield from _releases(allocations.released, kinds)
            yield from _ask_releases(allocations.releasedAsks, lambda item: item.allocationKey)
            yield from _plain("rejected ask", allocations.rejected)


class Speaker2021(Speaker):
    """Its decoder has no style for gangs: the other dialect says none where the two are compared."""

    dialect = Dialect.V2021_02

    def __init__(self) -> None:
        self._decoder = UpdateDecoder(RequestDecoder().shared, PRIORITY_CLASSES, gang_style="")

    def requests(self, command: WireCommand) -> Iterator[tuple[Stream, bytes]]:
        rm_id = command.rm_id
        request = si_2021_pb2.UpdateRequest(rmID=rm_id)
        if isinstance(command, UpdateNodes):
            for node in command.nodes:
                if node.action is NodeAction.CREATE:
                    request.newSchedulableNodes.append(_new_node_2021(rm_id, node))
                else:
                    request.updatedNodes.append(_changed_node_2021(rm_id, node))
        elif isinstance(command, UpdateApplications):
            request.newApplications.extend(_application(si_2021_pb2, rm_id, one) for one in command.new)
            request.removeApplications.extend(_removal(si_2021_pb2, rm_id, one) for one in command.remove)
        elif isinstance(command, UpdateAllocations):
            request.asks.extend(_ask_2021(rm_id, one) for one in command.asks)
            request.releases.allocationsToRelease.extend(
                _release(si_2021_pb2, rm_id, one, terminationType=int(one.termination) - 1) for one in command.releases
            )
            request.releases.allocationAsksToRelease.extend(
                si_2021_pb2.AllocationAskRelease(
                    partitionName=f"[{rm_id}]{one.partition}",
                    applicationID=one.application_id,
                    allocationkey=one.allocation_key,
                    message=one.message,
                )
                for one in command.ask_releases
            )
        else:
            request.utilizationReports.extend(
                si_2021_pb2.UtilizationReport(ID=one.object_id, actualUsedResource=_resource(si_2021_pb2, one.used))
                for one in command.reports
            )
        yield Stream.UPDATE, request.SerializeToString()

    def decoded(self, stream: Stream, payload: bytes) -> Iterator[Command]:
        assert stream is Stream.UPDATE
        return self._decoder.commands(si_2021_pb2.UpdateRequest.FromString(payload))

    def heard(self, stream: Stream, payload: bytes) -> Iterator[Heard]:
        assert stream is Stream.UPDATE
        update = si_2021_pb2.UpdateResponse.FromString(payload)
        assert update.action == si_2021_pb2.UpdateResponse.NOACTION
        yield from _allocations(update.newAllocations, lambda item: item.priority.priorityValue)
        yield from _releases(update.releasedAllocations, si_2021_pb2.AllocationRelease.TerminationType)
        yield from _ask_releases(update.releasedAllocationAsks, lambda item: item.allocationkey)
        yield from _plain("rejected ask", update.rejectedAllocations)
        yield from _plain("accepted application", update.acceptedApplications)
        yield from _plain("rejected application", update.rejectedApplications)
        yield from _plain("updated application", update.updatedApplications)
        yield from _plain("accepted node", update.acceptedNodes)
        yield from _plain("rejected node", update.rejectedNodes)


def _resource(si: Any, resources: Mapping[str, int]) -> Any:
    return si.Resource(resources={name: si.Quantity(value=amount) for name, amount in resources.items()})


def _application(si: Any, rm_id: str, new: NewApplication, **fields: Any) -> Any:
    return si.AddApplicationRequest(
        applicationID=new.application_id,
        queueName=new.queue,
        partitionName=f"[{rm_id}]{new.partition}",
        ugi=si.UserGroupInformation(user=new.user, groups=new.groups),
        tags=dict(new.tags),
        executionTimeoutMilliSeconds=new.execution_timeout_ms,
        placeholderAsk=_resource(si, new.placeholder_ask),
        **fields,
    )


def _removal(si: Any, rm_id: str, removal: ApplicationRemoval) -> Any:
    return si.RemoveApplicationRequest(
        applicationID=removal.application_id, partitionName=f"[{rm_id}]{removal.partition}"
    )


def _release(si: Any, rm_id: str, release: AllocationRelease, **fields: Any) -> Any:
    return si.AllocationRelease(
        partitionName=f"[{rm_id}]{release.partition}",
        applicationID=release.application_id,
        UUID=release.uuid,
        message=release.message,
        **fields,
    )


def _ask(si: Any, rm_id: str, ask: NewAsk, **fields: Any) -> Any:
    return si.AllocationAsk(
        allocationKey=ask.allocation_key,
        applicationID=ask.application_id,
        partitionName=f"[{rm_id}]{ask.partition}",
        resourceAsk=_resource(si, ask.resources),
        maxAllocations=ask.max_allocations,
        executionTimeoutMilliSeconds=ask.execution_timeout_ms,
        tags=dict(ask.tags),
        taskGroupName=ask.task_group,
        placeholder=ask.placeholder,
        **fields,
    )


def _ask_2023(rm_id: str, ask: NewAsk) -> Any:
    policy = si_2023_pb2.PreemptionPolicy(
        allowPreemptSelf=ask.allow_preempt_self, allowPreemptOther=ask.allow_preempt_other
    )
    return _ask(si_2023_pb2, rm_id, ask, priority=ask.priority, Originator=ask.originator, preemptionPolicy=policy)


def _ask_2021(rm_id: str, ask: NewAsk) -> Any:
    message = _ask(si_2021_pb2, rm_id, ask, priority=_priority_2021(ask.priority))
    if ask.constraint is not None:
        message.placementConstraint.CopyFrom(_constraint_2021(ask.constraint))
    return message


def _priority_2021(priority: int) -> si_2021_pb2.Priority:
    """By name where there is one."""
    for name, value in PRIORITY_CLASSES.items():
        if value == priority:
            return si_2021_pb2.Priority(priorityClassName=name)
    return si_2021_pb2.Priority(priorityValue=priority)


def _constraint_2021(constraint: PlacementConstraint) -> si_2021_pb2.PlacementConstraint:
    simple = si_2021_pb2.SimplePlacementConstraint()
    if constraint.node:
        simple.nodeAffinityConstraint.targetExpressions.extend(map(_expression_2021, constraint.node))
    if constraint.allocations is not None:
        simple.allocationAffinityAttribute.CopyFrom(_affinity_2021(constraint.allocations))
    return si_2021_pb2.PlacementConstraint(simpleConstraint=simple)


def _affinity_2021(affinity: AllocationAffinity) -> si_2021_pb2.AllocationAffinityConstraints:
    return si_2021_pb2.AllocationAffinityConstraints(
        scope=affinity.scope,
        tragetExpressions=map(_expression_2021, affinity.expressions),
        minCardinality=affinity.min_cardinality,
        maxCardinality=affinity.max_cardinality,
        required=affinity.required,
    )


def _expression_2021(expression: Expression) -> si_2021_pb2.AffinityTargetExpression:
    return si_2021_pb2.AffinityTargetExpression(
        targetOperator=si_2021_pb2.AffinityTargetExpression.AffinityTargetOperator.Value(expression.operator.value),
        targetKey=expression.key,
        targetValues=expression.values,
    )


def _node(si: Any, node_type: Any, rm_id: str, node: NodeUpdate, **fields: Any) -> Any:
    message = node_type(nodeID=node.node_id, attributes=dict(node.attributes), **fields)
    if node.partition:
        message.attributes["si/node-partition"] = f"[{rm_id}]{node.partition}"
    if node.capacity is not None:
        message.schedulableResource.CopyFrom(_resource(si, node.capacity))
    if node.occupied is not None:
        message.occupiedResource.CopyFrom(_resource(si, node.occupied))
    return message


def _node_2023(rm_id: str, node: NodeUpdate) -> Any:
    existing = [_existing(si_2023_pb2, rm_id, one, priority=one.priority) for one in node.existing]
    action = node.action_number or int(node.action)
    return _node(si_2023_pb2, si_2023_pb2.NodeInfo, rm_id, node, action=action, existingAllocations=existing)


def _new_node_2021(rm_id: str, node: NodeUpdate) -> Any:
    existing = [
        _existing(si_2021_pb2, rm_id, one, priority=_priority_2021(one.priority), queueName=one.queue)
        for one in node.existing
    ]
    return _node(si_2021_pb2, si_2021_pb2.NewNodeInfo, rm_id, node, existingAllocations=existing)


def _changed_node_2021(rm_id: str, node: NodeUpdate) -> Any:
    known = node.action is not NodeAction.UNKNOWN
    action = si_2021_pb2.UpdateNodeInfo.ActionFromRM.Value(node.action.name) if known else node.action_number
    return _node(si_2021_pb2, si_2021_pb2.UpdateNodeInfo, rm_id, node, action=action)


def _existing(si: Any, rm_id: str, existing: ExistingAllocation, **fields: Any) -> Any:
    return si.Allocation(
        allocationKey=existing.allocation_key,
        allocationTags=dict(existing.tags),
        UUID=existing.uuid,
        resourcePerAlloc=_resource(si, existing.resources),
        nodeID=existing.node_id,
        applicationID=existing.application_id,
        partitionName=f"[{rm_id}]{existing.partition}",
        taskGroupName=existing.task_group,
        placeholder=existing.placeholder,
        **fields,
    )


def _plain(what: str, items: Any) -> Iterator[Heard]:
    """Items that have the same fields in both dialects."""
    for item in items:
        yield Heard(what, {field.name: value for field, value in item.ListFields()})


def _allocations(items: Any, priority_of: Callable[[Any], int]) -> Iterator[Heard]:
    for item in items:
        amounts = {name: quantity.value for name, quantity in item.resourcePerAlloc.resources.items()}
        said = (item.allocationKey, item.UUID, item.nodeID, item.applicationID, item.partitionName)
        gang = item.taskGroupName, item.placeholder
        yield Heard(
            "allocation",
            {"said": said, "gang": gang, "of": amounts, "at": priority_of(item), "tags": dict(item.allocationTags)},
        )


def _releases(items: Any, kinds: Any) -> Iterator[Heard]:
    for item in items:
        named = item.partitionName, item.applicationID, item.UUID
        yield Heard("release", {"of": named, "why": kinds.Name(item.terminationType), "message": item.message})


def _ask_releases(items: Any, key_of: Callable[[Any], str]) -> Iterator[Heard]:
    for item in items:
        named = item.partitionName, item.applicationID, key_of(item)
        yield Heard("ask release", {"of": named, "message": item.message})
