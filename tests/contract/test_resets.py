"""Connections and streams that end at every point of a conversation: nothing of them stays behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import grpc
import pytest
from google.protobuf.message import Message

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from tests.contract import http2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, allocated

RM = "cut"
STEP_BYTES = 3
"""Of all bytes after which a connection could end, one in so many is tried, and every end of a frame."""
GROWTH_BYTES_MAX = 32 << 20
STREAMS = range(3, 14, 2)
"""Numbers of the calls after the registration, which is 1."""


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess() as process:
        yield process


def registration() -> list[bytes]:
    """The first thing that a resource manager says, frame by frame; nothing else is taken before it is answered."""
    register = si_pb2.RegisterResourceManagerRequest(rmID=RM, config=QUEUES).SerializeToString()
    return [http2.BEGIN, *http2.call(1, "/si.v1.Scheduler/RegisterResourceManager", [register], finish=True)]


def conversation() -> list[bytes]:
    """All that it says then until it leaves, frame by frame."""
    with RawClient("localhost:0", RM) as words:
        nodes = [words.node("node-0"), words.node("node-1")]
        asks = [words.asks("app-1", ["first", "second"]), words.asks("app-1", ["third"])]
        applications = [words.application("app-1")]
    hello = callback_pb2.CallbackHello(rmID=RM, schedulingStates=True, events=True)
    answers = [callback_pb2.CallbackAnswer(hello=hello)]
    answers.append(callback_pb2.CallbackAnswer(predicates=[callback_pb2.PredicatesResult(callID=1, success=True)]))
    calls: list[tuple[str, Sequence[Message], bool]] = [
        ("si.v1.Scheduler/UpdateNode", nodes, False),
        ("si.v1.Scheduler/UpdateApplication", applications, False),
        ("schedulerd.v1.Callback/Connect", answers, False),
        ("si.v1.Scheduler/UpdateAllocation", asks, True),
        ("schedulerd.v1.Admin/StreamEvents", [admin_pb2.StreamEventsRequest(rmID=RM)], True),
        ("schedulerd.v1.Admin/UnregisterResourceManager", [admin_pb2.UnregisterResourceManagerRequest(rmID=RM)], True),
    ]
    return [
        frame
        for stream, (method, messages, finish) in zip(STREAMS, calls, strict=True)
        for frame in http2.call(stream, f"/{method}", [one.SerializeToString() for one in messages], finish=finish)
    ]


def assert_nothing_stayed_behind(daemon: DaemonProcess, before_bytes: int) -> None:
    with RawClient(daemon.target, "other") as other:
        other.set_up()
        stream = other.allocations()
        stream.send(other.asks("app-1", ["pod"]))
        assert allocated(stream.until(lambda got: bool(allocated(got))))
        stream.cancel()
    while daemon.metric("schedulerd_resource_managers", state="running"):
        pass  # until the test's own time limit, if it is in vain
    assert daemon.state()["violations"] == []
    assert [line for line in daemon.lines if '"level": "error"' in line or "Traceback" in line] == []
    assert daemon.resident_bytes() - before_bytes < GROWTH_BYTES_MAX


def test_a_connection_that_ends_after_any_byte(daemon: DaemonProcess) -> None:
    first, then = b"".join(registration()), b"".join(conversation())
    frames = [*registration(), *conversation()]
    ends = sorted({*range(1, len(first + then), STEP_BYTES), *accumulate(map(len, frames))})
    before_bytes = daemon.resident_bytes()
    for number, end in enumerate(ends):
        connection = http2.Connection(daemon.target)
        connection.send(first[:end])
        if end > len(first):
            connection.until_ended(1)
            connection.send(then[: end - len(first)])
        if number % 2:
            connection.reset()
        else:
            connection.close()
    print(f"{len(ends)} connections that ended after up to {len(first + then)} bytes survived")
    assert_nothing_stayed_behind(daemon, before_bytes)


def test_streams_that_are_reset_after_any_frame(daemon: DaemonProcess) -> None:
    frames = conversation()
    before_bytes = daemon.resident_bytes()
    for count in range(1, len(frames) + 1):
        with http2.Connection(daemon.target) as connection:
            connection.send(b"".join(registration()))
            connection.until_ended(1)
            connection.send(b"".join(frames[:count]))
            opened = [stream for stream in STREAMS if any(is_opened_by(one, stream) for one in frames[:count])]
            connection.send(b"".join(http2.frame(http2.RST_STREAM, 0, one, http2.CANCEL) for one in opened))
            connection.until_read()
    assert_nothing_stayed_behind(daemon, before_bytes)


def is_opened_by(frame: bytes, stream: int) -> bool:
    return frame[3] == http2.HEADERS and frame[5:9] == stream.to_bytes(4, "big")


def until_it_runs(daemon: DaemonProcess) -> None:
    state = ""
    while state != "Running":
        (manager,) = [one for one in daemon.state()["resource_managers"] if one["rm_id"] == RM]
        state = next((one["state"] for one in manager["partitions"][0]["applications"]), "")


def test_the_whole_conversation_is_understood(daemon: DaemonProcess) -> None:
    """Otherwise the others would cut something that nobody listens to."""
    *frames, leave, leaving = conversation()
    with http2.Connection(daemon.target) as connection:
        connection.send(b"".join(registration()))
        connection.until_ended(1)
        connection.send(b"".join(frames))
        until_it_runs(daemon)
        connection.send(leave + leaving)
        connection.until_ended(STREAMS[-1])
    with RawClient(daemon.target, RM) as late:
        stream = late.allocations()
        stream.send(late.hello())
        assert stream.status()[0] is grpc.StatusCode.FAILED_PRECONDITION
