"""The gRPC methods: `si.v1.Scheduler` and `schedulerd.v1.Admin`, mapped onto the owner and the links.

Handlers are registered by hand and not with the generated `add_..._to_server`, because the update streams pass bytes:
responses are serialised once when they are encoded (see `wire.encode`), and a request that is no protobuf message can
be answered with INVALID_ARGUMENT, where a deserialiser inside gRPC could only fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import PolicyGroupUnknown, QueueFileInvalid
from schedulerd.core.commands import Command, StopCause, StopResourceManager, UpdateApplications
from schedulerd.daemon.groups import GroupResolver
from schedulerd.daemon.links import REGISTERED_AGAIN, Links, rm_id_problem
from schedulerd.daemon.owner import Owner
from schedulerd.daemon.queue_files import QueueFiles
from schedulerd.daemon.streams import Dialogue, RequestT, ServicerContext, StreamSession
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.encode import Stream

SCHEDULER_SERVICE = si_pb2.DESCRIPTOR.services_by_name["Scheduler"].full_name
ADMIN_SERVICE = admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name

DETAILS_CHARACTERS_MAX = 4000
"""Of a status message; it travels as a header, and clients refuse headers of more than 8 kB."""

MessageT = TypeVar("MessageT", bound=Message)
UnaryContext = grpc.aio.ServicerContext[Message, Message]


class SchedulerService:
    """What the methods do. One object serves all resource managers."""

    def __init__(self, owner: Owner, links: Links, queue_files: QueueFiles, groups: GroupResolver) -> None:
        self._owner = owner
        self._links = links
        self._queue_files = queue_files
        self._groups = groups
        self._decoder = RequestDecoder()

    async def register(
        self, request: si_pb2.RegisterResourceManagerRequest, context: UnaryContext
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Answers when the scheduler has taken the RM with its partitions; until then none of its streams is accepted.

        INVALID_ARGUMENT without rmID, for a policy group that does not exist and for a queue file with problems, all of
        which are listed. The RM's earlier registration, if any, then goes on as if nothing had been sent.
        """
        problem = rm_id_problem(request.rmID)
        if problem is not None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        try:
            partitions = await self._queue_files.for_registration(request)
        except (PolicyGroupUnknown, QueueFileInvalid) as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _bounded(str(error)))
        self._links.drop(request.rmID, REGISTERED_AGAIN)
        await (await self._owner.submit(self._decoder.registration(request, partitions)))
        return si_pb2.RegisterResourceManagerResponse()

    async def unregister(
        self, request: admin_pb2.UnregisterResourceManagerRequest, context: UnaryContext
    ) -> admin_pb2.UnregisterResourceManagerResponse:
        """Answers when the RM's state is dropped and its streams are ending. NOT_FOUND if it is not registered."""
        problem = rm_id_problem(request.rmID)
        if problem is not None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        if not self._links.knows(request.rmID):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"rmID: {request.rmID!r} is not registered")
        await (await self._owner.submit(StopResourceManager(request.rmID, StopCause.UNREGISTERED)))
        return admin_pb2.UnregisterResourceManagerResponse()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """All methods, to be added to a `grpc.aio` server."""
        return [
            grpc.method_handlers_generic_handler(
                SCHEDULER_SERVICE,
                {
                    "RegisterResourceManager": _unary(si_pb2.RegisterResourceManagerRequest, self.register),
                    Stream.ALLOCATION.value: self._stream(
                        Dialogue(Stream.ALLOCATION, si_pb2.AllocationRequest.FromString, self._decoder.allocations)
                    ),
                    Stream.APPLICATION.value: self._stream(
                        Dialogue(
                            Stream.APPLICATION,
                            si_pb2.ApplicationRequest.FromString,
                            self._decoder.applications,
                            self._with_groups,
                        )
                    ),
                    Stream.NODE.value: self._stream(
                        Dialogue(Stream.NODE, si_pb2.NodeRequest.FromString, self._decoder.nodes)
                    ),
                },
            ),
            grpc.method_handlers_generic_handler(
                ADMIN_SERVICE,
                {"UnregisterResourceManager": _unary(admin_pb2.UnregisterResourceManagerRequest, self.unregister)},
            ),
        ]

    async def _with_groups(self, command: Command) -> Command:
        """Looks up the groups of users who came without any, where the queue file says so; in a thread: it blocks."""
        if isinstance(command, UpdateApplications):
            for at, new in enumerate(command.new):
                if not new.groups and self._queue_files.asks_system_for_groups(command.rm_id, new.partition):
                    command.new[at] = replace(new, groups=await asyncio.to_thread(self._groups.groups, new.user))
        return command

    def _stream(self, dialogue: Dialogue[RequestT]) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def serve(_requests: object, context: ServicerContext) -> None:
            await StreamSession(dialogue, self._links, self._owner, context).run()

        return grpc.stream_stream_rpc_method_handler(serve)


def _bounded(details: str) -> str:
    if len(details) <= DETAILS_CHARACTERS_MAX:
        return details
    return f"{details[:DETAILS_CHARACTERS_MAX]}... (shortened; `schedulerd validate` shows everything)"


def _unary(
    request_type: type[MessageT], serve: Callable[[MessageT, UnaryContext], Awaitable[Message]]
) -> grpc.RpcMethodHandler[MessageT, Message]:
    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=request_type.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
