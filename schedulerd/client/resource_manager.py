"""Callbacks of a resource manager: methods to override.

A method may be plain or async. Plain methods are called one after the other, in the order of the responses on their
stream, and nothing is read meanwhile. The coroutine of an async method runs as a task: these tasks start in that order
and run side by side, so waiting for the end of a pod does not delay the next allocation. An exception in either ends
the client, and is raised where its `async with` ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.client import Client
from schedulerd.client.rm_methods import SchedulingStateValue, Told

_BY_RM = (si_pb2.STOPPED_BY_RM, si_pb2.UNKNOWN_TERMINATION_TYPE)


class ResourceManager:
    """A resource manager that ignores all responses, except that it confirms the releases that the scheduler
    requests."""

    client: Client
    """The client that this object is used with; set when the client is made."""

    wanted_states: Sequence[SchedulingStateValue.ValueType] = ()
    """Which scheduling states `on_scheduling_states` is told; SKIPPED and FAILED if there is none in it."""

    # What became of nodes and applications.

    def on_node_accepted(self, node_id: str) -> Told: ...

    def on_node_rejected(self, rejected: si_pb2.RejectedNode) -> Told: ...

    def on_application_accepted(self, application_id: str) -> Told: ...

    def on_application_rejected(self, rejected: si_pb2.RejectedApplication) -> Told: ...

    def on_application_updated(self, updated: si_pb2.UpdatedApplication) -> Told:
        """Its state has changed."""

    # What became of asks.

    def on_allocated(self, allocation: si_pb2.Allocation) -> Told:
        """An ask was placed on a node: start its pod there."""

    def on_ask_rejected(self, rejected: si_pb2.RejectedAllocationAsk) -> Told: ...

    def on_ask_withdrawn(self, withdrawn: si_pb2.AllocationAskRelease) -> Told:
        """The ask gets no more allocations. With TIMEOUT the scheduler has given it up, such as a placeholder whose
        gang timeout has expired; with STOPPED_BY_RM it confirms that the resource manager withdrew the ask, alone or
        with its application."""

    def on_release_wanted(self, release: si_pb2.AllocationRelease) -> Told:
        """The scheduler wants an allocation to be released: TIMEOUT, PREEMPTED_BY_SCHEDULER or PLACEHOLDER_REPLACED.

        End its pod here, and wait for the end of the pod. When this method, or the awaitable that it returned, is done,
        the client confirms the release, and the scheduler frees the room.
        """

    def on_released(self, release: si_pb2.AllocationRelease) -> Told:
        """An allocation is gone: the resource manager has released it, or removed its node or application. It is not
        called for an allocation that goes with its node after `on_release_wanted` was called for it."""

    # What became of the connection.

    def on_lost(self, reason: str) -> Told:
        """The connection was lost, and the client tries to restore it. `on_resumed` or `on_resynced` follows, or the
        client ends."""

    def on_resumed(self) -> Told:
        """The connection was lost and is restored; both sides continue where they were."""

    def on_report(self, applications: Sequence[str], nodes: Sequence[str]) -> None:
        """The scheduler has lost the state, and these are going to be reported to it again. What it has not answered
        so far it will not answer; it will answer each of these once."""

    def on_resynced(self) -> Told:
        """The scheduler had lost the state, and everything was reported to it again."""

    def report_application(self, added: si_pb2.AddApplicationRequest) -> None:
        """The application is about to be reported again, as it was sent. What has changed since may be changed in it:
        how much of its time is left, for example."""

    # What the scheduler asks and tells on the callback stream, which is opened if any of these is overridden.

    def predicates(self, call: callback_pb2.PredicatesCall) -> str | Awaitable[str | None] | None:
        """May this ask be placed on this node? None if so, or else why not: short, and the same for equal causes."""
        raise NotImplementedError

    def preemption_predicates(self, call: callback_pb2.PreemptionPredicatesCall) -> int | Awaitable[int | None] | None:
        """Which victims have to be preempted for this ask to fit on this node? The index of the last one in
        `preemptAllocationKeys`, not below `startIndex`; None if it would not fit even without all of them."""
        raise NotImplementedError

    def on_holds(self, holds: Sequence[callback_pb2.Hold], unholds: Sequence[callback_pb2.Unhold]) -> None:
        """Room that is held for members of gangs that declare their task groups (tag `schedulerd.io/task-groups`), as
        differences: first the unholds count. With `predicates`, these are asked before such room is held, too."""

    def on_holds_void(self) -> None:
        """What was held is not held any longer: a stream begins, on which all that is held is told anew."""

    def on_scheduling_states(self, states: Sequence[si_pb2.UpdateContainerSchedulingStateRequest]) -> Told:
        """Changes of the scheduling states of asks, in order: of those in `wanted_states`."""

    def on_pending_reasons(self, reasons: Sequence[callback_pb2.PendingReason]) -> Told:
        """Changes of why asks wait, as data, in order."""

    def on_application_notices(self, notices: Sequence[callback_pb2.ApplicationNotice]) -> Told:
        """What applications say and the scheduler has not followed, though it has accepted them, in order."""

    def on_events(self, events: Sequence[si_pb2.EventRecord]) -> Told:
        """Events of the scheduler, in order."""

    def state_dump(self) -> str | Awaitable[str]:
        """The resource manager's own state as JSON text, for an operator who asked the scheduler for it."""
        raise NotImplementedError

    def about_pod(self, namespace: str, name: str) -> str | Awaitable[str]:
        """What is known of a pod that was not asked for, or no longer is, as a sentence for somebody who asked the
        scheduler; '' if nothing is."""
        raise NotImplementedError

    def serves_callback(self, name: str) -> bool:
        """Whether the class has a method of its own for this callback, so that the scheduler may call it."""
        return getattr(type(self), name) is not getattr(ResourceManager, name)

    # Whole messages, for clients that prefer them: an override replaces all that the method does.

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
