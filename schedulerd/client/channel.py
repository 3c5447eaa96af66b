"""The gRPC channel of a client."""

from __future__ import annotations

import grpc
from grpc import aio

MESSAGE_BYTES_MAX = 64 << 20
KEEPALIVE_S = 20
"""A scheduler that is silent for so long is asked for a sign of life; less often where a server does not like that."""
KEEPALIVE_TIMEOUT_S = 10
"""For the sign to come."""

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1_000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_S * 1_000),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_S * 1_000),
    # One connection per client: clients of one process must not share (and so disturb) each other's.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(target: str, credentials: grpc.ChannelCredentials | None) -> aio.Channel:
    """A channel to HOST:PORT, in plain text without credentials; it connects when it is used."""
    if credentials is None:
        return aio.insecure_channel(target, options=OPTIONS)
    return aio.secure_channel(target, credentials, options=OPTIONS)
