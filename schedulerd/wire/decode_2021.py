"""UpdateRequest of 2021-02 -> the same commands that the three streams of 2023-06 give, in an order of ours.

One message may say everything at once, and its parts have no order of their own. They are handled so that whatever one
part may refer to is there by then, and what ends comes last:

1. new applications; 2. new nodes, whose existing allocations refer to applications; 3. changes of nodes, also of those
that are new; 4. asks; 5. releases of allocations; 6. releases of asks; 7. removed applications; 8. utilization.

As in the other dialect nothing is judged here. What no command can say (a priority class that is not configured, an
unknown operator) goes along as `unreadable`, for the core to reject the ask by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.language.commands import (
    NO_TAGS,
    AllocationRelease,
    AskRelease,
    Command,
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    PlacementConstraint,
    ReportUtilization,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    Utilization,
)
from schedulerd.wire.ask_ages import AskAges
from schedulerd.wire.constraints import Unreadable, placement_constraint, priority
from schedulerd.wire.decode import APPLICATIONS_BYTES_MAX, node_updates, slices
from schedulerd.wire.items import application_removal, existing_allocation, new_application, node_partition
from schedulerd.wire.names import partition_from_wire
from schedulerd.wire.shared_resources import SharedResources

CONSTRAINTS_MAX = 1024
"""Distinct constraints remembered; equal ones become one object, which is what makes asks with them alike cheaply."""
CONSTRAINT_BYTES_MAX = 1024
"""Longer ones are not remembered, so that what is remembered stays within a few megabytes."""

_ACTIONS: Mapping[int, NodeAction] = {
    number: NodeAction[name] for name, number in si_pb2.UpdateNodeInfo.ActionFromRM.items()
}
_TERMINATIONS: Mapping[int, TerminationType] = {
    number: TerminationType[name] for name, number in si_pb2.AllocationRelease.TerminationType.items()
}


class UpdateDecoder:
    """Makes commands of the requests of any resource manager of this dialect."""

    def __init__(
        self,
        shared: SharedResources,
        priority_classes: Mapping[str, int],
        gang_style: str = "Hard",
        ages: AskAges | None = None,
    ) -> None:
        """`priority_classes` are the numbers of the names that asks may give instead; `gang_style` is the style of all
        gangs, as this dialect has no field for it (SEMANTICS I3)."""
        self._gang_style = gang_style
        self._shared = shared
        self._ages = ages or AskAges()
        self._priority_classes = priority_classes
        self._constraints: dict[bytes, PlacementConstraint | None] = {}

    def commands(self, request: si_pb2.UpdateRequest, size_bytes: int = 0) -> Iterator[Command]:
        """Everything the request says, in the order above, each list in its own order.

        `size_bytes` is the size of the request on the wire, if it may be large.
        """
        rm_id = request.rmID
        for (piece,) in slices(size_bytes, request.newApplications, piece_bytes_max=APPLICATIONS_BYTES_MAX):
            items = request.newApplications[piece]
            yield UpdateApplications(rm_id, new=[self._application(rm_id, item) for item in items])
        created = (self._new_node(rm_id, node) for node in request.newSchedulableNodes)
        changed = (self._changed_node(rm_id, node) for node in request.updatedNodes)
        yield from node_updates(rm_id, chain(created, changed))
        yield from self._allocations(rm_id, request, size_bytes)
        for (piece,) in slices(size_bytes, request.removeApplications):
            removals = request.removeApplications[piece]
            yield UpdateApplications(rm_id, remove=[application_removal(rm_id, item) for item in removals])
        for (piece,) in slices(size_bytes, request.utilizationReports):
            reports = request.utilizationReports[piece]
            yield ReportUtilization(
                rm_id, [Utilization(item.ID, self._shared.of(item.actualUsedResource)) for item in reports]
            )

    def _application(self, rm_id: str, item: si_pb2.AddApplicationRequest) -> NewApplication:
        return new_application(rm_id, item, self._shared, self._ages, self._gang_style)

    def _allocations(self, rm_id: str, request: si_pb2.UpdateRequest, size_bytes: int) -> Iterator[UpdateAllocations]:
        asks = request.asks
        releases, ask_releases = request.releases.allocationsToRelease, request.releases.allocationAsksToRelease
        for pieces in slices(size_bytes, asks, releases, ask_releases):
            yield UpdateAllocations(
                rm_id,
                asks=[self._ask(rm_id, item) for item in asks[pieces[0]]],
                releases=[_release(rm_id, item) for item in releases[pieces[1]]],
                ask_releases=[_ask_release(rm_id, item) for item in ask_releases[pieces[2]]],
            )

    def _ask(self, rm_id: str, message: si_pb2.AllocationAsk) -> NewAsk:
        wanted, constraint, unreadable = 0, None, ""
        try:
            if message.HasField("priority"):
                wanted = priority(message.priority, self._priority_classes)
            if message.HasField("placementConstraint"):
                constraint = self._constraint(message.placementConstraint)
        except Unreadable as problem:
            unreadable = str(problem)
        tags = dict(message.tags) or NO_TAGS
        age = self._ages.asked_at(tags)
        return NewAsk(
            message.applicationID,
            message.allocationKey,
            self._shared.of(message.resourceAsk),
            partition_from_wire(rm_id, message.partitionName),
            message.maxAllocations,
            wanted,
            message.executionTimeoutMilliSeconds,
            tags,
            message.taskGroupName,
            message.placeholder,
            constraint=constraint,
            asked_at_ns=age.monotonic_ns,
            unreadable=unreadable or age.unreadable,
        )

    def _constraint(self, message: si_pb2.PlacementConstraint) -> PlacementConstraint | None:
        raw = message.SerializeToString()
        if len(raw) > CONSTRAINT_BYTES_MAX:
            return placement_constraint(message)
        if raw not in self._constraints:
            if len(self._constraints) >= CONSTRAINTS_MAX:
                self._constraints.clear()
            self._constraints[raw] = placement_constraint(message)
        return self._constraints[raw]

    def _new_node(self, rm_id: str, message: si_pb2.NewNodeInfo) -> NodeUpdate:
        existing = [self._existing(rm_id, item) for item in message.existingAllocations]
        return self._node(rm_id, message, NodeAction.CREATE, NodeAction.CREATE.value, existing)

    def _changed_node(self, rm_id: str, message: si_pb2.UpdateNodeInfo) -> NodeUpdate:
        action = _ACTIONS.get(message.action, NodeAction.UNKNOWN)
        return self._node(rm_id, message, action, message.action, [])

    def _node(
        self,
        rm_id: str,
        message: si_pb2.NewNodeInfo | si_pb2.UpdateNodeInfo,
        action: NodeAction,
        action_number: int,
        existing: list[ExistingAllocation],
    ) -> NodeUpdate:
        return NodeUpdate(
            node_id=message.nodeID,
            action=action,
            action_number=action_number,
            partition=node_partition(rm_id, message.attributes),
            capacity=self._shared.of(message.schedulableResource) if message.HasField("schedulableResource") else None,
            occupied=self._shared.of(message.occupiedResource) if message.HasField("occupiedResource") else None,
            attributes=dict(message.attributes),
            existing=existing,
        )

    def _existing(self, rm_id: str, message: si_pb2.Allocation) -> ExistingAllocation:
        wanted, unreadable = 0, ""
        try:
            wanted = priority(message.priority, self._priority_classes)
        except Unreadable as problem:
            unreadable = str(problem)
        return existing_allocation(
            rm_id, message, self._shared, priority=wanted, queue=message.queueName, unreadable=unreadable
        )


def _release(rm_id: str, message: si_pb2.AllocationRelease) -> AllocationRelease:
    return AllocationRelease(
        application_id=message.applicationID,
        partition=partition_from_wire(rm_id, message.partitionName),
        uuid=message.UUID,
        termination=_TERMINATIONS.get(message.terminationType, TerminationType.UNKNOWN_TERMINATION_TYPE),
        message=message.message,
    )


def _ask_release(rm_id: str, message: si_pb2.AllocationAskRelease) -> AskRelease:
    return AskRelease(
        application_id=message.applicationID,
        partition=partition_from_wire(rm_id, message.partitionName),
        allocation_key=message.allocationkey,
        message=message.message,
    )
