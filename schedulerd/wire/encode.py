"""Facts -> scheduler-interface responses: one per resource manager and stream for all facts of a batch.

Responses leave here serialised. Bytes can be bounded by their true size while they wait for a slow reader, and two
serialised messages of one type joined end to end are one message with the lists of both (that is how protobuf defines
merging), so whoever sends them may join small ones again.

Which fact is told to whom is the table at the end of this module. What the resource manager already knows (an
allocation it reported itself, a release it confirmed) is not repeated to it (SEMANTICS F).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core import facts as said
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.resources import Resources
from schedulerd.wire.names import partition_to_wire

ITEMS_MAX = 1000
"""Items per response: about 150 kB of allocations, far below what a gRPC client takes by default (4 MiB)."""

TAG_CHARACTERS_MAX = 1_000_000
"""Tags per response, which come on top of that: they are the sender's own, and an ask may carry long ones."""

SHAPES_MAX = 4096
"""Resource messages kept ready for copying; they are made anew when there are more sizes than this."""


class Stream(StrEnum):
    """The three update streams of `si.v1.Scheduler`, named by the method that opens them."""

    ALLOCATION = "UpdateAllocation"
    APPLICATION = "UpdateApplication"
    NODE = "UpdateNode"


@dataclass(slots=True)
class Response:
    """A serialised AllocationResponse, ApplicationResponse or NodeResponse, as `stream` says."""

    rm_id: str
    stream: Stream
    payload: bytes
    items: int


class _Draft:
    """The responses of one resource manager that are still being filled."""

    __slots__ = ("allocation", "application", "counts", "messages", "node", "rm_id", "tag_characters")

    def __init__(self, rm_id: str) -> None:
        self.rm_id = rm_id
        self.allocation = si_pb2.AllocationResponse()
        self.application = si_pb2.ApplicationResponse()
        self.node = si_pb2.NodeResponse()
        self.messages: dict[Stream, Message] = {
            Stream.ALLOCATION: self.allocation,
            Stream.APPLICATION: self.application,
            Stream.NODE: self.node,
        }
        self.counts = dict.fromkeys(Stream, 0)
        self.tag_characters = 0


class ResponseEncoder:
    """Collects the facts of a batch (`add`) and gives out the responses they make (`drain`)."""

    def __init__(self) -> None:
        self._drafts: dict[str, _Draft] = {}
        self._full: list[Response] = []
        self._shapes: dict[int, tuple[Resources, si_pb2.Resource]] = {}
        self._partitions: dict[tuple[str, str], str] = {}

    def add(self, facts: Iterable[said.Fact]) -> None:
        """Facts that no response tells (see `_ENCODERS`) are skipped. Order is kept within each list of a response."""
        drafts, encoders = self._drafts, _ENCODERS
        for fact in facts:
            encoder = encoders.get(type(fact))
            if encoder is None:
                continue
            rm_id = fact.rm_id  # type: ignore[union-attr]  # every fact in the table has one
            draft = drafts.get(rm_id)
            if draft is None:
                draft = drafts[rm_id] = _Draft(rm_id)
            stream = encoder(self, draft, fact)
            if stream is not None:
                draft.counts[stream] += 1
                if draft.counts[stream] >= ITEMS_MAX or draft.tag_characters >= TAG_CHARACTERS_MAX:
                    self._finish(draft, stream)

    def drain(self) -> list[Response]:
        """What was collected, at most `ITEMS_MAX` items each, those of one (RM, stream) in order; starts anew."""
        for draft in self._drafts.values():
            for stream in [stream for stream, count in draft.counts.items() if count]:
                self._finish(draft, stream)
        self._drafts.clear()
        full, self._full = self._full, []
        return full

    def forget(self, rm_id: str) -> None:
        """Drops what was collected for an RM whose state is gone: it would be told of things it no longer has."""
        self._drafts.pop(rm_id, None)
        self._full = [response for response in self._full if response.rm_id != rm_id]
        for known in [known for known in self._partitions if known[0] == rm_id]:
            del self._partitions[known]

    def _finish(self, draft: _Draft, stream: Stream) -> None:
        message = draft.messages[stream]
        self._full.append(Response(draft.rm_id, stream, message.SerializeToString(), draft.counts[stream]))
        message.Clear()
        draft.counts[stream] = 0
        if stream is Stream.ALLOCATION:
            draft.tag_characters = 0

    def _partition(self, rm_id: str, name: str) -> str:
        found = self._partitions.get((rm_id, name))
        if found is None:
            found = self._partitions[rm_id, name] = partition_to_wire(rm_id, name)
        return found

    def _resource(self, resources: Resources) -> si_pb2.Resource:
        # Keyed by identity, which is safe because the object is held beside its message.
        found = self._shapes.get(id(resources))
        if found is not None:
            return found[1]
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        message = si_pb2.Resource()
        for name, amount in resources.items():
            message.resources[name].value = amount
        self._shapes[id(resources)] = (resources, message)
        return message

    def _allocated(self, draft: _Draft, fact: said.Allocated) -> Stream | None:
        if fact.recovered:
            return None
        item = draft.allocation.new.add()
        item.allocationKey = fact.allocation_key
        item.UUID = fact.uuid
        item.nodeID = fact.node_id
        item.applicationID = fact.application_id
        item.partitionName = self._partition(fact.rm_id, fact.partition)
        item.resourcePerAlloc.CopyFrom(self._resource(fact.resources))
        if fact.priority:
            item.priority = fact.priority
        if fact.task_group:
            item.taskGroupName = fact.task_group
            item.placeholder = fact.placeholder
        if fact.tags:
            item.allocationTags.update(fact.tags)
            draft.tag_characters += sum(len(name) + len(value) for name, value in fact.tags.items())
        return Stream.ALLOCATION

    def _release(self, draft: _Draft, fact: said.Released | said.ReleaseRequested) -> Stream | None:
        if isinstance(fact, said.Released) and not fact.confirm:
            return None
        item = draft.allocation.released.add()
        item.partitionName = self._partition(fact.rm_id, fact.partition)
        item.applicationID = fact.application_id
        item.UUID = fact.uuid
        item.allocationKey = fact.allocation_key
        item.terminationType = fact.termination.value  # type: ignore[assignment]  # the numbers are those of SI
        item.message = fact.message
        return Stream.ALLOCATION

    def _ask_withdrawn(self, draft: _Draft, fact: said.AskWithdrawn) -> Stream | None:
        if fact.termination is None:
            return None
        draft.allocation.releasedAsks.add(
            partitionName=self._partition(fact.rm_id, fact.partition),
            applicationID=fact.application_id,
            allocationKey=fact.allocation_key,
            terminationType=fact.termination.value,
            message=fact.message,
        )
        return Stream.ALLOCATION

    def _ask_rejected(self, draft: _Draft, fact: said.AskRejected) -> Stream:
        draft.allocation.rejected.add(
            allocationKey=fact.allocation_key, applicationID=fact.application_id, reason=fact.reason
        )
        return Stream.ALLOCATION

    def _application_accepted(self, draft: _Draft, fact: said.ApplicationAccepted) -> Stream:
        draft.application.accepted.add(applicationID=fact.application_id)
        return Stream.APPLICATION

    def _application_rejected(self, draft: _Draft, fact: said.ApplicationRejected) -> Stream:
        draft.application.rejected.add(applicationID=fact.application_id, reason=fact.reason)
        return Stream.APPLICATION

    def _application_changed(self, draft: _Draft, fact: said.ApplicationChanged) -> Stream | None:
        if fact.old_state is None or fact.state is ApplicationState.REJECTED:
            return None
        draft.application.updated.add(
            applicationID=fact.application_id,
            state=fact.state.value,
            stateTransitionTimestamp=fact.at_ns,
            message=fact.cause,
        )
        return Stream.APPLICATION

    def _node_accepted(self, draft: _Draft, fact: said.NodeAccepted) -> Stream:
        draft.node.accepted.add(nodeID=fact.node_id)
        return Stream.NODE

    def _node_rejected(self, draft: _Draft, fact: said.NodeRejected) -> Stream:
        draft.node.rejected.add(nodeID=fact.node_id, reason=fact.reason)
        return Stream.NODE


# A method takes exactly the fact of its row; a mapping of types to methods cannot say that to the type checker.
_ENCODERS: Mapping[type[Any], Callable[[ResponseEncoder, _Draft, Any], Stream | None]] = {
    said.Allocated: ResponseEncoder._allocated,
    said.Released: ResponseEncoder._release,
    said.ReleaseRequested: ResponseEncoder._release,
    said.AskWithdrawn: ResponseEncoder._ask_withdrawn,
    said.AskRejected: ResponseEncoder._ask_rejected,
    said.ApplicationAccepted: ResponseEncoder._application_accepted,
    said.ApplicationRejected: ResponseEncoder._application_rejected,
    said.ApplicationChanged: ResponseEncoder._application_changed,
    said.NodeAccepted: ResponseEncoder._node_accepted,
    said.NodeRejected: ResponseEncoder._node_rejected,
}
