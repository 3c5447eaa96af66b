"""Scheduler-interface requests -> commands: decoded, cut into pieces, and not judged.

Nothing here refuses content. A negative amount, an empty id or an unknown enum number reaches the core as it is (an
unknown number as UNKNOWN), because the core is what rejects an item with a reason while the rest of its message goes on
(SEMANTICS C4). This is the dialect of 2023-06; `decode_2021` is the other one, and makes the same commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.ask_tags import ASKED_AT_TAG
from schedulerd.core.language.commands import (
    NO_TAGS,
    AllocationRelease,
    AskRelease,
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
from schedulerd.core.language.specs import ConfigurationText, PartitionSpec
from schedulerd.instant import Instant, read_clocks
from schedulerd.wire.ask_ages import AskAges
from schedulerd.wire.items import application_removal, existing_allocation, new_application, node_partition
from schedulerd.wire.names import partition_from_wire
from schedulerd.wire.reading import PIECE_BYTES_MAX
from schedulerd.wire.shared_resources import SharedResources

_ACTIONS: Mapping[int, NodeAction] = {int(action): action for action in NodeAction}
_TERMINATIONS: Mapping[int, TerminationType] = {int(kind): kind for kind in TerminationType}


ITEMS_MAX = 200
"""Items per command. One takes the core 10 to 20 microseconds, so a command holds the loop for 2 to 4 ms."""

APPLICATIONS_BYTES_MAX = 1_024
"""Of applications: no more join a command from that size on. Each goes through all placement rules, and its names may
be matched with regular expressions (`core.queue_placement.rules`)."""

SEARCHES_MAX = 5
"""Releases of asks in one command that name no application: each is searched for in all applications."""

VALUES_PER_ITEM = 64
"""Attributes and tags that take as long as one item does."""


class RequestDecoder:
    """Makes commands of the requests of any resource manager. Keeps the shared `Resources`, and what its clocks show.

    `size_bytes` is the size of a request on the wire, if it may be large.
    """

    def __init__(self, clocks: Callable[[], Instant] = read_clocks) -> None:
        self.shared = SharedResources()
        self.ages = AskAges(clocks)

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
            extra_config=dict(request.extraConfig),
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
                new=[self._application(rm_id, item) for item in new[pieces[0]]],
                remove=[application_removal(rm_id, item) for item in remove[pieces[1]]],
            )

    def _application(self, rm_id: str, item: si_pb2.AddApplicationRequest) -> NewApplication:
        return new_application(rm_id, item, self.shared, self.ages, item.gangSchedulingStyle)

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
            tags = dict(ask.tags) or NO_TAGS
            new = NewAsk(
                ask.applicationID,
                ask.allocationKey,
                shapes.get(raw) or self.shared.of(message),
                ask.partitionName.removeprefix(prefix),
                ask.maxAllocations,
                ask.priority,
                ask.executionTimeoutMilliSeconds,
                tags,
                ask.taskGroupName,
                ask.placeholder,
                ask.Originator,
                policy is None or policy.allowPreemptSelf,
                policy is not None and policy.allowPreemptOther,
            )
            if ASKED_AT_TAG in tags:
                new.asked_at_ns, new.unreadable = self.ages.asked_at(tags)
            asks.append(new)
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


def slices(
    size_bytes: int, *lists: Sequence[Message], piece_bytes_max: int = PIECE_BYTES_MAX
) -> Iterator[Sequence[slice]]:
    """Cuts lists of a request that are handled one after the other into pieces: one slice per list each.

    A piece has `ITEMS_MAX` items at most. Of a request of more than `piece_bytes_max` bytes a piece also takes no more
    items from that size on, so that a hundred large items are not decoded in one turn of the loop.
    """
    lengths = [len(one) for one in lists]
    bounds: Iterable[int] = chain(range(0, sum(lengths), ITEMS_MAX), [sum(lengths)])
    if size_bytes > piece_bytes_max:
        bounds = _bounds_by_bytes(chain.from_iterable(lists), piece_bytes_max)
    for first, last in pairwise(bounds):
        start, stop, pieces = first, last, []
        for length in lengths:
            pieces.append(slice(min(max(start, 0), length), min(max(stop, 0), length)))
            start, stop = start - length, stop - length
        yield pieces


def _bounds_by_bytes(items: Iterable[Message], piece_bytes_max: int) -> Iterator[int]:
    """Where the pieces of these items begin, and where the last one ends."""
    yield 0
    begin = count = size_bytes = 0
    for item in items:
        if count - begin >= ITEMS_MAX or size_bytes >= piece_bytes_max:
            yield count
            begin, size_bytes = count, 0
        count += 1
        size_bytes += item.ByteSize()
    if count:
        yield count


def ask_release_batches(releases: Iterable[AskRelease]) -> Iterator[list[AskRelease]]:
    """The releases in order, in lists of which each is for one command; at least one list, which may be empty."""
    batch: list[AskRelease] = []
    searches = 0
    for release in releases:
        if not release.application_id:
            if searches == SEARCHES_MAX:
                yield batch
                batch, searches = [], 0
            searches += 1
        batch.append(release)
    yield batch


def node_updates(rm_id: str, nodes: Iterable[NodeUpdate]) -> Iterator[UpdateNodes]:
    """The nodes in order. A node is never cut.

    A node weighs one item, one for each allocation it brings along, and one for every `VALUES_PER_ITEM` attributes and
    tags.
    """
    weight = 0
    batch: list[NodeUpdate] = []
    for node in nodes:
        values = len(node.attributes) + sum(len(one.tags) for one in node.existing)
        size = 1 + len(node.existing) + values // VALUES_PER_ITEM
        if batch and weight + size > ITEMS_MAX:
            yield UpdateNodes(rm_id, batch)
            batch, weight = [], 0
        batch.append(node)
        weight += size
    if batch:
        yield UpdateNodes(rm_id, batch)
