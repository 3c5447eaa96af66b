"""The methods of a resource manager that its client calls; `ResourceManager` has all of them.

They are protocols, so that the client need not know the class that knows the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2

SchedulingStateValue = si_pb2.UpdateContainerSchedulingStateRequest.SchedulingState
Told = Awaitable[None] | None
"""What a method returns that is told something: None, or what an async one returns."""


class Updates(Protocol):
    """Is told what comes in on the update streams, and what becomes of the connection."""

    def take_nodes(self, response: si_pb2.NodeResponse) -> None: ...

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None: ...

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None: ...

    def on_lost(self, reason: str) -> Told: ...

    def on_resumed(self) -> Told: ...

    def on_report(self, applications: Sequence[str], nodes: Sequence[str]) -> None: ...

    def on_resynced(self) -> Told: ...

    def report_application(self, added: si_pb2.AddApplicationRequest) -> None: ...


class Callbacks(Protocol):
    """Is asked and told what comes in on the callback stream."""

    wanted_states: Sequence[SchedulingStateValue.ValueType]
    """Which scheduling states it is told; SKIPPED and FAILED if there is none in it."""

    def serves_callback(self, name: str) -> bool:
        """Whether the callback stream is to be opened with this one of the following methods."""

    def predicates(self, call: callback_pb2.PredicatesCall) -> str | Awaitable[str | None] | None: ...

    def preemption_predicates(
        self, call: callback_pb2.PreemptionPredicatesCall
    ) -> int | Awaitable[int | None] | None: ...

    def on_holds(self, holds: Sequence[callback_pb2.Hold], unholds: Sequence[callback_pb2.Unhold]) -> None: ...

    def on_holds_void(self) -> None: ...

    def on_scheduling_states(self, states: Sequence[si_pb2.UpdateContainerSchedulingStateRequest]) -> Told: ...

    def on_pending_reasons(self, reasons: Sequence[callback_pb2.PendingReason]) -> Told: ...

    def on_application_notices(self, notices: Sequence[callback_pb2.ApplicationNotice]) -> Told: ...

    def on_events(self, events: Sequence[si_pb2.EventRecord]) -> Told: ...

    def state_dump(self) -> str | Awaitable[str]: ...

    def about_pod(self, namespace: str, name: str) -> str | Awaitable[str]: ...
