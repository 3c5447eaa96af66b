"""Scheduler-interface requests -> commands: decoded, cut into pieces, and not judged.

Nothing here refuses content. A negative amount, an empty id or an unknown enum number reaches the core as it is (an
unknown number as UNKNOWN), because the core is what rejects an item with a reason while the rest of its message goes on
(SEMANTICS C4). A request is cut into commands of at most `ITEMS_MAX` items, so that no single step of the scheduler
holds the event loop; the pieces are made one by one, so that the loop can turn between them as well.

Asks are the hot path. Pods come in a handful of sizes, so equal resource messages become one shared `Resources` object:
that saves building it, and lets whoever groups asks by size compare identities first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.commands import (
    NO_TAGS,
    AllocationRelease,
    ApplicationRemoval,
    AskRelease,
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.resources import Resources
from schedulerd.core.specs import ConfigurationText, PartitionSpec
from schedulerd.wire.names import partition_from_wire

ITEMS_MAX = 500
"""Items per command. One takes the core about 10 microseconds, so a command holds the loop for about 5 ms."""

SHAPES_MAX = 4096
"""Distinct resource messages remembered; a resource manager that sends more sizes than this only loses the sharing."""

SHAPE_BYTES_MAX = 1024
"""Longer resource messages are not remembered, so that what is remembered stays within a few megabytes."""

NODE_PARTITION_ATTRIBUTE = "si/node-partition"

_ACTIONS: Mapping[int, NodeAction] = {int(action): action for action in NodeAction}
_TERMINATIONS: Mapping[int, TerminationType] = {int(kind): kind for kind in TerminationType}


class RequestDecoder:
    """Makes commands of the requests of any resource manager. Keeps nothing but the shared `Resources`."""

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, Resources] = {}
        self._by_content: dict[tuple[tuple[str, int], ...], Resources] = {}

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

    def nodes(self, request: si_pb2.NodeRequest) -> Iterator[UpdateNodes]:
        """The nodes in order. A node weighs one item plus one for each allocation it brings along, and is never cut."""
        rm_id, weight = request.rmID, 0
        batch: list[NodeUpdate] = []
        for node in request.nodes:
            size = 1 + len(node.existingAllocations)
            if batch and weight + size > ITEMS_MAX:
                yield UpdateNodes(rm_id, batch)
                batch, weight = [], 0
            batch.append(self._node(rm_id, node))
            weight += size
        if batch:
            yield UpdateNodes(rm_id, batch)

    def applications(self, request: si_pb2.ApplicationRequest) -> Iterator[UpdateApplications]:
        """New applications first, then removals, each in order."""
        rm_id, new, remove = request.rmID, request.new, request.remove
        for pieces in _slices(len(new), len(remove)):
            yield UpdateApplications(
                rm_id,
                new=[self._application(rm_id, item) for item in new[pieces[0]]],
                remove=[
                    ApplicationRemoval(item.applicationID, partition_from_wire(rm_id, item.partitionName))
                    for item in remove[pieces[1]]
                ],
            )

    def allocations(self, request: si_pb2.AllocationRequest) -> Iterator[UpdateAllocations]:
        """Asks first, then releases of allocations, then releases of asks, each in order."""
        rm_id, asks = request.rmID, request.asks
        releases, ask_releases = request.releases.allocationsToRelease, request.releases.allocationAsksToRelease
        for pieces in _slices(len(asks), len(releases), len(ask_releases)):
            yield UpdateAllocations(
                rm_id,
                asks=self._asks(rm_id, asks[pieces[0]]),
                releases=[_release(rm_id, item) for item in releases[pieces[1]]],
                ask_releases=[_ask_release(rm_id, item) for item in ask_releases[pieces[2]]],
            )

    def resources(self, message: si_pb2.Resource) -> Resources:
        """The one shared object for this content, zeros included; never to be changed by whoever gets it."""
        raw = message.SerializeToString()
        found = self._by_bytes.get(raw)
        return found if found is not None else self._learn(raw, message)

    def _learn(self, raw: bytes, message: si_pb2.Resource) -> Resources:
        # The same map may be serialised in several orders, so the bytes are only a shortcut to the content.
        items = sorted((name, quantity.value) for name, quantity in message.resources.items())
        if len(raw) > SHAPE_BYTES_MAX:
            return Resources(items)
        if len(self._by_bytes) >= SHAPES_MAX:
            self._by_bytes.clear()
            self._by_content.clear()
        shared = self._by_content.setdefault(tuple(items), Resources(items))
        self._by_bytes[raw] = shared
        return shared

    def _asks(self, rm_id: str, messages: Iterable[si_pb2.AllocationAsk]) -> list[NewAsk]:
        # One loop with everything in it: at 25,000 asks per second a call per field would be felt.
        asks = []
        shapes, prefix = self._by_bytes, f"[{rm_id}]"
        for ask in messages:
            message = ask.resourceAsk
            raw = message.SerializeToString()
            policy = ask.preemptionPolicy if ask.HasField("preemptionPolicy") else None
            asks.append(
                NewAsk(
                    ask.applicationID,
                    ask.allocationKey,
                    shapes.get(raw) or self.resources(message),
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

    def _application(self, rm_id: str, message: si_pb2.AddApplicationRequest) -> NewApplication:
        return NewApplication(
            application_id=message.applicationID,
            queue=message.queueName,
            partition=partition_from_wire(rm_id, message.partitionName),
            user=message.ugi.user,
            groups=tuple(message.ugi.groups),
            tags=dict(message.tags),
            execution_timeout_ms=message.executionTimeoutMilliSeconds,
            placeholder_ask=self.resources(message.placeholderAsk),
            gang_style=message.gangSchedulingStyle,
        )

    def _node(self, rm_id: str, message: si_pb2.NodeInfo) -> NodeUpdate:
        return NodeUpdate(
            node_id=message.nodeID,
            action=_ACTIONS.get(message.action, NodeAction.UNKNOWN),
            action_number=message.action,
            partition=partition_from_wire(rm_id, message.attributes.get(NODE_PARTITION_ATTRIBUTE, "")),
            capacity=self.resources(message.schedulableResource) if message.HasField("schedulableResource") else None,
            occupied=self.resources(message.occupiedResource) if message.HasField("occupiedResource") else None,
            attributes=dict(message.attributes),
            existing=[self._existing(rm_id, item) for item in message.existingAllocations],
        )

    def _existing(self, rm_id: str, message: si_pb2.Allocation) -> ExistingAllocation:
        return ExistingAllocation(
            application_id=message.applicationID,
            allocation_key=message.allocationKey,
            uuid=message.UUID,
            resources=self.resources(message.resourcePerAlloc),
            node_id=message.nodeID,
            partition=partition_from_wire(rm_id, message.partitionName),
            priority=message.priority,
            task_group=message.taskGroupName,
            placeholder=message.placeholder,
            tags=dict(message.allocationTags) or NO_TAGS,
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


def _slices(*lengths: int) -> Iterator[Sequence[slice]]:
    """Cuts lists that are handled one after the other into pieces of `ITEMS_MAX` items: one slice per list each.

    >>> [[(s.start, s.stop) for s in piece] for piece in _slices(600, 10)]
    [[(0, 500), (0, 0)], [(500, 600), (0, 10)]]
    """
    total = sum(lengths)
    for first in range(0, total, ITEMS_MAX):
        start, stop, pieces = first, min(first + ITEMS_MAX, total), []
        for length in lengths:
            pieces.append(slice(min(max(start, 0), length), min(max(stop, 0), length)))
            start, stop = start - length, stop - length
        yield pieces
