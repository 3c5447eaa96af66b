"""Builds the responses for one resource manager: what both dialects have alike, and the three messages of 2023-06.

The dialects put the same items into different messages. So a builder binds the lists that it fills to those of its
dialect's messages, and the dialects only add the few fields that differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.checks import message
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.unclaimed import UnclaimedEnded
from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState
from schedulerd.core.language.resources import Resources, within_int64
from schedulerd.instant import Instant
from schedulerd.wire.dialect import Dialect, Stream, update_streams
from schedulerd.wire.names import partition_to_wire
from schedulerd.wire.shared_resources import ResourceMessage

ITEMS_MAX = 1000
"""Items per response: about 150 kB of allocations with short ids and few tags."""

RESPONSE_BYTES_MAX = 1 << 20
"""A response takes no more items from this size on. An item is smaller than that as well, so a response stays far below
the 4 MiB that a gRPC client takes by default: what it does not take would be first on its next stream again."""

REJECTED_ID_LENGTH_MAX = 65_536
"""Characters of an id that come back with its rejection; a longer one is cut."""

TEXT_LENGTH_MAX = 16_384
"""Characters of a reason or message; a longer one is cut."""

SHAPES_MAX = 4096
"""Resource messages kept ready for copying; they are made anew when there are more sizes than this."""

ResourceT = TypeVar("ResourceT", bound=ResourceMessage)


Release: TypeAlias = facts.Released | facts.ReleaseRequested | UnclaimedEnded
Item: TypeAlias = tuple[Stream, Any]
"""The stream for a fact, and the item on it."""


@dataclass(slots=True)
class Response:
    """A serialised response of the update stream that `stream` names."""

    rm_id: str
    stream: Stream
    payload: bytes
    items: int


class ReadyResources(Generic[ResourceT]):
    """The resource messages of a dialect, each made once."""

    def __init__(self, message_type: type[ResourceT]) -> None:
        self._message_type: type[ResourceT] = message_type
        self._made: dict[int, tuple[Resources, ResourceT]] = {}

    def of(self, resources: Resources) -> ResourceT:
        """To be copied, never changed."""
        # Keyed by identity, which is safe because the object is held beside its message.
        found = self._made.get(id(resources))
        if found is not None:
            return found[1]
        if len(self._made) >= SHAPES_MAX:
            self._made.clear()
        message = self._message_type()
        for name, amount in resources.items():
            message.resources[name].value = within_int64(amount)
        self._made[id(resources)] = (resources, message)
        return message


class ResponseBuilder(ABC, Generic[ResourceT]):
    """The responses of one resource manager that are still being filled. Order is kept within each of their lists."""

    dialect: ClassVar[Dialect]
    of_allocations: ClassVar[Stream]
    of_applications: ClassVar[Stream]
    of_nodes: ClassVar[Stream]

    # Lists of the messages that are being filled, bound by `_begin`. Generated classes have no type for "either of two
    # messages with these fields".
    new_allocations: Any
    released_allocations: Any
    released_asks: Any
    rejected_asks: Any
    accepted_applications: Any
    rejected_applications: Any
    updated_applications: Any
    accepted_nodes: Any
    rejected_nodes: Any

    def __init__(self, rm_id: str, ready: ReadyResources[ResourceT]) -> None:
        self.rm_id = rm_id
        self._partition_prefix = partition_to_wire(rm_id, "")
        self._ready: ReadyResources[ResourceT] = ready
        self._now = Instant(0, 0)
        """The time of the step whose facts are being added."""
        self._messages = {stream: self._begin(stream) for stream in update_streams(self.dialect)}
        self._counts = dict.fromkeys(self._messages, 0)
        self._bytes = dict.fromkeys(self._messages, 0)
        self._ended: set[str] = set()
        """Ids of applications whose end is in the message that is being filled."""

    def add(self, fact: facts.Fact, now: Instant) -> Response | None:
        """Adds the item of a fact, if it has one; returns a response that is complete now: it is full, or the next item
        has to come after it. As the lists of a message have no order, the acceptance of an application is not in one
        with the end of an earlier application of its id.
        """
        tell = TOLD.get(type(fact))
        self._now = now
        full: Response | None = None
        if self._ended and isinstance(fact, facts.ApplicationAccepted) and fact.application_id in self._ended:
            full = self._finish(self.of_applications)
        told = tell(self, fact) if tell is not None else None
        if told is None:
            return None
        stream, item = told
        self._counts[stream] += 1
        self._bytes[stream] += item.ByteSize()
        if full is None and (self._counts[stream] >= ITEMS_MAX or self._bytes[stream] >= RESPONSE_BYTES_MAX):
            full = self._finish(stream)
        return full

    def rest(self) -> list[Response]:
        """The remaining responses, at most one for each stream."""
        return [self._finish(stream) for stream, count in self._counts.items() if count]

    def _finish(self, stream: Stream) -> Response:
        response = Response(self.rm_id, stream, self._messages[stream].SerializeToString(), self._counts[stream])
        self._messages[stream] = self._begin(stream)
        self._counts[stream] = self._bytes[stream] = 0
        if stream is self.of_applications:
            self._ended.clear()
        return response

    @abstractmethod
    def _begin(self, stream: Stream) -> Message:
        """A new message of the stream, to whose lists ours are bound."""

    @abstractmethod
    def _complete_allocation(self, item: Any, fact: facts.Allocated) -> None:
        """Adds the fields of an allocation that only this dialect has."""

    @abstractmethod
    def _complete_release(self, item: Any, fact: Release) -> None:
        """Adds the fields of a release that only this dialect has."""

    @abstractmethod
    def _complete_ask_release(self, item: Any, fact: facts.AskWithdrawn | facts.EarlyAskReleased) -> None:
        """Adds the fields of an ask release that only this dialect has."""

    def allocated(self, fact: facts.Allocated) -> Item | None:
        if fact.recovered or fact.slot:
            return None
        item = self.new_allocations.add()
        item.allocationKey = fact.allocation_key
        item.UUID = fact.uuid
        item.nodeID = fact.node_id
        item.applicationID = fact.application_id
        item.partitionName = self._partition_prefix + fact.partition
        item.resourcePerAlloc.CopyFrom(self._ready.of(fact.resources))
        if fact.task_group:
            item.taskGroupName = fact.task_group
            item.placeholder = fact.placeholder
        if fact.tags:
            item.allocationTags.update(fact.tags)
        self._complete_allocation(item, fact)
        return self.of_allocations, item

    def release(self, fact: Release) -> Item | None:
        if not isinstance(fact, facts.ReleaseRequested) and not fact.confirm:
            return None
        item = self.released_allocations.add()
        item.partitionName = self._partition_prefix + fact.partition
        item.applicationID = fact.application_id
        item.UUID = fact.uuid
        item.message = message(fact.message, TEXT_LENGTH_MAX)
        self._complete_release(item, fact)
        return self.of_allocations, item

    def ask_withdrawn(self, fact: facts.AskWithdrawn) -> Item | None:
        return None if fact.termination is None or fact.slot else self.ask_released(fact)

    def ask_released(self, fact: facts.AskWithdrawn | facts.EarlyAskReleased) -> Item:
        item = self.released_asks.add()
        item.partitionName = self._partition_prefix + fact.partition
        item.applicationID = fact.application_id
        item.message = message(fact.message, TEXT_LENGTH_MAX)
        self._complete_ask_release(item, fact)
        return self.of_allocations, item

    def ask_rejected(self, fact: facts.AskRejected) -> Item:
        return self.of_allocations, self.rejected_asks.add(
            allocationKey=fact.allocation_key[:REJECTED_ID_LENGTH_MAX],
            applicationID=fact.application_id[:REJECTED_ID_LENGTH_MAX],
            reason=message(fact.reason, TEXT_LENGTH_MAX),
        )

    def application_accepted(self, fact: facts.ApplicationAccepted) -> Item:
        return self.of_applications, self.accepted_applications.add(applicationID=fact.application_id)

    def application_rejected(self, fact: facts.ApplicationRejected) -> Item:
        return self.of_applications, self.rejected_applications.add(
            applicationID=fact.application_id[:REJECTED_ID_LENGTH_MAX], reason=message(fact.reason, TEXT_LENGTH_MAX)
        )

    def application_changed(self, fact: facts.ApplicationChanged) -> Item | None:
        if fact.old_state is None or fact.state is ApplicationState.REJECTED:
            return None
        if fact.state in TERMINAL_STATES:
            self._ended.add(fact.application_id)
        return self.of_applications, self.updated_applications.add(
            applicationID=fact.application_id,
            state=fact.state.value,
            stateTransitionTimestamp=self._now.wall_of(fact.at_ns),
            message=message(fact.cause, TEXT_LENGTH_MAX),
        )

    def node_accepted(self, fact: facts.NodeAccepted) -> Item:
        return self.of_nodes, self.accepted_nodes.add(nodeID=fact.node_id)

    def node_rejected(self, fact: facts.NodeRejected) -> Item:
        return self.of_nodes, self.rejected_nodes.add(
            nodeID=fact.node_id[:REJECTED_ID_LENGTH_MAX], reason=message(fact.reason, TEXT_LENGTH_MAX)
        )

    def node_recommended(self, fact: NodeRecommended) -> Item | None:
        """Only 2021-02 has a message for it."""
        return None


class ResponseBuilder2023(ResponseBuilder[si_pb2.Resource]):
    """The responses of 2023-06: three messages, one for each stream."""

    dialect = Dialect.V2023_06
    of_allocations = Stream.ALLOCATION
    of_applications = Stream.APPLICATION
    of_nodes = Stream.NODE

    def _begin(self, stream: Stream) -> Message:
        if stream is Stream.ALLOCATION:
            allocation = si_pb2.AllocationResponse()
            self.new_allocations = allocation.new
            self.released_allocations = allocation.released
            self.released_asks = allocation.releasedAsks
            self.rejected_asks = allocation.rejected
            return allocation
        if stream is Stream.APPLICATION:
            application = si_pb2.ApplicationResponse()
            self.accepted_applications = application.accepted
            self.rejected_applications = application.rejected
            self.updated_applications = application.updated
            return application
        node = si_pb2.NodeResponse()
        self.accepted_nodes = node.accepted
        self.rejected_nodes = node.rejected
        return node

    def _complete_allocation(self, item: si_pb2.Allocation, fact: facts.Allocated) -> None:
        if fact.priority:
            item.priority = fact.priority

    def _complete_release(self, item: si_pb2.AllocationRelease, fact: Release) -> None:
        item.allocationKey = fact.allocation_key
        item.terminationType = fact.termination.value  # type: ignore[assignment]  # the numbers are those of SI

    def _complete_ask_release(
        self, item: si_pb2.AllocationAskRelease, fact: facts.AskWithdrawn | facts.EarlyAskReleased
    ) -> None:
        assert fact.termination is not None
        item.allocationKey = fact.allocation_key
        item.terminationType = fact.termination.value  # type: ignore[assignment]  # likewise


# A method takes exactly the fact of its row; a mapping of types to methods cannot say that to the type checker.
TOLD: Mapping[type[Any], Callable[[Any, Any], Item | None]] = {
    facts.Allocated: ResponseBuilder.allocated,
    facts.Released: ResponseBuilder.release,
    facts.ReleaseRequested: ResponseBuilder.release,
    UnclaimedEnded: ResponseBuilder.release,
    facts.AskWithdrawn: ResponseBuilder.ask_withdrawn,
    facts.EarlyAskReleased: ResponseBuilder.ask_released,
    facts.AskRejected: ResponseBuilder.ask_rejected,
    facts.ApplicationAccepted: ResponseBuilder.application_accepted,
    facts.ApplicationRejected: ResponseBuilder.application_rejected,
    facts.ApplicationChanged: ResponseBuilder.application_changed,
    facts.NodeAccepted: ResponseBuilder.node_accepted,
    facts.NodeRejected: ResponseBuilder.node_rejected,
    NodeRecommended: lambda builder, fact: builder.node_recommended(fact),
}
