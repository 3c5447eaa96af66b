"""Bounds the streams of gRPC's own services: `Health/Watch`, and server reflection.

These streams last as long as the client wants, and every client that can connect may open them. Our own streams have
their own bounds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import grpc

from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.runtime.shares import NoneLeft


class StandardStreams(grpc.aio.ServerInterceptor):
    """Must come before interceptors that receive requests, because a stream without a request counts too."""

    def __init__(self, access: GrpcAccess, own_services: Collection[str]) -> None:
        """`own_services` are the names of our services, whose streams are not bounded here."""
        self._access = access
        self._own_services = own_services

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or not handler.response_streaming:
            return handler
        service, _, method = handler_call_details.method.removeprefix("/").partition("/")
        if service in self._own_services:
            return handler
        assert handler.request_streaming, "a request is received by an interceptor that comes later"
        return grpc.stream_stream_rpc_method_handler(
            self._held(method, handler.stream_stream), handler.request_deserializer, handler.response_serializer
        )

    def _held(self, method: str, serve: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Awaitable[None]]:
        async def held(requests: Any, context: Any) -> None:
            try:
                with self._access.standard_share(context):
                    await _serve_all(serve(requests, context), context)
            except NoneLeft as problem:
                details = f"{problem}; close one first (all of them together may be a quarter of calls_max)"
                code = grpc.StatusCode.RESOURCE_EXHAUSTED
                self._access.refusals.tell(method, code, details, rm_id="", peer=context.peer())
                await context.abort(code, details)

        return held


async def _serve_all(served: Any, context: Any) -> None:
    """`served` is what a streaming method returns: an awaitable, or the responses."""
    if isinstance(served, Awaitable):
        await served
        return
    async with contextlib.aclosing(served) as responses:
        async for response in responses:
            await context.write(response)
