"""The gRPC methods of `schedulerd.v1.Admin` that look at the state: the dump, and what an autoscaler wants to know.

What the methods promise is written in `protos/schedulerd/v1/admin.proto`, where clients read it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import NoReturn

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.autoscaling import outstanding_requests
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.daemon.admin_service import ADMIN_SERVICE
from schedulerd.daemon.calls import NoStateDump
from schedulerd.daemon.debug_state import LIMIT_MAX, StateQuery
from schedulerd.daemon.looks import Looks, TooManyLooks
from schedulerd.daemon.service import UnaryContext, bounded, unary
from schedulerd.wire import autoscaling

DUMP_TIMEOUT_SECONDS = 5.0
"""How long a resource manager may take to dump its state."""

DUMPS_BYTES_MAX = 2 * 1024 * 1024
"""How long the dumps of resource managers may be in one answer: with our own it has to fit into 4 MB, the most that a
gRPC client takes if it does not say otherwise."""


class StateService:
    """What the methods do."""

    def __init__(
        self,
        resource_managers: Mapping[str, ResourceManager],
        check_registered: Callable[[str, UnaryContext], Awaitable[None]],
        looks: Looks,
        dump_of: Callable[[str, float], Awaitable[str]],
    ) -> None:
        """`resource_managers` are the scheduler's own, to be read on its loop.

        `dump_of` asks a resource manager for its own dump, within so many seconds, and raises `NoStateDump`.
        """
        self._resource_managers = resource_managers
        self._check_registered = check_registered
        self._looks = looks
        self._dump_of = dump_of

    async def state_dump(
        self, request: admin_pb2.GetStateDumpRequest, context: UnaryContext
    ) -> admin_pb2.GetStateDumpResponse:
        """All that it says of the scheduler is of one moment; resource managers are asked after that."""
        if request.rmID:
            await self._check_registered(request.rmID, context)
        try:
            state = await self._looks.take(StateQuery(rm=request.rmID))
        except TooManyLooks as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        wanted = [request.rmID] if request.rmID else sorted(self._resource_managers)[:LIMIT_MAX]
        dumps = await asyncio.gather(*map(self._dump, wanted))
        return admin_pb2.GetStateDumpResponse(state=state, resourceManagers=_bounded(dumps))

    async def _dump(self, rm_id: str) -> admin_pb2.ResourceManagerDump:
        try:
            dump = await self._dump_of(rm_id, DUMP_TIMEOUT_SECONDS)
        except NoStateDump as reason:
            return admin_pb2.ResourceManagerDump(rmID=rm_id, problem=str(reason))
        problem = await asyncio.to_thread(_problem, dump)
        return admin_pb2.ResourceManagerDump(rmID=rm_id, state="" if problem else dump, problem=problem)

    async def auto_scaling_metrics(
        self, request: admin_pb2.GetAutoScalingMetricsRequest, context: UnaryContext
    ) -> si_pb2.AutoScalingMetrics:
        """Of one moment of the state."""
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
        """All methods, to be added to a `grpc.aio` server."""
        return [
            grpc.method_handlers_generic_handler(
                ADMIN_SERVICE,
                {
                    "GetStateDump": unary(admin_pb2.GetStateDumpRequest, self.state_dump),
                    "GetAutoScalingMetrics": unary(admin_pb2.GetAutoScalingMetricsRequest, self.auto_scaling_metrics),
                },
            )
        ]


def _problem(dump: str) -> str:
    """Why a dump cannot be passed on, or ''."""
    size = len(dump.encode())
    if size > DUMPS_BYTES_MAX:
        return f"its dump has {size} bytes; {DUMPS_BYTES_MAX} are the most that an answer takes"
    if not dump.strip():
        return "its dump is empty"
    try:
        # Numbers stay text and objects are dropped at once: what it says does not matter here.
        json.loads(dump, object_pairs_hook=_nothing, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return f"its dump is not JSON: {error}"
    return ""


def _nothing(_pairs: object) -> None:
    """What becomes of an object."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value")


def _bounded(dumps: Iterable[admin_pb2.ResourceManagerDump]) -> Iterator[admin_pb2.ResourceManagerDump]:
    """The dumps, but for those for which there is no room."""
    left = DUMPS_BYTES_MAX
    for dump in dumps:
        size = len(dump.state.encode())
        if size > left:
            problem = f"its dump has {size} bytes, and there was room for {left}; name its rmID to see it alone"
            yield admin_pb2.ResourceManagerDump(rmID=dump.rmID, problem=problem)
        else:
            left -= size
            yield dump
