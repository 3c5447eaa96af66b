"""What is refused: its client is told why, the operator hears of it, and the log keeps what was sent to itself."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import LIMIT_SECONDS, QUEUES, RawClient

MARK = "hunter25"
ids = itertools.count()

WITH_WARNINGS = QUEUES + f"            properties: {{{MARK}.key: {MARK}}}\n"
WITH_PROBLEMS = [
    QUEUES + f"            submitacl: {MARK} b c\n",
    QUEUES + f'            submitacl: "a,{MARK}\'\\"x y"\n',
    QUEUES + f"            {MARK}: {MARK}\n",
    QUEUES + f"          - name: {MARK}\n          - name: {MARK}\n",
    QUEUES + f"            resources: {{max: {{{MARK}: {MARK}}}}}\n",
    f"partitions: *{MARK}\n",
    f"partitions: !{MARK} []\n",
    f"partitions: &{MARK} [{MARK}]\nx: &{MARK} {MARK}\n",
    f"{{{MARK}: 1, {MARK}: [",
]
UNARY = [f"/schedulerd.v1.Admin/{one.name}" for one in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods]
UNARY += ["/si.v1.Scheduler/RegisterResourceManager", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"]
STREAMS = {"StreamEvents", "Watch"}


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess() as daemon:
        yield daemon


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[RawClient]:
    with RawClient(daemon.target, f"rm-{next(ids)}") as client:
        yield client


def log_so_far(daemon: DaemonProcess) -> list[str]:
    """Every line up to one that is caused here."""
    with RawClient(daemon.target, f"last-{next(ids)}") as last:
        last.register()
        daemon.wait_for_event("registration", lambda line: line["request"]["rmID"] == last.rm_id)
    return daemon.lines


def test_nothing_of_a_configuration_that_was_sent_stands_in_the_log() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target) as client:
        admin = admin_pb2_grpc.AdminStub(client.channel)
        client.register(WITH_WARNINGS)
        for config in (WITH_WARNINGS, *WITH_PROBLEMS):
            request = si_pb2.UpdateConfigurationRequest(rmID=client.rm_id, config=config)
            answer = admin.UpdateConfiguration(request, timeout=LIMIT_SECONDS)
            assert answer.success is (config is WITH_WARNINGS)
        for config in WITH_PROBLEMS:
            with pytest.raises(grpc.RpcError) as refused:
                client.register(config)
            assert "config sent for 'rm': " in (refused.value.details() or "")

        log = log_so_far(daemon)
        assert [line for line in log if MARK in line] == []
        refusals = [json.loads(line) for line in log if "call refused" in line]
        assert refusals[0]["reason"].startswith("line 10: ... lists found; write at most two, users and groups")
        assert "line 10: unknown property, ignored" in "".join(log), "the operator hears what is wrong where"


def answer(channel: Any, method: str, raw: bytes) -> object:
    """The first answer to a request of these bytes."""
    if method.rpartition("/")[2] in STREAMS:
        return next(channel.unary_stream(method)(raw, timeout=LIMIT_SECONDS))
    return channel.unary_unary(method)(raw, timeout=LIMIT_SECONDS)


@pytest.mark.parametrize("method", UNARY)
def test_bytes_that_are_no_message_are_the_mistake_of_the_client(daemon: DaemonProcess, method: str) -> None:
    name = method.rpartition("/")[2]
    before = len(log_so_far(daemon))
    with grpc.insecure_channel(daemon.target) as channel, pytest.raises(grpc.RpcError) as refused:
        answer(channel, method, b"\xff\xff")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"not a request of {name}: " in (refused.value.details() or "")
    line = daemon.wait_for_event("call refused", lambda one: one["method"] == name)
    assert (line["level"], line["code"]) == ("warning", "invalid_argument")
    lines = log_so_far(daemon)[before:]
    assert {json.loads(one)["level"] for one in lines} <= {"info", "warning"}, "each line is one event"


def test_a_stream_that_we_end_is_told_and_counted_and_its_rm_is_paused_for_that(
    daemon: DaemonProcess, client: RawClient
) -> None:
    labels = {"method": "UpdateAllocation", "code": "invalid_argument"}
    before = daemon.metric("schedulerd_calls_refused_total", **labels)
    client.register()
    stream = client.allocations()
    stream.send(client.hello())
    daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "running")
    stream.send(si_pb2.AllocationRequest(rmID="another"))
    code, details = stream.status()
    assert code is grpc.StatusCode.INVALID_ARGUMENT

    line = daemon.wait_for_event("call refused")
    assert {key: line[key] for key in ("level", "method", "code", "rm_id", "reason")} == {
        "level": "warning",
        "method": "UpdateAllocation",
        "code": "invalid_argument",
        "rm_id": client.rm_id,
        "reason": details,
    }
    assert line["peer"].startswith("ipv4:127.0.0.1:")
    paused = daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "paused")
    assert paused["cause"].startswith("schedulerd ended its allocation stream with an error")
    assert daemon.metric("schedulerd_calls_refused_total", **labels) == before + 1


def test_an_rm_that_goes_is_paused_because_it_is_gone(daemon: DaemonProcess, client: RawClient) -> None:
    client.register()
    stream = client.allocations()
    stream.send(client.hello())
    daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "running")
    stream.cancel()
    paused = daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "paused")
    assert paused["cause"].startswith("its allocation stream is gone")


def test_a_registration_that_is_refused_is_told_and_counted(daemon: DaemonProcess, client: RawClient) -> None:
    labels = {"method": "RegisterResourceManager", "code": "invalid_argument"}
    before = daemon.metric("schedulerd_calls_refused_total", **labels)
    with pytest.raises(grpc.RpcError):
        client.register(config="", policy_group="no-such-group")
    line = daemon.wait_for_event("call refused", lambda one: one["rm_id"] == client.rm_id)
    assert (line["method"], line["code"]) == ("RegisterResourceManager", "invalid_argument")
    assert "no-such-group" in line["reason"]
    assert daemon.metric("schedulerd_calls_refused_total", **labels) == before + 1
