"""Clients that cancel a stream while the daemon ends it for a reason of its own: nothing of them may stay behind.

The moments that matter last microseconds and cannot be asked for, so each test goes through them a few hundred times,
cancelling a little later every time. What stays behind would count as connected for ever, be in the way of the RM's
next stream, and hold up a shutdown until its time limit, which here is longer than the test waits.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, UpdateStream

CALLS = 300
STEPS = 31
STEP_NS = 50_000
"""The latest cancellation comes 1.5 ms after the call was opened; refusing it takes about as long."""


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    """One that never gives up on a stream while it shuts down."""
    with DaemonProcess("--drain-timeout-s", "1000") as process:
        yield process


def wait_a_little(number: int, at_least_ns: int = 0) -> None:
    """Lets up to `STEPS * STEP_NS` pass, more or less than the time before; no sleep is as short as that."""
    until_ns = time.perf_counter_ns() + at_least_ns + number * 17 % STEPS * STEP_NS
    while time.perf_counter_ns() < until_ns:
        pass


def refused(client: RawClient) -> UpdateStream[si_pb2.AllocationResponse]:
    """A stream that is about to be ended by its second message, while the answer to its first one is on its way."""
    stream = client.allocations()
    stream.send(client.asks("app-1", ["negative"], memory=-1))
    stream.send(si_pb2.AllocationRequest(rmID="another"))
    return stream


def assert_clean(daemon: DaemonProcess) -> None:
    """A client that has gone is no error, and what it was told on the way is not worth a traceback."""
    errors = [line for line in daemon.lines if '"level": "error"' in line or "Traceback" in line]
    assert errors == [], "".join(daemon.lines[-60:])


def assert_nothing_stayed_behind(daemon: DaemonProcess, client: RawClient) -> None:
    """The RM's next stream is served, then it is away, then the daemon ends in order; the log knows of no error."""
    stream = client.allocations()
    stream.send(client.asks("app-1", ["last"], memory=-1))
    stream.until(lambda got: any(ask.allocationKey == "last" for response in got for ask in response.rejected))
    stream.cancel()
    while daemon.metric("schedulerd_resource_managers", state="running"):
        pass  # until the test's own time limit, if it is in vain
    assert daemon.metric("schedulerd_resource_managers", state="paused") == 1
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert_clean(daemon)


def test_a_stream_cancelled_while_it_is_refused(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target) as client:
        client.register()
        codes = set()
        for number in range(CALLS):
            stream = refused(client)
            wait_a_little(number)
            stream.cancel()
            codes.add(stream.status()[0])
        assert codes <= {grpc.StatusCode.CANCELLED, grpc.StatusCode.INVALID_ARGUMENT}
        assert_nothing_stayed_behind(daemon, client)


def test_a_stream_cancelled_while_its_rm_registers_again(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target) as client:
        begun_ns = time.perf_counter_ns()
        for _ in range(10):
            client.register()
        register_ns = (time.perf_counter_ns() - begun_ns) // 10
        again = si_pb2.RegisterResourceManagerRequest(rmID=client.rm_id, config=QUEUES)
        for number in range(CALLS):
            streams: list[UpdateStream[Any]] = [client.allocations(), client.applications(), client.nodes()]
            streams[0].send(client.hello())
            streams[1].send(si_pb2.ApplicationRequest(rmID=client.rm_id))
            streams[2].send(si_pb2.NodeRequest(rmID=client.rm_id))
            registering = client.stub.RegisterResourceManager.future(again, timeout=LIMIT_SECONDS)
            wait_a_little(number, register_ns - STEPS * STEP_NS // 2)
            for stream in streams:
                stream.cancel()
            registering.result()
        assert_nothing_stayed_behind(daemon, client)


def test_streams_cancelled_while_the_daemon_shuts_down(daemon: DaemonProcess) -> None:
    clients = [RawClient(daemon.target, f"rm-{number}") for number in range(20)]
    for client in clients:
        client.register()
    streams: list[UpdateStream[Any]] = [refused(client) for client in clients]
    streams += [client.nodes() for client in clients]
    daemon.signal(signal.SIGTERM)
    for number, stream in enumerate(streams):
        wait_a_little(number)
        stream.cancel()
    assert daemon.wait() == 0
    assert_clean(daemon)
    for client in clients:
        client.channel.close()
