"""The responses of 2023-06: three messages, one for each stream."""

from __future__ import annotations

from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core import facts
from schedulerd.wire.dialect import Dialect, Stream
from schedulerd.wire.draft import ResponseBuilder


class ResponseBuilder2023(ResponseBuilder[si_pb2.Resource]):
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

    def _complete_release(self, item: si_pb2.AllocationRelease, fact: facts.Released | facts.ReleaseRequested) -> None:
        item.allocationKey = fact.allocation_key
        item.terminationType = fact.termination.value  # type: ignore[assignment]  # the numbers are those of SI

    def _complete_ask_release(
        self, item: si_pb2.AllocationAskRelease, fact: facts.AskWithdrawn | facts.EarlyAskReleased
    ) -> None:
        assert fact.termination is not None
        item.allocationKey = fact.allocation_key
        item.terminationType = fact.termination.value  # type: ignore[assignment]  # likewise
