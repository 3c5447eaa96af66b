"""Connections that say nothing, or not enough, and more of them than there is room for."""

from __future__ import annotations

import contextlib

import grpc
import psutil
import pytest

from tests.contract import http2
from tests.contract.cable import Cable
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, allocated

IDLE = 1_000
BYTES_EACH_MAX = 64 << 10
"""What an idle connection may cost the daemon; gRPC takes some 20 kB."""
CONNECTIONS = 20
DESCRIPTORS_LEFT = 10
HANDSHAKE_S = 0.3
UPDATE_NODE = "/si.v1.Scheduler/UpdateNode"


def is_served(client: RawClient, key: str) -> bool:
    """Whether an ask of its `app-1` is placed."""
    stream = client.allocations()
    stream.send(client.asks("app-1", [key]))
    found = [one.allocationKey for one in allocated(stream.until(lambda got: bool(allocated(got))))]
    stream.half_close()
    return found == [key]


def unfinished() -> dict[str, bytes]:
    """What a slow client has sent so far, by how far it has come."""
    begun = http2.BEGIN + http2.headers(1, UPDATE_NODE)
    return {
        "nothing": b"",
        "half a preface": http2.PREFACE[:10],
        "a preface": http2.PREFACE,
        "half a frame of settings": http2.BEGIN[:-4],
        "settings": http2.BEGIN,
        "half a frame of headers": begun[:-10],
        "headers": begun,
        "half a message": begun + http2.message(1, b"x" * 100)[:-50],
    }


def test_a_client_that_does_not_begin_in_time_is_disconnected() -> None:
    with DaemonProcess("--handshake-timeout-s", str(HANDSHAKE_S)) as daemon, contextlib.ExitStack() as connections:
        for said in ("nothing", "half a preface", "a preface", "half a frame of settings"):
            slow = connections.enter_context(http2.Connection(daemon.target))
            slow.send(unfinished()[said])
            slow.until_closed()
        with RawClient(daemon.target) as client:
            client.register()


def test_a_preface_that_trickles_in_byte_by_byte_gains_no_time() -> None:
    with DaemonProcess("--handshake-timeout-s", str(HANDSHAKE_S)) as daemon, http2.Connection(daemon.target) as slow:
        for byte in http2.BEGIN:
            with contextlib.suppress(ConnectionError):
                slow.send(bytes([byte]))
            if slow.is_closed_within(HANDSHAKE_S / 10):
                break
        else:
            pytest.fail("it was let in after all")


def test_a_thousand_connections_that_stop_anywhere_cost_little_and_disturb_no_other(descriptors: None) -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target, "rm") as client:
        client.set_up()
        assert is_served(client, "before")
        before_bytes = daemon.resident_bytes()
        with contextlib.ExitStack() as open_ones:
            texts = list(unfinished().values())
            for number in range(IDLE):
                connection = open_ones.enter_context(http2.Connection(daemon.target))
                connection.send(texts[number % len(texts)])
            assert is_served(client, "meanwhile")
            with RawClient(daemon.target, "another") as another:
                another.register()
            each_bytes = (daemon.resident_bytes() - before_bytes) // IDLE
            print(f"{IDLE} connections that say nothing more survived, {each_bytes / 1024:.0f} KiB each")
            assert each_bytes < BYTES_EACH_MAX
            assert psutil.Process(daemon.pid).num_fds() > IDLE
        assert is_served(client, "after")
        assert daemon.state()["violations"] == []


def test_a_client_without_a_sign_of_life_is_given_up_and_served_when_it_is_back() -> None:
    with (
        DaemonProcess("--keepalive-s", "1") as daemon,
        Cable(daemon.target) as cable,
        RawClient(cable.target, "cut-off") as client,
        RawClient(daemon.target, "cut-off") as back,
    ):
        client.set_up(vcore=1)
        stream = client.allocations()
        stream.send(client.asks("app-1", ["first", "second"]))
        stream.until(lambda got: bool(allocated(got)))
        cable.pull()
        lost = daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "paused")
        assert "the connection broke" in lost["cause"]
        nodes = back.nodes()
        nodes.send(back.node("later"))
        assert nodes.next().accepted
        again = back.allocations()
        again.send(back.hello())
        (second,) = allocated(again.until(lambda got: bool(allocated(got))))
        assert second.nodeID == "later"
        assert daemon.state()["violations"] == []


def test_no_more_connections_than_allowed() -> None:
    with DaemonProcess("--connections-max", str(CONNECTIONS)) as daemon, RawClient(daemon.target, "rm") as client:
        client.set_up()
        with contextlib.ExitStack() as open_ones:
            for _ in range(CONNECTIONS - 1):
                connection = open_ones.enter_context(http2.Connection(daemon.target))
                connection.send(http2.BEGIN)
                connection.until_read()
            with http2.Connection(daemon.target) as one_more:
                one_more.until_closed()
            assert is_served(client, "meanwhile")
        with RawClient(daemon.target, "next") as late:
            grpc.channel_ready_future(late.channel).result(LIMIT_SECONDS)
            late.register()


def test_without_file_descriptors_connected_clients_are_served_and_others_later() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target, "rm") as client:
        client.set_up()
        assert is_served(client, "before")
        process = psutil.Process(daemon.pid)
        limit = process.num_fds() + DESCRIPTORS_LEFT
        soft, hard = process.rlimit(psutil.RLIMIT_NOFILE)
        process.rlimit(psutil.RLIMIT_NOFILE, (limit, hard))
        with contextlib.ExitStack() as open_ones:
            for _ in range(5 * DESCRIPTORS_LEFT):
                open_ones.enter_context(http2.Connection(daemon.target)).send(http2.BEGIN)
            line = daemon.wait_for_event(
                "no file descriptor left: no new connection is accepted, open connections are served"
            )
            assert (line["level"], line["limit"]) == ("error", limit)
            assert is_served(client, "meanwhile")
        daemon.wait_for_event("file descriptors again: connections are accepted")
        with RawClient(daemon.target, "late") as late:
            grpc.channel_ready_future(late.channel).result(LIMIT_SECONDS)
            late.set_up()
            assert is_served(late, "late")
        process.rlimit(psutil.RLIMIT_NOFILE, (soft, hard))
        assert daemon.state()["violations"] == []
        assert [one for one in daemon.lines if "Traceback" in one] == []
