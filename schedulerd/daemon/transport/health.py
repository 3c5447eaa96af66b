"""The standard gRPC health service (grpc.health.v1).

The servicer of the package grpcio-health-checking writes to a watcher while it holds the lock that every change of the
status needs. Then one client that accepts no data (a flow-control window of 0) stops the shutdown and every other
watcher. Here a change of the status waits for no client: every watcher reads the status in its own task.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    """The status of a fixed set of services: all of them serve, or none."""

    def __init__(self, services: frozenset[str]) -> None:
        """No service serves at first."""
        self._services = services
        self._status: int = HealthCheckResponse.NOT_SERVING
        self._changed = asyncio.Event()
        """Set when the status changes, and replaced by a new one."""

    def set_serving(self, serving: bool) -> None:
        """Sets the status of all services; never waits."""
        self._status = HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> HealthCheckResponse:
        """The status of a service; an unknown one ends the call with NOT_FOUND."""
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return HealthCheckResponse(status=self._status)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Sends the status of a service, or SERVICE_UNKNOWN for an unknown one, and then every change of it."""
        is_known = request.service in self._services
        last = None
        while True:
            changed = self._changed
            status = self._status if is_known else HealthCheckResponse.SERVICE_UNKNOWN
            if status != last:
                await context.write(HealthCheckResponse(status=status))
                last = status
            else:
                await changed.wait()
