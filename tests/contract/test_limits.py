"""Limits of the daemon as a client meets them: at the limit it is served, and one more is refused with a reason."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from schedulerd._generated.schedulerd.v1 import callback_pb2, callback_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.commands import RunCycle
from schedulerd.daemon.access.request_reading import REQUEST_BYTES_MAX
from schedulerd.journal import Entry, Journal
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated
from tests.contract.raw_client_2021 import RawClient2021

ITEMS = 1_000
CALLS = 100


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    flags = {"max-message-items": ITEMS, "resource-managers-max": 3, "calls-max": CALLS, "max-message-bytes": 4 << 20}
    with DaemonProcess(*(word for flag, value in flags.items() for word in (f"--{flag}", str(value)))) as process:
        yield process


def eventually(attempt: Callable[[], object]) -> None:
    """Tries until it is not refused any more; the daemon hears of cancelled calls a moment later."""
    until = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            attempt()
        except grpc.RpcError as refused:
            if refused.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or time.monotonic() > until:
                raise
        else:
            return


def test_items_of_a_request(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target, "rm") as client:
        client.set_up()
        keys = [f"k{number}" for number in range(ITEMS + 1)]
        stream = client.allocations()
        stream.send(client.asks("app-1", keys[:ITEMS]))
        assert stream.next().new, "the limit is still served"
        stream.send(client.asks("app-1", keys))
        code, details = stream.status()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"the request has more than {ITEMS} items" in details


def test_placements_of_a_cycle(tmp_path: Path) -> None:
    with (
        DaemonProcess("--cycle-allocations-max", "3", "--journal", str(tmp_path)) as daemon,
        RawClient(daemon.target, "rm") as client,
    ):
        client.set_up()
        stream = client.allocations()
        stream.send(client.asks("app-1", [f"k{number}" for number in range(10)]))
        stream.until(lambda got: len(allocated(got)) >= 10)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
    journal = Journal.open(tmp_path)
    cycles = [one.command for one in journal if isinstance(one, Entry) and isinstance(one.command, RunCycle)]
    assert journal.header.placements_max == 3
    assert len(cycles) >= 4
    assert {cycle.allocations_max for cycle in cycles} == {3}


def test_items_of_a_request_of_2021(daemon: DaemonProcess) -> None:
    with RawClient2021(daemon.target, "rm") as client:
        client.register()
        stream = client.updates()
        stream.send(client.work("app-1", [f"k{number}" for number in range(ITEMS + 1)]))
        code, details = stream.status()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "setting max_message_items" in details


def test_predicate_results_of_a_message(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target, "rm") as client:
        client.register()
        stream = UpdateStream(callback_pb2_grpc.CallbackStub(client.channel).Connect)
        stream.send(callback_pb2.CallbackAnswer(hello=callback_pb2.CallbackHello(rmID="rm", predicates=True)))
        assert stream.next().HasField("connected")
        results = [callback_pb2.PredicatesResult(callID=number) for number in range(ITEMS + 1)]
        stream.send(callback_pb2.CallbackAnswer(predicates=results))
        code, details = stream.status()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "setting max_message_items" in details


def test_resource_managers(daemon: DaemonProcess) -> None:
    clients = [RawClient(daemon.target, rm_id) for rm_id in ("rm", "second", "third", "fourth")]
    for client in clients[:3]:
        client.register()
    with pytest.raises(grpc.RpcError) as refused:
        clients[3].register()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "3 resource managers are registered already" in (refused.value.details() or "")
    clients[0].register()
    for client in clients:
        client.channel.close()


def test_calls_at_a_time(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target, "rm") as client, RawClient(daemon.target, "rm") as another:
        client.register()
        open_streams = [(client, another)[number % 2].allocations() for number in range(CALLS)]
        for stream in open_streams:
            list(stream.call.initial_metadata())
        with pytest.raises(grpc.RpcError) as refused:
            client.register()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for stream in open_streams:
            stream.cancel()
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        answer = health.Check(health_pb2.HealthCheckRequest(), timeout=LIMIT_SECONDS, wait_for_ready=True)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def health_watch(client: RawClient) -> Any:
    stub: Any = health_pb2_grpc.HealthStub(client.channel)
    return stub.Watch(health_pb2.HealthCheckRequest())


def reflection_stream(client: RawClient) -> Any:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    requests.put(reflection_pb2.ServerReflectionRequest(list_services=""))
    return stub.ServerReflectionInfo(iter(requests.get, None))


def silent_watch(client: RawClient) -> Any:
    """One whose request does not come."""
    method: Any = client.channel.stream_stream("/grpc.health.v1.Health/Watch")
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    return method(iter(requests.get, b""))


@pytest.mark.parametrize("open_one", [health_watch, reflection_stream])
def test_streams_of_health_and_reflection_leave_calls_for_others(
    daemon: DaemonProcess, open_one: Callable[[RawClient], Any]
) -> None:
    with RawClient(daemon.target, "rm") as client, RawClient(daemon.target, "rm") as another:
        open_streams = []
        for number in range(CALLS // 4):
            stream = open_one((client, another)[number % 2])
            assert next(stream), "the limit is still served"
            open_streams.append(stream)
        for one_more in (health_watch, reflection_stream, silent_watch):
            with pytest.raises(grpc.RpcError) as refused:
                next(one_more(client))
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refused.value.details() == (
                "25 Health/Watch and reflection streams are open already, by all clients; close one first (all of "
                "them together may be a quarter of calls_max)"
            )
        another.register()
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        health.Check(health_pb2.HealthCheckRequest(), timeout=LIMIT_SECONDS)
        for stream in open_streams:
            stream.cancel()
        eventually(lambda: next(open_one(another)))


def test_calls_of_a_connection() -> None:
    with (
        DaemonProcess("--connection-calls-max", "2") as daemon,
        RawClient(daemon.target, "rm") as client,
        RawClient(daemon.target, "rm") as another,
    ):
        client.register()
        first, second = client.allocations(), client.allocations()
        for stream in (first, second):
            list(stream.call.initial_metadata())
        with pytest.raises(grpc.RpcError) as refused:
            client.stub.RegisterResourceManager(si_pb2.RegisterResourceManagerRequest(rmID="rm"), timeout=0.5)
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED, "it waits in the client"
        another.register()
        waiting = client.stub.RegisterResourceManager.future(
            si_pb2.RegisterResourceManagerRequest(rmID="rm"), timeout=LIMIT_SECONDS
        )
        first.cancel()
        waiting.result()


def test_a_request_that_is_too_large_for_its_method(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target, "rm") as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.register("#" * REQUEST_BYTES_MAX)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"at most {REQUEST_BYTES_MAX} are allowed" in (refused.value.details() or "")


def test_a_registration_is_logged_without_its_configuration(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target, "rm") as client:
        client.stub.RegisterResourceManager(
            si_pb2.RegisterResourceManagerRequest(
                rmID="rm",
                version="1.5",
                buildInfo={"arch": "riscv"},
                config="partitions: [{queues: [{name: root, queues: [{name: hunter2}]}]}]",
                extraConfig={"password": "hunter3"},
            ),
            timeout=LIMIT_SECONDS,
        )
    line = daemon.wait_for_event("registration", lambda one: one["request"].get("version") == "1.5")
    assert line["request"] == {
        "rmID": "rm",
        "version": "1.5",
        "buildInfo": {"arch": "riscv"},
        "config": "(secret)",
        "extraConfig": "(secret)",
    }
    assert not [one for one in daemon.lines if "hunter" in one]
    (manager,) = daemon.state(rm="rm")["resource_managers"]
    assert manager["version"] == "1.5"
