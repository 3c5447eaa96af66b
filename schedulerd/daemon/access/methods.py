"""Common parts of our methods with one request and one response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
from google.protobuf.message import Message

DETAILS_BYTES_MAX = 4000
"""Maximum size of an encoded status message. It is sent as a header, and clients refuse headers of more than 8 kB."""

MessageT = TypeVar("MessageT", bound=Message)
UnaryContext = grpc.aio.ServicerContext[Message, Message]


def bounded(details: str) -> str:
    """The status message, cut to what clients accept."""
    size_bytes = 0
    for at, character in enumerate(details):
        # gRPC writes each byte of anything but printable ASCII as three (percent encoding).
        size_bytes += 1 if " " <= character <= "~" and character != "%" else 3 * len(character.encode())
        if size_bytes > DETAILS_BYTES_MAX:
            return f"{details[:at]}... (shortened; `schedulerd validate` shows everything)"
    return details


def unary(
    request_type: type[MessageT], serve: Callable[[MessageT, UnaryContext], Awaitable[Message]]
) -> grpc.RpcMethodHandler[MessageT, Message]:
    """The handler of a method with one request and one response."""
    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=request_type.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
