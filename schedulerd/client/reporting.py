"""Handles responses: updates the books, resolves pending answers, and calls the resource manager.

It also makes the full report for a scheduler that has lost the state, in the order in which the scheduler can use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.books import Books
from schedulerd.client.connection import Connection
from schedulerd.client.errors import ApplicationRejected, NodeRejected, SchedulerError
from schedulerd.client.request_lists import ASKS, NEW, NODES, RELEASES, REMOVE
from schedulerd.client.rm_methods import Told, Updates


class Answers:
    """The futures of items that are not accepted yet, by id."""

    def __init__(self, rejection: Callable[[str, str], Exception]) -> None:
        self._rejection = rejection
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._reported: set[str] = set()
        """Ids of the report that are not answered yet."""
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    def expect(self, item_id: str) -> asyncio.Future[None]:
        """Done when the item is accepted; its rejection is its exception. Raises ValueError if it is expected twice."""
        if item_id in self._waiting:
            raise ValueError(f"{item_id!r} was sent before and is not answered yet")
        answer = self._waiting[item_id] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_look_at)
        return answer

    def accepted(self, item_id: str) -> None:
        answer = self._answered(item_id)
        if answer is not None:
            answer.set_result(None)

    def rejected(self, item_id: str, reason: str) -> None:
        answer = self._answered(item_id)
        if answer is not None:
            answer.set_exception(self._rejection(item_id, reason))

    def reported(self, item_ids: Iterable[str]) -> None:
        """These are in the report."""
        self._reported = set(item_ids)
        if self._reported:
            self._all_answered.clear()
        else:
            self._all_answered.set()

    async def all_answered(self) -> None:
        """Returns when everything that was reported is answered."""
        await self._all_answered.wait()

    def _answered(self, item_id: str) -> asyncio.Future[None] | None:
        """The future of this answer, if it still waits."""
        self._reported.discard(item_id)
        if not self._reported:
            self._all_answered.set()
        answer = self._waiting.pop(item_id, None)
        return None if answer is None or answer.done() else answer


class Reporting:
    """The listener of a connection."""

    def __init__(self, rm: Updates, books: Books | None, spawn: Callable[[Awaitable[None]], None]) -> None:
        """`spawn` runs what an async method has returned."""
        self.nodes = Answers(NodeRejected)
        self.applications = Answers(ApplicationRejected)
        self._rm = rm
        self._spawn = spawn
        self._books = books
        self._is_first = True

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        if self._books is not None:
            self._books.heard_nodes(response)
        for accepted in response.accepted:
            self.nodes.accepted(accepted.nodeID)
        for rejected in response.rejected:
            self.nodes.rejected(rejected.nodeID, rejected.reason)
        self._rm.take_nodes(response)

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        if self._books is not None:
            self._books.heard_applications(response)
        for accepted in response.accepted:
            self.applications.accepted(accepted.applicationID)
        for rejected in response.rejected:
            self.applications.rejected(rejected.applicationID, rejected.reason)
        self._rm.take_applications(response)

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        if self._books is not None:
            self._books.heard_allocations(response)
        self._rm.take_allocations(response)

    def lost(self, loss: SchedulerError) -> None:
        self._tell(self._rm.on_lost(str(loss)))

    def resumed(self) -> None:
        self._tell(self._rm.on_resumed())

    def report(self, connection: Connection) -> None:
        if self._books is None:
            return
        applications = list(self._books.report.applications())
        nodes = list(self._books.report.nodes())
        self.applications.reported(added.applicationID for added in applications)
        self.nodes.reported(info.nodeID for info in nodes)
        if applications or nodes or not self._is_first:
            self._rm.on_report([added.applicationID for added in applications], [info.nodeID for info in nodes])
        for added in applications:
            self._rm.report_application(added)
            self._books.report.application_changed(added)
            connection.applications.add(NEW, added)
        for info in (*nodes, *self._books.report.changes_of_nodes()):
            connection.nodes.add(NODES, info)

    async def applications_answered(self) -> None:
        await self.applications.all_answered()

    async def nodes_answered(self) -> None:
        await self.applications.all_answered()
        await self.nodes.all_answered()

    def report_asks(self, connection: Connection) -> None:
        if self._books is not None:
            for ask in self._books.report.asks():
                connection.allocations.add(ASKS, ask)
            for release in self._books.report.releases():
                connection.allocations.add(RELEASES, release)
            for ask in self._books.report.asks_anew():
                connection.allocations.add(ASKS, ask)
            for removal in self._books.report.removals():
                connection.applications.add(REMOVE, removal)
        if not self._is_first:
            self._tell(self._rm.on_resynced())
        self._is_first = False

    def _tell(self, told: Told) -> None:
        if told is not None:
            self._spawn(told)


def _look_at(answer: asyncio.Future[None]) -> None:
    """Marks an exception as retrieved: a caller that does not await the answer gets the rejection by callback."""
    if not answer.cancelled():
        answer.exception()
