"""The gRPC methods of `schedulerd.v1.Admin` that read the state: the state dump, and the metrics for autoscalers.

`protos/schedulerd/v1/admin.proto` describes the methods for clients.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NoReturn

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.autoscaling.summary import outstanding_requests
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.access.identity import EVERYBODY, Identities
from schedulerd.daemon.access.methods import UnaryContext, bounded, unary
from schedulerd.daemon.admin.admin_service import ADMIN_SERVICE
from schedulerd.daemon.admin.debug_state import LIMIT_MAX, StateParameters
from schedulerd.daemon.admin.state_queries import QUERIES_MAX, StateQueries
from schedulerd.daemon.runtime.shares import NoneLeft
from schedulerd.daemon.runtime.workers import Busy, Workers
from schedulerd.wire import autoscaling
from schedulerd.wire.callback import NoStateDump

DUMP_TIMEOUT_SECONDS = 5.0
"""How long a resource manager may take to send its state dump."""

DUMPS_WAITING_MAX = QUERIES_MAX * LIMIT_MAX
"""Maximum number of dumps that wait to be checked: those of as many responses as can be open."""

ANSWER_BYTES_MAX = 4_000_000
"""Maximum size of a response. A gRPC client accepts 4 MiB by default."""

DUMPS_BYTES_MAX = 2 * 1024 * 1024
"""Maximum total size of the dumps of resource managers in a response."""

DUMPS_HELD_MAX = 32 * 1024 * 1024
"""Maximum number of characters of all dumps that wait to be checked or sent, over all responses."""

STATE_BYTES_MAX = 2_000_000
"""Maximum size of the scheduler's own dump in a response. A larger dump is made again with fewer objects."""

BESIDE_BYTES = 200
"""Bytes of a response for a resource manager beside its rmID, dump and problem: the sentence that there was no room."""

LIMITS = (LIMIT_MAX, LIMIT_MAX // 10, LIMIT_MAX // 100)
"""Maximum number of objects of each kind in the scheduler's own dump: for the first attempt and the next ones."""


class StateService:
    """Implements the methods."""

    def __init__(
        self,
        resource_managers: Mapping[str, ResourceManager],
        check_registered: Callable[[str, UnaryContext], Awaitable[None]],
        looks: StateQueries,
        dump_of: Callable[[str, float], Awaitable[str]],
        identities: Identities = EVERYBODY,
    ) -> None:
        """`resource_managers` belongs to the scheduler and is read on its loop.

        `dump_of` asks a resource manager for its own dump, with a timeout in seconds, and raises `NoStateDump`.
        """
        self._resource_managers = resource_managers
        self._check_registered = check_registered
        self._looks = looks
        self._dump_of = dump_of
        self._readers = Workers("dumps of resource managers", threads=1, waiting_max=DUMPS_WAITING_MAX)
        self._identities = identities
        self._held = 0
        """Number of characters of the dumps that wait."""

    async def state_dump(
        self, request: admin_pb2.GetStateDumpRequest, context: UnaryContext
    ) -> admin_pb2.GetStateDumpResponse:
        """The scheduler's part of the response shows one moment; resource managers are asked after it."""
        if request.rmID:
            await self._check_registered(request.rmID, context)
        try:
            state = await self._state(request.rmID, self._identities.client(context, request.rmID))
        except NoneLeft as error:
            details = f"{error}; try again when they are taken"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, details)
        wanted = [request.rmID] if request.rmID else sorted(self._resource_managers)[:LIMIT_MAX]
        held: list[int] = []
        try:
            dumps = await asyncio.gather(*(self._dump(rm_id, held) for rm_id in wanted))
            room_bytes = ANSWER_BYTES_MAX - len(state.encode())
            return admin_pb2.GetStateDumpResponse(state=state, resourceManagers=_bounded(dumps, room_bytes))
        finally:
            self._held -= sum(held)

    async def _state(self, rm_id: str, client: str) -> str:
        """The scheduler's own state, as much of it as fits into a response. Raises `NoneLeft`."""
        for limit in LIMITS:
            state = await self._looks.take(StateParameters(rm=rm_id, limit=limit), client)
            if len(state.encode()) <= STATE_BYTES_MAX:
                return state
        size = len(state.encode())
        advice = "look at parts of it at /debug/state" if rm_id else "name an rmID"
        problem = f"even {limit} of each kind of thing have {size} bytes; at most {STATE_BYTES_MAX} are sent: {advice}"
        return json.dumps({"problem": problem})

    async def _dump(self, rm_id: str, held: list[int]) -> admin_pb2.ResourceManagerDump:
        """The RM's dump, or why it is not passed on. Appends the length of a dump that is kept in memory to `held`."""
        try:
            dump = await self._dump_of(rm_id, DUMP_TIMEOUT_SECONDS)
        except NoStateDump as reason:
            return admin_pb2.ResourceManagerDump(rmID=rm_id, problem=str(reason))
        problem = _too_large(len(dump))
        if not problem and self._held + len(dump) > DUMPS_HELD_MAX:
            problem = "too many dumps wait already; name its rmID to see it alone, or try again later"
        if problem:
            return admin_pb2.ResourceManagerDump(rmID=rm_id, problem=problem)
        held.append(len(dump))
        self._held += len(dump)
        try:
            problem = await self._readers.run(_problem, dump)
        except Busy as error:
            problem = str(error)
        return admin_pb2.ResourceManagerDump(rmID=rm_id, state="" if problem else dump, problem=problem)

    async def auto_scaling_metrics(
        self, request: admin_pb2.GetAutoScalingMetricsRequest, context: UnaryContext
    ) -> si_pb2.AutoScalingMetrics:
        """Responds with metrics of one moment of the state."""
        await self._check_registered(request.rmID, context)
        rm = self._resource_managers[request.rmID]
        partition = rm.partition(request.partition) if request.partition else None
        if request.partition and partition is None:
            known = ", ".join(map(repr, rm.partitions))
            details = f"partition: {request.partition!r} is not a partition of {rm.rm_id!r}; known are {known}"
            await context.abort(grpc.StatusCode.NOT_FOUND, bounded(details))
        looked_at = [partition] if partition is not None else rm.partitions.values()
        return autoscaling.metrics((one.name, kind) for one in looked_at for kind in outstanding_requests(one))

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """The handlers of all methods, to be added to a `grpc.aio` server."""
        return [
            grpc.method_handlers_generic_handler(
                ADMIN_SERVICE,
                {
                    "GetStateDump": unary(admin_pb2.GetStateDumpRequest, self.state_dump),
                    "GetAutoScalingMetrics": unary(admin_pb2.GetAutoScalingMetricsRequest, self.auto_scaling_metrics),
                },
            )
        ]


def _too_large(size: int) -> str:
    if size <= DUMPS_BYTES_MAX:
        return ""
    return f"its dump is longer than {DUMPS_BYTES_MAX} bytes, which are the most that an answer takes"


def _problem(dump: str) -> str:
    """Why a dump cannot be passed on; '' if it can."""
    if problem := _too_large(len(dump.encode())):
        return problem
    if not dump.strip():
        return "its dump is empty"
    try:
        # Numbers stay text and objects are dropped at once: only the syntax of the dump matters here.
        json.loads(dump, object_pairs_hook=_nothing, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return f"its dump is not JSON: {error}"
    return ""


def _nothing(_pairs: object) -> None:
    """Takes the place of an object in the dump."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value")


def _bounded(
    dumps: Sequence[admin_pb2.ResourceManagerDump], room_bytes: int
) -> Iterator[admin_pb2.ResourceManagerDump]:
    """The dumps; one without room is replaced by a problem. The other fields are short and always kept."""
    beside_bytes = sum(BESIDE_BYTES + len(dump.rmID.encode()) + len(dump.problem.encode()) for dump in dumps)
    left = min(DUMPS_BYTES_MAX, room_bytes - beside_bytes)
    for dump in dumps:
        size = len(dump.state.encode())
        if size > left:
            problem = f"its dump has {size} bytes, and there was room for {left}; name its rmID to see it alone"
            yield admin_pb2.ResourceManagerDump(rmID=dump.rmID, problem=problem)
        else:
            left -= size
            yield dump
