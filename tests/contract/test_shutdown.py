"""A shutdown ends in time, whatever clients do and whatever else of the process does not end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import datetime

import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.daemon.runtime.failures import ExitCode
from schedulerd.daemon.runtime.shutdown import CLOSING_SECONDS_MAX
from tests.contract import http2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient

DRAIN_S = 0.2

UNREAD_CALLS: dict[str, tuple[str, Callable[[RawClient], list[bytes]], bool]] = {
    "Health.Watch": (
        "/grpc.health.v1.Health/Watch",
        lambda client: [health_pb2.HealthCheckRequest().SerializeToString()],
        True,
    ),
    "StreamEvents": (
        "/schedulerd.v1.Admin/StreamEvents",
        lambda client: [admin_pb2.StreamEventsRequest(count=100).SerializeToString()],
        True,
    ),
    "UpdateNode": (
        "/si.v1.Scheduler/UpdateNode",
        lambda client: [client.node(f"unread-{number}").SerializeToString() for number in range(20)],
        False,
    ),
    "UpdateAllocation": (
        "/si.v1.Scheduler/UpdateAllocation",
        lambda client: [client.asks("app-1", [f"unread-{number}" for number in range(5)]).SerializeToString()],
        False,
    ),
    "callback stream": (
        "/schedulerd.v1.Callback/Connect",
        lambda client: [
            callback_pb2.CallbackAnswer(
                hello=callback_pb2.CallbackHello(rmID=client.rm_id, events=True)
            ).SerializeToString()
        ],
        False,
    ),
    "a unary answer": (
        "/schedulerd.v1.Admin/ListEvents",
        lambda client: [admin_pb2.ListEventsRequest(count=10).SerializeToString()],
        True,
    ),
    "a registration": (
        "/si.v1.Scheduler/RegisterResourceManager",
        lambda client: [si_pb2.RegisterResourceManagerRequest(rmID="another").SerializeToString()],
        True,
    ),
    "reflection": (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        lambda client: [reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()],
        False,
    ),
}


USUAL_CALLS = ("a registration", "UpdateAllocation", "callback stream")
"""Those of `make check`."""


def seconds_to_close(daemon: DaemonProcess) -> float:
    began, ended = (
        datetime.fromisoformat(daemon.wait_for_event(event)["timestamp"]) for event in ("closing", "stopped")
    )
    return (ended - began).total_seconds()


@pytest.mark.parametrize(
    "call",
    [pytest.param(one, marks=() if one in USUAL_CALLS else pytest.mark.nightly) for one in UNREAD_CALLS],
)
def test_a_client_that_takes_no_byte_of_an_answer_does_not_hold_the_shutdown_up(call: str) -> None:
    path, payloads, finish = UNREAD_CALLS[call]
    with (
        DaemonProcess("--drain-timeout-s", str(DRAIN_S)) as daemon,
        RawClient(daemon.target) as client,
        http2.Connection(daemon.target) as unread,
    ):
        client.set_up()
        unread.send(http2.BEGIN_WITHOUT_WINDOW)
        for one in http2.call(1, path, payloads(client), finish=finish):
            unread.send(one)
        unread.until_begun(1)
        unread.stay_alive()
        daemon.signal(signal.SIGTERM)
        assert seconds_to_close(daemon) < DRAIN_S + CLOSING_SECONDS_MAX / 2
        assert daemon.wait() == ExitCode.OK


def test_one_watcher_of_the_health_that_takes_nothing_keeps_others_from_nothing() -> None:
    path, payloads, _ = UNREAD_CALLS["Health.Watch"]
    with (
        DaemonProcess("--drain-timeout-s", str(DRAIN_S)) as daemon,
        RawClient(daemon.target) as client,
        http2.Connection(daemon.target) as unread,
    ):
        unread.send(http2.BEGIN_WITHOUT_WINDOW)
        for one in http2.call(1, path, payloads(client), finish=True):
            unread.send(one)
        unread.until_begun(1)
        unread.stay_alive()
        watch = client.watch_health()
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        daemon.signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert daemon.wait() == ExitCode.OK


def test_what_does_not_end_in_time_is_named_and_the_process_exits_all_the_same() -> None:
    with DaemonProcess("--drain-timeout-s", str(DRAIN_S), module="tests.contract.stuck_daemon") as daemon:
        daemon.signal(signal.SIGTERM)
        line = daemon.wait_for_event("shutdown is not over in time: exiting")
        assert line["level"] == "error"
        assert "stuck here by a test" in line["threads"]
        assert line["seconds"] == DRAIN_S + 0.5
        assert daemon.wait() == ExitCode.STUCK
