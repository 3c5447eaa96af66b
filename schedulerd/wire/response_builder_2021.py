"""The responses of 2021-02: one message with everything, and the one that tells to resynchronise."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import Message

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.wire.dialect import Dialect, Stream
from schedulerd.wire.response_builder import Item, Release, ResponseBuilder

RESYNC_RESPONSE = si_pb2.UpdateResponse(action=si_pb2.UpdateResponse.RESYNC).SerializeToString()
"""Register again and report everything (SEMANTICS C3); the last response on its stream."""

_TERMINATIONS: Mapping[TerminationType, si_pb2.AllocationRelease.TerminationType.ValueType] = {
    TerminationType[name]: number for name, number in si_pb2.AllocationRelease.TerminationType.items()
} | {TerminationType.UNKNOWN_TERMINATION_TYPE: si_pb2.AllocationRelease.STOPPED_BY_RM}
"""What is not said is 0 on this wire, and that has a meaning."""


class ResponseBuilder2021(ResponseBuilder[si_pb2.Resource]):
    dialect = Dialect.V2021_02
    of_allocations = of_applications = of_nodes = Stream.UPDATE

    def _begin(self, stream: Stream) -> Message:
        update = si_pb2.UpdateResponse()
        self.new_allocations = update.newAllocations
        self.released_allocations = update.releasedAllocations
        self.released_asks = update.releasedAllocationAsks
        self.rejected_asks = update.rejectedAllocations
        self.accepted_applications = update.acceptedApplications
        self.rejected_applications = update.rejectedApplications
        self.updated_applications = update.updatedApplications
        self.accepted_nodes = update.acceptedNodes
        self.rejected_nodes = update.rejectedNodes
        self.recommendations = update.nodeRecommendations
        return update

    def node_recommended(self, fact: NodeRecommended) -> Item:
        return Stream.UPDATE, self.recommendations.add(
            recommendedSchedulableResource=self._ready.of(fact.schedulable),
            message=f"node {fact.node_id}: {fact.message}",
        )

    def _complete_allocation(self, item: si_pb2.Allocation, fact: facts.Allocated) -> None:
        item.queueName = fact.queue
        if fact.priority:
            item.priority.priorityValue = fact.priority

    def _complete_release(self, item: si_pb2.AllocationRelease, fact: Release) -> None:
        item.terminationType = _TERMINATIONS[fact.termination]

    def _complete_ask_release(
        self, item: si_pb2.AllocationAskRelease, fact: facts.AskWithdrawn | facts.EarlyAskReleased
    ) -> None:
        item.allocationkey = fact.allocation_key
