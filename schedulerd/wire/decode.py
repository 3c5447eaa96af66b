"""Scheduler-interface requests -> commands: decoded, cut into pieces, and not judged.

Nothing here refuses content. A negative amount, an empty id or an unknown enum number reaches the core as it is (an
unknown number as UNKNOWN), because the core is what rejects an item with a reason while the rest of its message goes on
(SEMANTICS C4). This is the dialect of 2023-06; `decode_2021` is the other one, and makes the same commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.commands import (
    NO_TAGS,
    AllocationRelease,
    AskRelease,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.specs import ConfigurationText, PartitionSpec
from schedulerd.wire.items import application_removal, existing_allocation, new_application, node_partition
from schedulerd.wire.names import partition_from_wire
from schedulerd.wire.pieces import APPLICATIONS_BYTES_MAX, ask_release_batches, node_updates, slices
from schedulerd.wire.shared_resources import SharedResources

_ACTIONS: Mapping[int, NodeAction] = {int(action): action for action in NodeAction}
_TERMINATIONS: Mapping[int, TerminationType] = {int(kind): kind for kind in TerminationType}


class RequestDecoder:
    """Makes commands of the requests of any resource manager. Keeps nothing but the shared `Resources`.

    `size_bytes` is the size of a request on the wire, if it may be large.
    """

    def __init__(self) -> None:
        self.shared = SharedResources()

    def registration(
        self,
        request: si_pb2.RegisterResourceManagerRequest,
        partitions: tuple[PartitionSpec, ...],
        configuration: ConfigurationText,
    ) -> RegisterResourceManager:
        """`partitions` come from the queue file that the request names or carries; reading it is not this module's."""
        return RegisterResourceManager(
            rm_id=request.rmID,
            partitions=partitions,
            version=request.version,
            policy_group=request.policyGroup,
            build_info=dict(request.buildInfo),
            configuration=configuration,
        )

    def nodes(self, request: si_pb2.NodeRequest, _size_bytes: int = 0) -> Iterator[UpdateNodes]:
        """The nodes in order."""
        rm_id = request.rmID
        return node_updates(rm_id, (self._node(rm_id, node) for node in request.nodes))

    def applications(self, request: si_pb2.ApplicationRequest, size_bytes: int = 0) -> Iterator[UpdateApplications]:
        """New applications first, then removals, each in order."""
        rm_id, new, remove = request.rmID, request.new, request.remove
        for pieces in slices(size_bytes, new, remove, piece_bytes_max=APPLICATIONS_BYTES_MAX):
            yield UpdateApplications(
                rm_id,
                new=[new_application(rm_id, item, self.shared, item.gangSchedulingStyle) for item in new[pieces[0]]],
                remove=[application_removal(rm_id, item) for item in remove[pieces[1]]],
            )

    def allocations(self, request: si_pb2.AllocationRequest, size_bytes: int = 0) -> Iterator[UpdateAllocations]:
        """Asks first, then releases of allocations, then releases of asks, each in order."""
        rm_id, asks = request.rmID, request.asks
        releases, ask_releases = request.releases.allocationsToRelease, request.releases.allocationAsksToRelease
        for pieces in slices(size_bytes, asks, releases, ask_releases):
            batches = ask_release_batches(_ask_release(rm_id, item) for item in ask_releases[pieces[2]])
            yield UpdateAllocations(
                rm_id,
                asks=self._asks(rm_id, asks[pieces[0]]),
                releases=[_release(rm_id, item) for item in releases[pieces[1]]],
                ask_releases=next(batches),
            )
            for batch in batches:
                yield UpdateAllocations(rm_id, ask_releases=batch)

    def _asks(self, rm_id: str, messages: Iterable[si_pb2.AllocationAsk]) -> list[NewAsk]:
        # One loop with everything in it: at 25,000 asks per second a call per field would be felt.
        asks = []
        shapes, prefix = self.shared.by_bytes, f"[{rm_id}]"
        for ask in messages:
            message = ask.resourceAsk
            raw = message.SerializeToString()
            policy = ask.preemptionPolicy if ask.HasField("preemptionPolicy") else None
            asks.append(
                NewAsk(
                    ask.applicationID,
                    ask.allocationKey,
                    shapes.get(raw) or self.shared.of(message),
                    ask.partitionName.removeprefix(prefix),
                    ask.maxAllocations,
                    ask.priority,
                    ask.executionTimeoutMilliSeconds,
                    dict(ask.tags) or NO_TAGS,
                    ask.taskGroupName,
                    ask.placeholder,
                    ask.Originator,
                    policy is None or policy.allowPreemptSelf,
                    policy is not None and policy.allowPreemptOther,
                )
            )
        return asks

    def _node(self, rm_id: str, message: si_pb2.NodeInfo) -> NodeUpdate:
        return NodeUpdate(
            node_id=message.nodeID,
            action=_ACTIONS.get(message.action, NodeAction.UNKNOWN),
            action_number=message.action,
            partition=node_partition(rm_id, message.attributes),
            capacity=self.shared.of(message.schedulableResource) if message.HasField("schedulableResource") else None,
            occupied=self.shared.of(message.occupiedResource) if message.HasField("occupiedResource") else None,
            attributes=dict(message.attributes),
            existing=[
                existing_allocation(rm_id, item, self.shared, priority=item.priority)
                for item in message.existingAllocations
            ],
        )


def _release(rm_id: str, message: si_pb2.AllocationRelease) -> AllocationRelease:
    return AllocationRelease(
        application_id=message.applicationID,
        partition=partition_from_wire(rm_id, message.partitionName),
        uuid=message.UUID,
        allocation_key=message.allocationKey,
        termination=_TERMINATIONS.get(message.terminationType, TerminationType.UNKNOWN_TERMINATION_TYPE),
        message=message.message,
    )


def _ask_release(rm_id: str, message: si_pb2.AllocationAskRelease) -> AskRelease:
    return AskRelease(
        application_id=message.applicationID,
        partition=partition_from_wire(rm_id, message.partitionName),
        allocation_key=message.allocationKey,
        termination=_TERMINATIONS.get(message.terminationType, TerminationType.UNKNOWN_TERMINATION_TYPE),
        message=message.message,
    )
