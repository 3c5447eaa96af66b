"""A resource manager's connection: registered, its streams open, and opened again after a loss.

What it does when the streams are lost depends on what is certain then. If the scheduler has kept its side and goes on
where the calls broke off, so does the client. Otherwise what was on its way is in doubt on both sides: it registers
again, which clears that, and reports everything. The streams of nodes and applications come first then, and the
stream of allocations when all of that is answered: nothing is placed before it is open, so nothing can be placed on
what is only half reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
from grpc import aio

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2, si_pb2_grpc
from schedulerd.client.callback_stream import CallbackStream
from schedulerd.client.errors import (
    RegistrationRejected,
    ResyncRequired,
    SchedulerError,
    SchedulerUnreachable,
    StreamRefused,
    Superseded,
    status_text,
)
from schedulerd.client.request_lists import ALLOCATION_LISTS, APPLICATION_LISTS, NODE_LISTS
from schedulerd.client.update_stream import UpdateStream

BACKOFF_FIRST_S = 0.05
BACKOFF_MOST_S = 1.0
STABLE_AFTER_S = 1.0
"""Streams that lived shorter than this did not end the outage before them."""
CLOSE_TIMEOUT_S = 2.0
"""Time for the scheduler to read everything and close the streams; after that the client closes them itself."""
REGISTER_TIMEOUT_S = 30.0
"""For the answer to a registration after a loss."""
UNREGISTER_TIMEOUT_S = 5.0

_LOST = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN})
_NO_ANSWER = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""A server that is stopped answers CANCELLED to calls that it has not begun to serve."""
_WRITE_FAILED = (grpc.StatusCode.INTERNAL, "Internal error from Core")
"""What `grpc.aio` says when a stream ended while a message was written to it, in place of how it ended
(grpc/grpc#36066). A server that ended it for a reason says so again to the next one."""
_RESYNC = "RESYNC"
"""How the details of ABORTED begin when the scheduler itself has dropped the state of the resource manager."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a resource manager registers with (SI `RegisterResourceManagerRequest`)."""

    rm_id: str
    policy_group: str = ""
    config: str = field(default="", repr=False)
    """Queue file as YAML; wins over the one that `policy_group` picks."""
    build_info: Mapping[str, str] = field(default_factory=dict)


class Listener(Protocol):
    """Receives all responses and makes the report. Called from the event loop, in the order of each stream."""

    def take_nodes(self, response: si_pb2.NodeResponse) -> None: ...

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None: ...

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None: ...

    def lost(self, loss: SchedulerError) -> None:
        """The streams were lost, and are opened again. Called once for all attempts at that."""

    def resumed(self) -> None:
        """The streams were lost, and the scheduler goes on with all of them where they were; nothing was lost."""

    def report(self, connection: Connection) -> None:
        """Called after a registration, when earlier queued items are void: queues all applications and nodes."""

    async def applications_answered(self) -> None:
        """Returns when all applications of the report are answered."""

    async def nodes_answered(self) -> None:
        """Returns when all nodes of the report are answered."""

    def report_asks(self, connection: Connection) -> None:
        """Queues the rest of the report: the stream of allocations is about to be opened."""


class Connection:
    """Serves a listener from `start` until `close` or a failure, which is the exception of the task `over`.

    `reconnect_timeout_s` bounds how long a lost connection may stay lost; 0 gives up at once. Without `resync` it
    registers once only, and fails where it would have to do so again.
    """

    def __init__(
        self,
        target: str,
        channel: aio.Channel,
        registration: Registration,
        listener: Listener,
        callbacks: CallbackStream | None,
        *,
        reconnect_timeout_s: float,
        resync: bool,
    ) -> None:
        rm_id = registration.rm_id
        self.nodes = UpdateStream(
            "UpdateNode",
            channel,
            si_pb2.NodeRequest,
            NODE_LISTS,
            si_pb2.NodeResponse.FromString,
            rm_id,
            listener.take_nodes,
            self._stream_accepted,
        )
        self.applications = UpdateStream(
            "UpdateApplication",
            channel,
            si_pb2.ApplicationRequest,
            APPLICATION_LISTS,
            si_pb2.ApplicationResponse.FromString,
            rm_id,
            listener.take_applications,
            self._stream_accepted,
        )
        self.allocations = UpdateStream(
            "UpdateAllocation",
            channel,
            si_pb2.AllocationRequest,
            ALLOCATION_LISTS,
            si_pb2.AllocationResponse.FromString,
            rm_id,
            listener.take_allocations,
            self._stream_accepted,
        )
        self.times_resumed = self.times_resynced = 0
        self.over: asyncio.Task[None] | None = None
        self._target = target
        self._channel = channel
        self._rm_id = rm_id
        self._request = si_pb2.RegisterResourceManagerRequest(
            rmID=rm_id,
            version="2023-06",
            policyGroup=registration.policy_group,
            config=registration.config,
            buildInfo=registration.build_info,
        )
        self._register_method = si_pb2_grpc.SchedulerStub(channel).RegisterResourceManager
        self._unregister_method = admin_pb2_grpc.AdminStub(channel).UnregisterResourceManager
        self._listener = listener
        self._callbacks = callbacks
        self._reconnect_timeout_s = reconnect_timeout_s
        self._resync = resync
        self._reports = self._conversing = self._closing = self._is_lost = False
        self._resuming = False
        """After a loss, until all streams are accepted where they broke off."""

    @property
    def streams(self) -> tuple[UpdateStream[Any, Any], ...]:
        return (self.nodes, self.applications, self.allocations)

    @property
    def is_settled(self) -> bool:
        """The streams are open, and a report that was to be made is made."""
        if not self._conversing or self._reports:
            return False
        return all(stream.is_accepted or not stream.resumes for stream in self.streams)

    async def start(self, timeout_s: float) -> None:
        """Registers, waiting up to `timeout_s` for a scheduler that is not there yet, and then serves on its own.

        Raises `SchedulerUnreachable` or `RegistrationRejected`.
        """
        try:
            await asyncio.wait_for(self._channel.channel_ready(), timeout_s)
        except TimeoutError:
            raise SchedulerUnreachable(f"no scheduler answers at {self._target} (waited {timeout_s:g} s)") from None
        await self._register(timeout_s)
        self.over = asyncio.create_task(self._serve(), name=f"connection of {self._rm_id}")

    async def close(self) -> None:
        """Sends what is queued, if the scheduler is there, and ends the streams and the connection."""
        self._closing = True
        if self.over is not None:
            if self._conversing:
                for stream in self.streams:
                    stream.finish()
                await asyncio.wait({self.over}, timeout=CLOSE_TIMEOUT_S)
            self.over.cancel()
            await asyncio.gather(self.over, return_exceptions=True)
        await self._channel.close(None)

    async def abandon(self) -> None:
        """Ends the connection at once; what is queued or on its way is lost."""
        self._conversing = False
        await self.close()

    async def unregister(self) -> None:
        """Unregisters this resource manager. SI has no message for it; a scheduler without ours notices the closed
        streams."""
        self._closing = True
        if self.over is not None:
            self.over.cancel()
        request = admin_pb2.UnregisterResourceManagerRequest(rmID=self._rm_id)
        try:
            await self._unregister_method(request, timeout=UNREGISTER_TIMEOUT_S)
        except aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
                raise SchedulerUnreachable(f"cannot unregister {self._rm_id!r}: {status_text(error)}") from error

    async def _register(self, timeout_s: float) -> None:
        try:
            await self._register_method(self._request, timeout=timeout_s)
        except aio.AioRpcError as error:
            if error.code() in _NO_ANSWER:
                raise SchedulerUnreachable(f"no answer from {self._target}: {status_text(error)}") from error
            raise RegistrationRejected(
                f"{self._target} rejects the registration of {self._rm_id!r}: {status_text(error)}"
            ) from error
        for stream in self.streams:
            stream.begin_anew()
        self._reports = True
        self._listener.report(self)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        outage_s, backoff_s = loop.time(), BACKOFF_FIRST_S
        while True:
            opened_s = loop.time()
            loss = await self._converse()
            if loss is None:
                return
            if loop.time() - opened_s > STABLE_AFTER_S:
                outage_s, backoff_s = loop.time(), BACKOFF_FIRST_S
            is_new = isinstance(loss, ResyncRequired) or not all(stream.resumes for stream in self.streams)
            if is_new and not self._resync:
                raise loss
            if not self._is_lost:
                self._is_lost = True
                self._listener.lost(loss)
            backoff_s = await self._come_back(loss, outage_s + self._reconnect_timeout_s, backoff_s, is_new)
            self._resuming = not is_new
            if is_new:
                self.times_resynced += 1

    async def _come_back(self, loss: SchedulerError, deadline_s: float, backoff_s: float, register: bool) -> float:
        """Returns when the scheduler is there again, with the next backoff; raises `loss` if that takes too long."""
        loop = asyncio.get_running_loop()
        while True:
            if loop.time() + backoff_s > deadline_s:
                raise loss
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MOST_S)
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._channel.channel_ready()
                if register:
                    await self._register(min(REGISTER_TIMEOUT_S, deadline_s - loop.time()))
            except TimeoutError:
                raise loss from None
            except SchedulerUnreachable:
                continue
            return backoff_s

    async def _converse(self) -> SchedulerError | None:
        """Opens the streams, those first that a report needs first, and serves them until one ends.

        Gives the loss, or None if the client has closed them.
        Raises what cannot be helped by opening them again.
        """
        running = {
            asyncio.create_task(self.applications.run()): self.applications.name,
            asyncio.create_task(self._run_nodes()): self.nodes.name,
            asyncio.create_task(self._run_allocations()): self.allocations.name,
        }
        if self._callbacks is not None:
            running[asyncio.create_task(self._callbacks.run())] = self._callbacks.name
        self._conversing = True
        try:
            return await self._first_loss(running)
        finally:
            self._conversing = False
            for part in running:
                part.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _stream_accepted(self) -> None:
        if self._resuming and all(stream.is_accepted for stream in self.streams):
            self._resuming = self._is_lost = False
            self.times_resumed += 1
            self._listener.resumed()

    async def _first_loss(self, running: Mapping[asyncio.Task[None], str]) -> SchedulerError | None:
        waiting = set(running)
        while True:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            losses = [self._loss(part, running[part]) for part in ended]
            if not self._closing:
                return next((loss for loss in losses if isinstance(loss, ResyncRequired)), losses[0])
            if all(
                part.done() for part, name in running.items() if self._callbacks is None or name != self._callbacks.name
            ):
                return None

    async def _run_nodes(self) -> None:
        if self._reports:
            await self._listener.applications_answered()
        await self.nodes.run()

    async def _run_allocations(self) -> None:
        if self._callbacks is not None:
            await self._callbacks.connected.wait()
        if self._reports:
            await self._listener.nodes_answered()
            self._reports = self._is_lost = False
            self._listener.report_asks(self)
        await self.allocations.run()

    def _loss(self, part: asyncio.Task[None], name: str) -> SchedulerError:
        try:
            part.result()
        except aio.AioRpcError as error:
            code, details = error.code(), error.details() or ""
            who = f"{self._rm_id!r} at {self._target}"
            if code is grpc.StatusCode.FAILED_PRECONDITION or (
                code is grpc.StatusCode.ABORTED and details.startswith(_RESYNC)
            ):
                return ResyncRequired(f"the scheduler no longer knows {who}: {status_text(error)}")
            if code is grpc.StatusCode.ABORTED:
                raise Superseded(f"another client has registered as {who}: {status_text(error)}") from error
            if code not in _LOST and (code, details) != _WRITE_FAILED:
                raise StreamRefused(f"{self._target} ended the {name} stream: {status_text(error)}") from error
            return SchedulerUnreachable(f"lost the scheduler at {self._target}: {status_text(error)}")
        return SchedulerUnreachable(f"{self._target} closed the {name} stream")
