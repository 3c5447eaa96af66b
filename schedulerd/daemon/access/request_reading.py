"""Receives and parses the requests of calls with one request, within a size and a time.

A deserialiser inside gRPC can only fail: the client gets UNKNOWN, and the log gets a traceback at level error, as often
as a client sends garbage. gRPC also waits for a request as long as the connection lasts. So these methods are served as
methods with a stream of requests, which look the same to a client, and the one request is received here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from schedulerd.daemon.access.refusals import Refusals

REQUEST_BYTES_MAX = 2 * 1024 * 1024
"""Maximum size of the request of a method with one request; a queue file has 1 MiB at most. gRPC receives messages of
up to `max_message_bytes` before this check, but a larger request is not parsed."""

REQUEST_SECONDS = 20.0
"""How long a request may take to arrive."""

ANSWER_SECONDS = 60.0
"""How long the response may take, for methods with one response."""

Serve: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""The function that serves a call with one request, given the request and the context."""


def serve_of(handler: Any) -> Serve:
    """The function that serves the calls of a method with one request."""
    serve: Serve = handler.unary_stream or handler.unary_unary
    return serve


def served_by(handler: Any, serve: Serve, request_deserializer: Callable[[bytes], Any] | None) -> Any:
    """The handler of a method with one request, changed so that `serve` serves its calls."""
    make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
    return make(serve, request_deserializer=request_deserializer, response_serializer=handler.response_serializer)


class RequestReader(grpc.aio.ServerInterceptor):
    """Must come before interceptors that read requests."""

    def __init__(
        self, refusals: Refusals, *, request_seconds: float = REQUEST_SECONDS, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self._refusals = refusals
        self._request_seconds = request_seconds
        self._answer_seconds = answer_seconds

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        method = handler_call_details.method.rpartition("/")[2]
        parse, serve = handler.request_deserializer, serve_of(handler)
        answer_seconds = None if handler.response_streaming else self._answer_seconds

        async def receive_and_serve(_requests: object, context: Any) -> Any:
            request = await self._request(method, parse, context)
            try:
                async with asyncio.timeout(answer_seconds) as limit:
                    return await serve(request, context)
            except TimeoutError:
                if not limit.expired():
                    raise
                late = f"the answer took more than {answer_seconds:g} s"
                await self._refuse(method, grpc.StatusCode.DEADLINE_EXCEEDED, late, context)

        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        return make(receive_and_serve, response_serializer=handler.response_serializer)

    async def _request(self, method: str, parse: Callable[[bytes], Any], context: Any) -> Any:
        """The request of a call. A request that does not arrive, is too large or cannot be parsed ends the call."""
        try:
            async with asyncio.timeout(self._request_seconds):
                raw = await context.read()
        except TimeoutError:
            late = f"no request came within {self._request_seconds:g} s"
            await self._refuse(method, grpc.StatusCode.DEADLINE_EXCEEDED, late, context)
        if raw is grpc.aio.EOF:
            await self._refuse(method, grpc.StatusCode.INVALID_ARGUMENT, "no request was sent", context)
        if len(raw) > REQUEST_BYTES_MAX:
            size = f"the request has {len(raw)} bytes; at most {REQUEST_BYTES_MAX} are allowed"
            await self._refuse(method, grpc.StatusCode.RESOURCE_EXHAUSTED, size, context)
        try:
            return parse(raw)
        except DecodeError as error:
            mistake = f"not a request of {method}: {error}"
            await self._refuse(method, grpc.StatusCode.INVALID_ARGUMENT, mistake, context)

    async def _refuse(self, method: str, code: grpc.StatusCode, details: str, context: Any) -> NoReturn:
        self._refusals.tell(method, code, details, rm_id="", peer=context.peer())
        await context.abort(code, details)
        raise AssertionError("gRPC raises")
