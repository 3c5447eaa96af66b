"""The requests of a resource manager, as methods with plain Python values.

Amounts are whole numbers in the unit of their resource: thousandths for `vcore`, bytes for `memory`, pieces for
everything else. Results are the messages of the interface.

Methods queue an item and return at once, so they may be called from anywhere, callbacks included. Queued items are sent
together, many in a request, in the order of the calls on each of the three streams. Between the streams there is no
order; the scheduler waits for a short time for what another stream still has to bring.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import messages
from schedulerd.client.books import Books
from schedulerd.client.connection import Connection
from schedulerd.client.messages import Amounts, Tags
from schedulerd.client.reporting import Reporting
from schedulerd.client.request_lists import ASK_RELEASES, ASKS, NEW, NODES, RELEASES, REMOVE
from schedulerd.client.update_stream import UpdateStream

NODE_PARTITION_ATTRIBUTE = "si/node-partition"


class Requests(ABC):
    """All that can be sent on the three update streams.

    Every method raises the error that has ended the connection, if it has ended, and `SendQueueFull`. Methods that add
    something raise ValueError for an id of more than 1,024 characters.
    """

    def __init__(self, connection: Connection, reporting: Reporting, books: Books | None) -> None:
        self._connection = connection
        self._reporting = reporting
        self._books = books

    # Nodes.

    def add_node(
        self,
        node_id: str,
        resources: Amounts,
        *,
        occupied: Amounts | None = None,
        attributes: Tags | None = None,
        partition: str = "",
        existing: Iterable[si_pb2.Allocation] = (),
    ) -> asyncio.Future[None]:
        """Registers a node with its capacity, the use by other workloads (`occupied`) and its existing allocations.

        The result may be awaited: it is done when the node is accepted, and raises `NodeRejected`.
        """
        messages.check_id("node_id", node_id)
        answer = self._reporting.nodes.expect(node_id)
        self._say_node(
            messages.node(
                node_id,
                resources,
                occupied=occupied,
                attributes=_with_partition(attributes, partition),
                existing=existing,
            )
        )
        return answer

    def update_node(
        self,
        node_id: str,
        *,
        resources: Amounts | None = None,
        occupied: Amounts | None = None,
        attributes: Tags | None = None,
        partition: str = "",
        existing: Iterable[si_pb2.Allocation] = (),
    ) -> None:
        """Changes a node; values that are None stay as they are.

        Allocations that run there already (`existing`) are taken over: an ask with such a key is withdrawn, and an
        allocation with such a key on another node moves.
        """
        if attributes is not None or partition:
            attributes = _with_partition(attributes, partition)
        self._say_node(
            messages.node(
                node_id,
                resources,
                action=si_pb2.NodeInfo.UPDATE,
                occupied=occupied,
                attributes=attributes,
                existing=existing,
            )
        )

    def drain_node(self, node_id: str, *, partition: str = "") -> None:
        """Drains the node: no new allocations are placed on it."""
        self._change_node(node_id, si_pb2.NodeInfo.DRAIN_NODE, partition)

    def undrain_node(self, node_id: str, *, partition: str = "") -> None:
        """Ends the drain of a node: allocations may be placed on it again."""
        self._change_node(node_id, si_pb2.NodeInfo.DRAIN_TO_SCHEDULABLE, partition)

    def remove_node(self, node_id: str, *, partition: str = "") -> None:
        """Removes the node at once; `on_released` is called for all allocations on it."""
        self._change_node(node_id, si_pb2.NodeInfo.DECOMISSION, partition)

    # Applications.

    def add_application(
        self,
        application_id: str,
        queue: str,
        *,
        user: str,
        groups: Sequence[str] = (),
        partition: str = "",
        tags: Tags | None = None,
        execution_timeout_ms: int = 0,
        placeholders: Amounts | None = None,
        gang_style: str = "",
        asked_at_ns: int | None = None,
    ) -> asyncio.Future[None]:
        """Adds an application. With `placeholders`, the sum of all its placeholders, it is a gang, and
        `execution_timeout_ms` is its gang timeout. `asked_at_ns`, in nanoseconds since the Unix epoch, says from when
        its age counts, if it is older than this message.

        The result may be awaited: it is done when the application is accepted, and raises `ApplicationRejected`.
        """
        messages.check_id("application_id", application_id)
        self._check(self._connection.applications)
        answer = self._reporting.applications.expect(application_id)
        added = si_pb2.AddApplicationRequest(
            applicationID=application_id,
            queueName=queue,
            partitionName=partition,
            ugi=si_pb2.UserGroupInformation(user=user, groups=groups),
            tags=messages.application_tags(tags, asked_at_ns),
            executionTimeoutMilliSeconds=execution_timeout_ms,
            placeholderAsk=None if placeholders is None else messages.resource(placeholders),
            gangSchedulingStyle=gang_style,
        )
        self._note_application(added)
        self._connection.applications.add(NEW, added)
        return answer

    def remove_application(self, application_id: str, *, partition: str = "") -> None:
        """Removes an application with its asks; `on_released` is called for each of its allocations."""
        self._check(self._connection.applications)
        if self._books is not None:
            self._books.sent_removal(application_id)
        removal = si_pb2.RemoveApplicationRequest(applicationID=application_id, partitionName=partition)
        self._connection.applications.add(REMOVE, removal)

    # Asks and allocations.

    def ask(
        self,
        application_id: str,
        key: str,
        resources: Amounts,
        *,
        count: int = 1,
        partition: str = "",
        priority: int = 0,
        tags: Tags | None = None,
        execution_timeout_ms: int = 0,
        task_group: str = "",
        placeholder: bool = False,
        originator: bool = False,
        allow_preempt_self: bool = True,
        allow_preempt_other: bool = False,
        predicates: bool = True,
        asked_at_ns: int | None = None,
    ) -> None:
        """Asks for `count` allocations of `resources` each; `on_allocated` is called for each allocation.

        `key` is unique in the application, and comes back with each allocation. Another ask with the same key changes
        this one. Without `predicates` the methods of that name are not called for the ask. `asked_at_ns`, in
        nanoseconds since the epoch and not in the future, is when the ask was made first: it has that age, and goes
        before asks that were made later.
        """
        messages.check_id("application_id", application_id)
        messages.check_id("key", key)
        self._check(self._connection.allocations)
        ask = si_pb2.AllocationAsk()
        ask.CopyFrom(
            messages.ask_template(
                application_id,
                partition,
                tuple(resources.items()),
                count,
                priority,
                execution_timeout_ms,
                task_group,
                placeholder,
                originator,
                allow_preempt_self,
                allow_preempt_other,
            )
        )
        ask.allocationKey = key
        own_tags = ask.tags
        for name, value in messages.ask_tags(tags, predicates=predicates, asked_at_ns=asked_at_ns).items():
            own_tags[name] = value
        content = ask.SerializeToString()
        if self._books is not None:
            self._books.sent_ask(ask, content)
        self._connection.allocations.add_serialised(ASKS, content)

    def withdraw(self, application_id: str, key: str = "", *, partition: str = "") -> None:
        """Withdraws the pending part of an ask, or with an empty `key` of all asks of the application.

        `on_ask_withdrawn` is called for each ask that was still pending. Allocations that are already on their way come
        before that.
        """
        self._check(self._connection.allocations)
        release = si_pb2.AllocationAskRelease(
            partitionName=partition,
            applicationID=application_id,
            allocationKey=key,
            terminationType=si_pb2.STOPPED_BY_RM,
        )
        if self._books is not None:
            self._books.sent_ask_release(release)
        self._connection.allocations.add(ASK_RELEASES, release)

    def release(self, allocation: si_pb2.Allocation, message: str = "") -> None:
        """Releases an allocation: its pod has ended. `on_released` is called when the room is free."""
        self._say_release(messages.release(allocation, si_pb2.STOPPED_BY_RM, message))

    def confirm(self, release: si_pb2.AllocationRelease) -> None:
        """Confirms a release that the scheduler requested. `ResourceManager` calls this itself after
        `on_release_wanted`."""
        termination = release.terminationType
        if self._books is not None and not self._books.is_wanted_back(release):
            # The scheduler that wanted it has forgotten everything since; the present one waits for nothing.
            termination = si_pb2.STOPPED_BY_RM
        self._say_release(messages.release(release, termination))

    def allocations(self) -> list[si_pb2.Allocation]:
        """The existing allocations, according to the books."""
        if self._books is None:
            raise RuntimeError("a client with resync=False keeps no books")
        return list(self._books.allocations())

    # Messages as they are, and the connection.

    def send(self, request: si_pb2.NodeRequest | si_pb2.ApplicationRequest | si_pb2.AllocationRequest) -> None:
        """Sends a whole request; only its rmID is set. The request belongs to the client from here on."""
        if isinstance(request, si_pb2.AllocationRequest):
            self._send_allocations(request)
        elif isinstance(request, si_pb2.ApplicationRequest):
            self._send_applications(request)
        else:
            self._check(self._connection.nodes, len(request.nodes))
            if self._books is not None:
                for info in request.nodes:
                    self._books.sent_node(info)
            self._connection.nodes.put(request, len(request.nodes))

    async def drain(self) -> None:
        """Waits until the scheduler has taken most of the queued items. A client that sends a lot should await this now
        and then, but not in callbacks: the scheduler takes no more while its own responses are not read."""
        for stream in self._connection.streams:
            await stream.drain()

    def _send_applications(self, request: si_pb2.ApplicationRequest) -> None:
        items = len(request.new) + len(request.remove)
        self._check(self._connection.applications, items)
        for added in request.new:
            self._note_application(added)
        if self._books is not None:
            for removal in request.remove:
                self._books.sent_removal(removal.applicationID)
        self._connection.applications.put(request, items)

    def _note_application(self, added: si_pb2.AddApplicationRequest) -> None:
        if self._books is None:
            return
        if self._books.takes_removal_due(added.applicationID):
            removal = si_pb2.RemoveApplicationRequest(
                applicationID=added.applicationID, partitionName=added.partitionName
            )
            self._connection.applications.add(REMOVE, removal)
        self._books.sent_application(added)

    def _send_allocations(self, request: si_pb2.AllocationRequest) -> None:
        releases, ask_releases = request.releases.allocationsToRelease, request.releases.allocationAsksToRelease
        items = len(request.asks) + len(releases) + len(ask_releases)
        self._check(self._connection.allocations, items)
        if self._books is not None:
            for ask in request.asks:
                self._books.sent_ask(ask)
            for release in releases:
                self._books.sent_release(release)
            for ask_release in ask_releases:
                self._books.sent_ask_release(ask_release)
        self._connection.allocations.put(request, items)

    def _change_node(self, node_id: str, action: si_pb2.NodeInfo.ActionFromRM.ValueType, partition: str) -> None:
        self._say_node(messages.node(node_id, None, action=action, attributes=_with_partition(None, partition)))

    def _say_node(self, info: si_pb2.NodeInfo) -> None:
        self._check(self._connection.nodes)
        if self._books is not None:
            self._books.sent_node(info)
        self._connection.nodes.add(NODES, info)

    def _say_release(self, release: si_pb2.AllocationRelease) -> None:
        self._check(self._connection.allocations)
        if self._books is not None:
            self._books.sent_release(release)
        self._connection.allocations.add(RELEASES, release)

    def _check(self, stream: UpdateStream[Any, Any], items: int = 1) -> None:
        self._check_alive()
        stream.check_room(items)

    @abstractmethod
    def _check_alive(self) -> None:
        """Raises the error that has ended the connection, if it has ended."""


def _with_partition(attributes: Tags | None, partition: str) -> Tags:
    named = {} if not partition else {NODE_PARTITION_ATTRIBUTE: partition}
    return {**(attributes or {}), **named}
