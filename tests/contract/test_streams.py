"""Streams that open, close, break and come back: SEMANTICS C3 and C4."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated


def of_rm(client: RawClient, state: str) -> Callable[[dict[str, Any]], bool]:
    return lambda line: line["rm_id"] == client.rm_id and line["state"] == state


@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("UpdateAllocation", si_pb2.AllocationRequest),
        ("UpdateApplication", si_pb2.ApplicationRequest),
        ("UpdateNode", si_pb2.NodeRequest),
        ("Update", si_2021_pb2.UpdateRequest),
    ],
)
class TestEveryStream:
    def test_before_registration_it_is_told_to_register(
        self, client: RawClient, method: str, request_type: Any
    ) -> None:
        stream: UpdateStream[Any] = UpdateStream(getattr(client.stub, method))
        stream.send(request_type(rmID=client.rm_id))
        code, details = stream.status()
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert client.rm_id in details
        assert "RegisterResourceManager" in details

    def test_a_first_message_without_rm_id_is_refused(self, client: RawClient, method: str, request_type: Any) -> None:
        client.register()
        stream: UpdateStream[Any] = UpdateStream(getattr(client.stub, method))
        stream.send(request_type())
        code, details = stream.status()
        assert (code, "rmID" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)

    @pytest.mark.parametrize("other", ["somebody-else", ""])
    def test_another_rm_id_later_ends_the_stream(
        self, client: RawClient, method: str, request_type: Any, other: str
    ) -> None:
        client.register()
        stream: UpdateStream[Any] = UpdateStream(getattr(client.stub, method))
        stream.send(request_type(rmID=client.rm_id))
        stream.send(request_type(rmID=other))
        code, details = stream.status()
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert repr(other) in details
        assert client.rm_id in details

    def test_bytes_that_are_no_message_are_refused(self, client: RawClient, method: str, request_type: Any) -> None:
        client.register()
        stream: UpdateStream[bytes] = UpdateStream(client.channel.stream_stream(f"/si.v1.Scheduler/{method}"))
        stream.send(b"\x0a\xff\xff")
        code, details = stream.status()
        assert (code, method in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)

    def test_closed_without_a_message_it_ends_with_ok(self, client: RawClient, method: str, request_type: Any) -> None:
        stream: UpdateStream[Any] = UpdateStream(getattr(client.stub, method))
        stream.half_close()
        assert stream.status()[0] is grpc.StatusCode.OK


def test_a_client_that_has_finished_sending_is_still_served(client: RawClient) -> None:
    client.set_up(vcore=1)
    stream = client.allocations()
    stream.send(client.asks("app-1", ["first", "second"]))
    stream.half_close()
    (first,) = allocated(stream.until(lambda got: bool(allocated(got))))

    with_nodes = client.nodes()
    with_nodes.send(client.node("later"))
    (second,) = allocated(stream.until(lambda got: bool(allocated(got))))
    assert (first.allocationKey, second.allocationKey, second.nodeID) == ("first", "second", "later")


def test_a_stream_for_every_message_is_a_legal_way_to_speak(client: RawClient) -> None:
    client.set_up(memory=1000, vcore=100)
    keys = [f"pod-{number}" for number in range(20)]
    streams = []
    for key in keys:
        stream = client.allocations()
        stream.send(client.asks("app-1", [key]))
        stream.half_close()
        streams.append(stream)
        stream.next()  # nothing is known about the order of streams that are opened at the same time
    for stream in streams[:-1]:
        assert stream.status()[0] is grpc.StatusCode.OK


def test_a_newer_stream_takes_over_after_what_the_older_one_had_sent(client: RawClient) -> None:
    client.set_up(memory=100_000, vcore=10_000)
    older = client.allocations()
    older.send(client.asks("app-1", ["before"]))
    older.until(lambda got: bool(allocated(got)))

    newer = client.allocations()
    newer.send(client.asks("app-1", ["after"]))
    assert older.status()[0] is grpc.StatusCode.OK
    (after,) = allocated(newer.until(lambda got: bool(allocated(got))))
    assert after.allocationKey == "after"


def test_responses_are_kept_in_order_for_a_stream_that_is_not_open(client: RawClient) -> None:
    client.set_up()
    ended = client.applications()
    for rm_id in (client.rm_id, "another"):
        ended.send(si_pb2.ApplicationRequest(rmID=rm_id))
    assert ended.status()[0] is grpc.StatusCode.INVALID_ARGUMENT, "who is told so has no stream there any more"
    stream = client.allocations()
    stream.send(client.asks("app-1", ["one", "two"]))
    stream.until(lambda got: len(allocated(got)) == 2)

    applications = client.applications()
    applications.send(si_pb2.ApplicationRequest(rmID=client.rm_id))
    got = applications.until(lambda got: any(app.state == "Running" for r in got for app in r.updated))
    assert [app.state for response in got for app in response.updated] == ["Accepted", "Starting", "Running"]


def test_while_its_stream_is_away_nothing_is_placed(daemon: DaemonProcess, client: RawClient) -> None:
    client.set_up(vcore=1)
    stream = client.allocations()
    stream.send(client.asks("app-1", ["first", "second"]))
    stream.until(lambda got: bool(allocated(got)))
    stream.cancel()
    daemon.wait_for_event("resource manager changed", of_rm(client, "paused"))

    with_nodes = client.nodes()
    with_nodes.send(client.node("later"))
    with_nodes.until(lambda got: any(response.accepted for response in got))
    (manager,) = [rm for rm in daemon.state()["resource_managers"] if rm["rm_id"] == client.rm_id]
    (application,) = manager["partitions"][0]["applications"]
    assert [ask["allocation_key"] for ask in application["asks"]] == ["second"]

    back = client.allocations()
    back.send(client.hello())
    got = allocated(back.until(lambda got: any(one.allocationKey == "second" for one in allocated(got))))
    *being_written, (key, node) = [(one.allocationKey, one.nodeID) for one in got]
    assert (key, node) == ("second", "later")
    assert being_written in ([], [("first", "node-0")])


def test_away_for_too_long_it_has_to_resync(client: RawClient) -> None:
    with DaemonProcess("--reconnect-timeout-s", "0.2") as daemon, RawClient(daemon.target) as client:
        client.set_up()
        stream = client.allocations()
        stream.send(client.asks("app-1", ["pod"]))
        stream.until(lambda got: bool(allocated(got)))
        with_nodes = client.nodes()
        with_nodes.send(si_pb2.NodeRequest(rmID=client.rm_id))
        stream.cancel()

        code, details = with_nodes.status()
        assert code is grpc.StatusCode.ABORTED
        assert details.startswith("RESYNC")
        back = client.allocations()
        back.send(client.hello())
        assert back.status() == (grpc.StatusCode.ABORTED, details)

        assert daemon.state()["resource_managers"] == []
        client.register()
        again = client.nodes()
        again.send(client.node("node-0"))
        assert again.next().accepted


def test_an_rm_that_unregisters_is_told_so_and_forgotten_at_once(daemon: DaemonProcess, client: RawClient) -> None:
    client.set_up()
    stream = client.allocations()
    stream.send(client.asks("app-1", ["pod"]))
    stream.until(lambda got: bool(allocated(got)))

    admin = admin_pb2_grpc.AdminStub(client.channel)
    leave = admin_pb2.UnregisterResourceManagerRequest(rmID=client.rm_id)
    admin.UnregisterResourceManager(leave, timeout=LIMIT_SECONDS)
    assert stream.status()[0] is grpc.StatusCode.OK
    assert client.rm_id not in [rm["rm_id"] for rm in daemon.state()["resource_managers"]]
    with pytest.raises(grpc.RpcError) as refused:
        admin.UnregisterResourceManager(leave, timeout=LIMIT_SECONDS)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    late = client.allocations()
    late.send(client.hello())
    assert late.status()[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_a_client_that_is_killed_does_not_disturb_another(daemon: DaemonProcess, client: RawClient) -> None:
    client.set_up(memory=1_000_000, vcore=100_000)
    mine = client.allocations()
    mine.send(client.asks("app-1", ["before"]))
    mine.until(lambda got: bool(allocated(got)))

    with RawClient(daemon.target, f"{client.rm_id}-doomed") as doomed:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.doomed_client", daemon.target, doomed.rm_id],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"allocations are coming\n"
            process.kill()
            process.wait(LIMIT_SECONDS)

        mine.send(client.asks("app-1", [f"pod-{number}" for number in range(1000)]))
        mine.until(lambda got: len(allocated(got)) == 1000)
        daemon.wait_for_event("resource manager changed", of_rm(doomed, "paused"))
        assert not [line for line in daemon.lines if '"level": "error"' in line]
        assert daemon.state()["violations"] == []

        back = doomed.allocations()
        back.send(doomed.hello())
        assert allocated(back.until(lambda got: bool(allocated(got)))), "what was kept for it is delivered"


def test_a_registration_that_cannot_be_served_changes_nothing(daemon: DaemonProcess, client: RawClient) -> None:
    client.set_up()
    broken = """
partitions:
  - name: default
    nodesortpolicy: {type: random}
    queues:
      - name: root
        submitacl: "*"
        queue: []
"""
    with pytest.raises(grpc.RpcError) as refused:
        client.register(broken)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = refused.value.details() or ""
    assert "random" in details
    assert "queue" in details
    assert "line 4" in details
    with pytest.raises(grpc.RpcError) as unknown:
        client.register("", policy_group="gold")
    assert (unknown.value.code(), "gold" in str(unknown.value.details())) == (grpc.StatusCode.INVALID_ARGUMENT, True)
    with pytest.raises(grpc.RpcError) as nameless:
        client.stub.RegisterResourceManager(si_pb2.RegisterResourceManagerRequest(), timeout=LIMIT_SECONDS)
    assert (nameless.value.code(), "rmID" in str(nameless.value.details())) == (grpc.StatusCode.INVALID_ARGUMENT, True)

    stream = client.allocations()
    stream.send(client.asks("app-1", ["pod"]))
    assert allocated(stream.until(lambda got: bool(allocated(got)))), "the earlier registration still holds"


def test_ten_thousand_asks_sent_before_anything_is_read(daemon: DaemonProcess, client: RawClient) -> None:
    client.set_up(nodes=10, memory=10_000, vcore=1_000)
    before_bytes = daemon.resident_bytes()
    stream = client.allocations(reading=False)
    keys = [f"pod-{number}" for number in range(10_000)]
    for first in range(0, len(keys), 1000):
        stream.send(client.asks("app-1", keys[first : first + 1000]))
    stream.half_close()
    wait_until_placed(daemon, client, len(keys))
    assert daemon.resident_bytes() - before_bytes < 100 * 1024 * 1024

    stream.read()
    placed = allocated(stream.until(lambda got: len(allocated(got)) >= len(keys)))
    assert [allocation.allocationKey for allocation in placed] == keys
    assert len({allocation.UUID for allocation in placed}) == len(keys)


def wait_until_placed(daemon: DaemonProcess, client: RawClient, count: int) -> None:
    """Asks again until it is so; the test's own time limit ends a wait that is in vain."""
    while daemon.metric("schedulerd_placements_total", rm=client.rm_id, partition="default") < count:
        pass


def test_a_client_that_does_not_read_is_slowed_down_and_loses_nothing() -> None:
    with DaemonProcess("--outbox-max-bytes", "4000000") as daemon, RawClient(daemon.target) as client:
        client.set_up(memory=10_000_000, vcore=1_000_000)
        stream = client.allocations(reading=False)
        keys = [f"pod-{number}" for number in range(20_000)]
        for first in range(0, len(keys), 1000):
            request = client.asks("app-1", keys[first : first + 1000])
            for ask in request.asks:
                ask.tags["large"] = "x" * 1000
            stream.send(request)
        daemon.wait_for_event("resource manager changed", of_rm(client, "paused"))
        assert daemon.metric("schedulerd_outbox_depth") > 0
        assert daemon.metric("schedulerd_placements_total", rm=client.rm_id, partition="default") < len(keys)

        stream.read()
        placed = allocated(stream.until(lambda got: len(allocated(got)) >= len(keys)))
        assert [allocation.allocationKey for allocation in placed] == keys
        assert daemon.state()["violations"] == []


def short_lived(request: si_pb2.AllocationRequest) -> si_pb2.AllocationRequest:
    """What is said of each pod is large, and there is more to say when its time is over."""
    for ask in request.asks:
        ask.tags["large"] = "x" * 1000
        ask.executionTimeoutMilliSeconds = 1
    return request


def test_an_answer_larger_than_what_is_kept_reaches_a_client_that_reads() -> None:
    with DaemonProcess("--outbox-max-bytes", "65536") as daemon, RawClient(daemon.target) as client:
        client.set_up(memory=10_000_000, vcore=1_000_000)
        stream = client.allocations()
        request = client.asks("app-1", [f"pod-{number}" for number in range(1000)])
        for ask in request.asks:
            ask.tags["large"] = "x" * 1000
        stream.send(request)
        stream.until(lambda got: len(allocated(got)) == 1000)
        assert daemon.state()["violations"] == []


def test_more_than_is_kept_means_resync() -> None:
    with DaemonProcess("--outbox-max-bytes", "65536") as daemon, RawClient(daemon.target) as client:
        client.set_up(memory=10_000_000, vcore=1_000_000)
        stream = client.allocations(reading=False)
        stream.send(short_lived(client.asks("app-1", [f"pod-{number}" for number in range(2000)])))
        daemon.wait_for_event("resource manager changed", of_rm(client, "stopped"))
        stream.read()
        code, details = stream.status()
        assert (code, details.startswith("RESYNC")) == (grpc.StatusCode.ABORTED, True)
        assert daemon.state()["violations"] == []
