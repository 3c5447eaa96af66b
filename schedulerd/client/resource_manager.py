"""What a resource manager is told and asked: the methods for its author to override.

A method may be plain or async. Plain ones are called one after the other, in the order in which the scheduler said it
on that stream, and nothing is read meanwhile. What an async one returns is run as a task of its own: they start in that
order, and run side by side, so that to wait for a pod to end does not hold up the next allocation. An exception in
either ends the client and is raised where its `async with` ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2

if TYPE_CHECKING:
    from schedulerd.client.client import Client

_BY_RM = (si_pb2.STOPPED_BY_RM, si_pb2.UNKNOWN_TERMINATION_TYPE)

Told = Awaitable[None] | None


class ResourceManager:
    """Does nothing with what it hears, but confirms the releases that the scheduler asks for."""

    client: Client
    """The connection it is used with; set when that is made."""

    # What became of nodes and applications.

    def on_node_accepted(self, node_id: str) -> Told: ...

    def on_node_rejected(self, rejected: si_pb2.RejectedNode) -> Told: ...

    def on_application_accepted(self, application_id: str) -> Told: ...

    def on_application_rejected(self, rejected: si_pb2.RejectedApplication) -> Told: ...

    def on_application_updated(self, updated: si_pb2.UpdatedApplication) -> Told:
        """Its state has changed."""

    # What became of asks.

    def on_allocated(self, allocation: si_pb2.Allocation) -> Told:
        """An ask was placed on a node: start there what it is for."""

    def on_ask_rejected(self, rejected: si_pb2.RejectedAllocationAsk) -> Told: ...

    def on_ask_withdrawn(self, withdrawn: si_pb2.AllocationAskRelease) -> Told:
        """The scheduler will not place an ask any longer. With TIMEOUT the scheduler has ended the ask, such as a
        placeholder whose time is over; with STOPPED_BY_RM it confirms that the resource manager took the ask back,
        alone or with its application."""

    def on_release_wanted(self, release: si_pb2.AllocationRelease) -> Told:
        """The scheduler wants an allocation to end: TIMEOUT, PREEMPTED_BY_SCHEDULER or PLACEHOLDER_REPLACED.

        Its resources are free when the client has confirmed it, which it does when this has returned, or when what this
        returned is done: so end here what runs there, and wait for it.
        """

    def on_released(self, release: si_pb2.AllocationRelease) -> Told:
        """An allocation is no more: the resource manager has released it, or removed its node or its application. For
        one that `on_release_wanted` was called for, the removal of its node calls nothing more."""

    # What became of the connection.

    def on_resumed(self) -> Told:
        """The connection was lost and is there again; everything goes on where it was."""

    def on_resynced(self) -> Told:
        """The scheduler knew nothing any longer, and everything was reported to it again."""

    # What the scheduler asks and tells on the callback stream, which is opened if any of these is overridden.

    def predicates(self, call: callback_pb2.PredicatesCall) -> str | Awaitable[str | None] | None:
        """May this ask be placed on this node? None if so, or else why not: short, and the same for equal causes."""
        raise NotImplementedError

    def preemption_predicates(self, call: callback_pb2.PreemptionPredicatesCall) -> int | Awaitable[int | None] | None:
        """How many of the victims have to go for this ask to fit on this node? The index of the last of them in
        `preemptAllocationKeys`, not below `startIndex`; None if it would not fit even without all of them."""
        raise NotImplementedError

    def on_scheduling_states(self, states: Sequence[si_pb2.UpdateContainerSchedulingStateRequest]) -> Told:
        """How far asks have come, in order."""

    def on_events(self, events: Sequence[si_pb2.EventRecord]) -> Told:
        """What happened to objects of the scheduler, in order."""

    def state_dump(self) -> str | Awaitable[str]:
        """The resource manager's own state as JSON text, for an operator who asked the scheduler for it."""
        raise NotImplementedError

    # Whole messages, for those who would rather have them: who overrides one of these does all that it does.

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        for accepted in response.accepted:
            self._run(self.on_node_accepted(accepted.nodeID))
        for rejected in response.rejected:
            self._run(self.on_node_rejected(rejected))

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        for accepted in response.accepted:
            self._run(self.on_application_accepted(accepted.applicationID))
        for rejected in response.rejected:
            self._run(self.on_application_rejected(rejected))
        for updated in response.updated:
            self._run(self.on_application_updated(updated))

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        for allocation in response.new:
            self._run(self.on_allocated(allocation))
        for release in response.released:
            if release.terminationType in _BY_RM:
                self._run(self.on_released(release))
            else:
                self._end(release)
        for withdrawn in response.releasedAsks:
            self._run(self.on_ask_withdrawn(withdrawn))
        for rejected in response.rejected:
            self._run(self.on_ask_rejected(rejected))

    def _end(self, release: si_pb2.AllocationRelease) -> None:
        ending = self.on_release_wanted(release)
        if ending is None:
            self.client.confirm(release)
        else:
            self.client.spawn(self._confirm_when_done(ending, release))

    async def _confirm_when_done(self, ending: Awaitable[None], release: si_pb2.AllocationRelease) -> None:
        await ending
        self.client.confirm(release)

    def _run(self, told: Told) -> None:
        if told is not None:
            self.client.spawn(told)
