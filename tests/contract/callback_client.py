"""The callback stream of a `RawClient`: plain stubs, blocking calls."""

from __future__ import annotations

from schedulerd._generated.schedulerd.v1 import callback_pb2, callback_pb2_grpc
from tests.contract.raw_client import RawClient, UpdateStream


def connect(client: RawClient) -> UpdateStream[callback_pb2.CallbackCall]:
    return UpdateStream(callback_pb2_grpc.CallbackStub(client.channel).Connect)


def hello(client: RawClient, **serves: bool) -> callback_pb2.CallbackAnswer:
    message = callback_pb2.CallbackHello(rmID=client.rm_id)
    for callback, served in serves.items():
        setattr(message, callback, served)
    return callback_pb2.CallbackAnswer(hello=message)


def connected(client: RawClient, **serves: bool) -> UpdateStream[callback_pb2.CallbackCall]:
    stream = connect(client)
    stream.send(hello(client, **serves))
    assert stream.next().HasField("connected")
    return stream
