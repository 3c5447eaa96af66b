"""Callback streams on a real daemon: what is refused and how, take-over, garbage, and clients that do not read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import callback_pb2
from tests.contract.callback_client import connect, connected, hello
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient

METHOD = "/schedulerd.v1.Callback/Connect"


def wait_for_streams(daemon: DaemonProcess, count: int) -> None:
    while daemon.metric("schedulerd_callback_streams") != count:
        pass  # until the test's own time limit, if it is in vain


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One whose callback streams are those of these tests."""
    with DaemonProcess() as process:
        yield process


def test_a_stream_is_open_from_its_hello_to_its_end(daemon: DaemonProcess, client: RawClient) -> None:
    client.register()
    stream = connected(client, predicates=True)
    wait_for_streams(daemon, 1)
    stream.half_close()
    assert stream.status()[0] is grpc.StatusCode.OK
    wait_for_streams(daemon, 0)


def test_an_rm_that_is_not_registered_is_refused(client: RawClient) -> None:
    stream = connect(client)
    stream.send(hello(client))
    code, details = stream.status()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert f"rmID '{client.rm_id}' is not registered" in details


def test_a_newer_stream_takes_over(daemon: DaemonProcess, client: RawClient) -> None:
    client.register()
    older = connected(client, predicates=True)
    newer = connected(client, predicates=True)
    assert older.status()[0] is grpc.StatusCode.OK
    wait_for_streams(daemon, 1)
    newer.cancel()
    wait_for_streams(daemon, 0)


def test_a_registration_ends_the_stream_and_the_next_one_is_taken(client: RawClient) -> None:
    client.register()
    older = connected(client, predicates=True)
    client.register()
    assert older.status()[0] is grpc.StatusCode.ABORTED
    connected(client, predicates=True).cancel()


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        ([b"\xff\xff\xff\xff"], "not a request of Connect"),
        ([b""], "hello: is missing"),
        ([b"\x0a\x00"], "hello.rmID: is empty"),
        ([b"\x0a\x04\x0a\x02rm\x38\x63"], "is not registered"),
    ],
)
def test_garbage_ends_its_own_stream(client: RawClient, garbage: list[bytes], reason: str) -> None:
    client.register()
    method: Any = client.channel.stream_stream(METHOD)
    call = method(iter(garbage))
    with pytest.raises(grpc.RpcError) as ended:
        list(call)
    refusal: Any = ended.value
    assert refusal.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
    assert reason in refusal.details()
    connected(client).cancel()


def test_answers_to_nothing_are_counted(daemon: DaemonProcess, client: RawClient) -> None:
    client.register()
    before = daemon.metric("schedulerd_callback_late_answers_total", call="predicates")
    stream = connected(client, predicates=True)
    for first in range(0, 100_000, 10_000):
        results = [callback_pb2.PredicatesResult(callID=call_id) for call_id in range(first, first + 10_000)]
        stream.send(callback_pb2.CallbackAnswer(predicates=results))
    while daemon.metric("schedulerd_callback_late_answers_total", call="predicates") != before + 100_000:
        pass  # until the test's own time limit, if it is in vain
    stream.cancel()


def test_streams_that_come_and_go_leave_nothing_behind(daemon: DaemonProcess, client: RawClient) -> None:
    client.register()
    for number in itertools.islice(itertools.cycle(range(4)), 100):
        stream = connect(client)
        if number:
            stream.send(hello(client, predicates=True))
        if number > 1:
            stream.next()
        if number > 2:
            stream.send(callback_pb2.CallbackAnswer(predicates=[callback_pb2.PredicatesResult(callID=number)]))
        stream.cancel()
    connected(client, predicates=True).cancel()
    wait_for_streams(daemon, 0)
    assert not [line for line in daemon.lines if "Traceback" in line or '"level": "error"' in line]
