"""The callback stream of a `RawClient`: plain stubs, blocking calls."""

from __future__ import annotations

from typing import Any

from schedulerd._generated.schedulerd.v1 import callback_pb2, callback_pb2_grpc
from tests.contract.raw_client import RawClient, UpdateStream


def connect(client: RawClient) -> UpdateStream[callback_pb2.CallbackCall]:
    return UpdateStream(callback_pb2_grpc.CallbackStub(client.channel).Connect)


def hello(client: RawClient, **serves: Any) -> callback_pb2.CallbackAnswer:
    return callback_pb2.CallbackAnswer(hello=callback_pb2.CallbackHello(rmID=client.rm_id, **serves))


def connected(client: RawClient, **serves: Any) -> UpdateStream[callback_pb2.CallbackCall]:
    stream = connect(client)
    stream.send(hello(client, **serves))
    assert stream.next().HasField("connected")
    return stream
