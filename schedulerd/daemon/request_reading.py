"""Reads the requests of calls with one request, so that bytes that are no message are the client's mistake.

A deserialiser inside gRPC can only fail: its client is told UNKNOWN, and the log gets a traceback at level error, as
often as anybody who reaches the port cares to send garbage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from schedulerd.daemon.refusals import Refusals

Serve: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""What serves a call with one request: given the request and the context."""


def serve_of(handler: Any) -> Serve:
    """What serves the calls of a handler of a method with one request."""
    serve: Serve = handler.unary_stream or handler.unary_unary
    return serve


def served_by(handler: Any, serve: Serve, request_deserializer: Callable[[bytes], Any] | None) -> Any:
    """The handler, of a method with one request, with `serve` in the place of what serves its calls."""
    make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
    return make(serve, request_deserializer=request_deserializer, response_serializer=handler.response_serializer)


class RequestReader(grpc.aio.ServerInterceptor):
    """Answers INVALID_ARGUMENT if a request cannot be read; has to come before interceptors that look at requests."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        method = handler_call_details.method.rpartition("/")[2]
        return served_by(handler, self._reading(method, handler.request_deserializer, serve_of(handler)), None)

    def _reading(self, method: str, parse: Callable[[bytes], Any], serve: Serve) -> Serve:
        async def read(raw: bytes, context: Any) -> Any:
            try:
                request = parse(raw)
            except DecodeError as error:
                code, details = grpc.StatusCode.INVALID_ARGUMENT, f"not a request of {method}: {error}"
                self._refusals.tell(method, code, details, rm_id="", peer=context.peer())
                await context.abort(code, details)
            return await serve(request, context)

        return read
