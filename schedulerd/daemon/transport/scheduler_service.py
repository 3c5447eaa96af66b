"""The gRPC methods of `si.v1.Scheduler`, mapped to the owner and the sessions.

Handlers are registered by hand and not with the generated `add_..._to_server`, because the update streams pass bytes:
responses are serialised once when they are encoded (see `wire.encode`), and a request that is no protobuf message gets
INVALID_ARGUMENT, where a deserialiser inside gRPC could only fail (for the other methods see `request_reading`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

import grpc
import structlog

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.config import PolicyGroupUnknown, QueueFileInvalid
from schedulerd.core.language.commands import (
    AbsenceCause,
    Command,
    DisconnectResourceManager,
    RegisterResourceManager,
    UpdateApplications,
)
from schedulerd.core.language.facts.fact import ItemIgnored
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.access.methods import UnaryContext, bounded, unary
from schedulerd.daemon.access.rm_ids import rm_id_problem
from schedulerd.daemon.files.queue_files import QueueFiles, reasons_of
from schedulerd.daemon.files.reloads import Reloads
from schedulerd.daemon.runtime.groups import Groups
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.daemon.sessions.open_calls import CloseReason, Refused
from schedulerd.daemon.sessions.rm_sessions import REGISTERED_AGAIN, RmSessions
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.daemon.transport.stream_call import ServicerContext
from schedulerd.daemon.transport.update_stream import RequestT, UpdateMethod, UpdateStream
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.decode_2021 import UpdateDecoder
from schedulerd.wire.dialect import Stream
from schedulerd.wire.response_builder_2021 import RESYNC_RESPONSE

SCHEDULER_SERVICE = si_pb2.DESCRIPTOR.services_by_name["Scheduler"].full_name
REGISTER = "RegisterResourceManager"

log = structlog.stdlib.get_logger(__name__)


class SchedulerService:
    """Implements the methods. One object serves all resource managers."""

    def __init__(
        self,
        owner: Owner,
        access: GrpcAccess,
        sessions: RmSessions,
        queue_files: QueueFiles,
        reloads: Reloads,
        resource_managers: Mapping[str, ResourceManager],
        groups: Groups,
        priority_classes: Mapping[str, int],
        limits: RequestLimits,
        gang_style_2021: str = "Hard",
    ) -> None:
        """`resource_managers` belongs to the scheduler and is read on its loop. `priority_classes` and
        `gang_style_2021` are settings."""
        self._owner = owner
        self._limits = limits
        self._resource_managers = resource_managers
        self._reloads = reloads
        self._access = access
        self._sessions = sessions
        self._queue_files = queue_files
        self._groups = groups
        self._registered_by: dict[str, str] = {}
        """By rmID, the client that registered it, where clients are known by their certificates."""
        self._decoder = RequestDecoder()
        self._update_decoder = UpdateDecoder(
            self._decoder.shared, priority_classes, gang_style_2021, self._decoder.ages
        )

    async def register(
        self, request: si_pb2.RegisterResourceManagerRequest, context: UnaryContext
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Responds when the scheduler has accepted the RM with its partitions. Before that its streams are refused.

        INVALID_ARGUMENT for an invalid rmID, for a policy group that does not exist and for a queue file with problems,
        all of which are listed, if no earlier text of that file was valid. RESOURCE_EXHAUSTED if there are too many
        RMs, or too many texts wait to be parsed. In these cases an earlier registration of the RM is not affected.
        """
        problem = rm_id_problem(request.rmID)
        if problem is not None:
            await self._refuse(request, context, CloseReason(grpc.StatusCode.INVALID_ARGUMENT, problem))
        log.info("registration", request=request, peer=context.peer())
        try:
            client = self._access.identities.client(context, "")
            self._limits.check_registration(request, self._resource_managers, self._of_client(client))
        except Refused as refusal:
            await self._refuse(request, context, refusal.ending)
        reloads_before = self._reloads.started
        try:
            loaded = await self._queue_files.for_registration(
                request.rmID, request.config, request.policyGroup, client or request.rmID
            )
        except (PolicyGroupUnknown, QueueFileInvalid) as error:
            ending = CloseReason(grpc.StatusCode.INVALID_ARGUMENT, bounded(str(error)))
            reasons = reasons_of(error, is_sent=bool(request.config))
            await self._refuse(request, context, ending, "; ".join(reasons))
        except Busy as error:
            await self._refuse(request, context, CloseReason(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)))
        command = self._decoder.registration(request, loaded.partitions, loaded.configuration)
        if client:
            self._registered_by[request.rmID] = client
        # From here on the task runs to its end even if the call is cancelled: half of it would leave an RM without
        # streams.
        taken = asyncio.create_task(self._take(command))
        refused = await asyncio.shield(taken)
        if refused is not None:
            await self._refuse(request, context, CloseReason(grpc.StatusCode.INTERNAL, bounded(refused)))
        if self._reloads.started != reloads_before:
            # The file may have changed after it was read here and before the reload could know of this RM.
            self._reloads.request()
        return si_pb2.RegisterResourceManagerResponse()

    async def _take(self, command: RegisterResourceManager) -> str | None:
        """Ends the streams of the earlier registration and submits this one; returns why it was refused, or None."""
        self._sessions.drop(command.rm_id, REGISTERED_AGAIN)
        facts = await (await self._owner.submit(command, len(command.configuration.text)))
        refused = next((fact.reason for fact in facts if isinstance(fact, ItemIgnored)), None)
        if refused is not None:
            self._owner.post(DisconnectResourceManager(command.rm_id, AbsenceCause.GONE))
        return refused

    def _of_client(self, client: str) -> list[str]:
        """The registered rmIDs whose last registration was by this client."""
        registered = self._resource_managers
        self._registered_by = {rm_id: one for rm_id, one in self._registered_by.items() if rm_id in registered}
        return [rm_id for rm_id, one in self._registered_by.items() if one == client]

    async def _refuse(
        self,
        request: si_pb2.RegisterResourceManagerRequest,
        context: UnaryContext,
        ending: CloseReason,
        for_log: str = "",
    ) -> NoReturn:
        """`for_log` is logged instead of the details that the client gets."""
        reason, peer = for_log or ending.details, context.peer()
        self._access.refusals.tell(REGISTER, ending.code, reason, rm_id=request.rmID, peer=peer)
        await context.abort(ending.code, ending.details)

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """The handlers of all methods, to be added to a `grpc.aio` server."""
        return [
            grpc.method_handlers_generic_handler(
                SCHEDULER_SERVICE,
                {
                    REGISTER: unary(si_pb2.RegisterResourceManagerRequest, self.register),
                    Stream.ALLOCATION.value: self._stream(
                        UpdateMethod(
                            Stream.ALLOCATION, self._limits.parser(si_pb2.AllocationRequest), self._decoder.allocations
                        )
                    ),
                    Stream.APPLICATION.value: self._stream(
                        UpdateMethod(
                            Stream.APPLICATION,
                            self._limits.parser(si_pb2.ApplicationRequest),
                            self._decoder.applications,
                            self._with_groups,
                        )
                    ),
                    Stream.NODE.value: self._stream(
                        UpdateMethod(Stream.NODE, self._limits.parser(si_pb2.NodeRequest), self._decoder.nodes)
                    ),
                    Stream.UPDATE.value: self._stream(
                        UpdateMethod(
                            Stream.UPDATE,
                            self._limits.parser(si_2021_pb2.UpdateRequest),
                            self._update_decoder.commands,
                            self._with_groups,
                            RESYNC_RESPONSE,
                        )
                    ),
                },
            ),
        ]

    async def _with_groups(self, command: Command) -> Command:
        """Adds the groups of users that were sent without groups, if the queue file says so."""
        if isinstance(command, UpdateApplications):
            for at, new in enumerate(command.new):
                if not new.groups and self._asks_system_for_groups(command.rm_id, new.partition):
                    command.new[at] = replace(new, groups=await self._groups.groups(new.user))
        return command

    def _asks_system_for_groups(self, rm_id: str, partition: str) -> bool:
        """Whether groups of users in this partition, named as in a message, come from the operating system."""
        rm = self._resource_managers.get(rm_id)
        found = rm.partition(partition) if rm is not None else None
        return rm is not None and found is not None and found.name in rm.configuration.os_group_partitions

    def _stream(self, update: UpdateMethod[RequestT]) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def serve(_requests: object, context: ServicerContext) -> None:
            await UpdateStream(update, self._access, self._sessions, self._owner, context).run()

        return grpc.stream_stream_rpc_method_handler(serve)
