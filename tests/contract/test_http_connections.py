"""Clients of the HTTP port that say nothing or too little, or do not read: probes get through all the same."""

from __future__ import annotations

import contextlib
import resource
import signal
import socket

import httpx
import psutil
import pytest

from schedulerd.daemon.admin.http import ACCEPTED_MAX
from schedulerd.daemon.admin.http_connections import CONNECTIONS_MAX, READERS_MAX
from schedulerd.daemon.runtime.failures import ExitCode
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient

UNFINISHED = {
    "nothing": b"",
    "half a line": b"GET /metr",
    "half a header": b"GET /metrics HTTP/1.1\r\nHost: daem",
    "a body that never comes": b"PUT /loglevel HTTP/1.1\r\nHost: daemon\r\nContent-Length: 17\r\n\r\n",
    "half a body": b'PUT /loglevel HTTP/1.1\r\nHost: daemon\r\nContent-Length: 17\r\n\r\n{"lev',
    "a body that nobody wants": b"GET /livez HTTP/1.1\r\nHost: daemon\r\nContent-Length: 17\r\n\r\n",
}
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: daemon\r\n\r\n"
OTHER_DESCRIPTORS_MAX = 100
"""That a daemon without HTTP clients has open."""


def connect(daemon: DaemonProcess, *, receive_bytes: int | None = None) -> socket.socket:
    one = socket.socket()
    if receive_bytes is not None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    one.settimeout(LIMIT_SECONDS)
    one.connect(("127.0.0.1", httpx.URL(daemon.url).port or 0))
    return one


def assert_served(daemon: DaemonProcess) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/livez"):
        assert httpx.get(daemon.url + path, timeout=LIMIT_SECONDS).status_code == 200
    with RawClient(daemon.target) as client:
        client.register()


@pytest.mark.parametrize(
    ("said", "count"),
    [
        *((said, 205) for said in UNFINISHED),
        *(pytest.param(said, 2_000, marks=pytest.mark.nightly) for said in ("nothing", "half a body")),
    ],
)
def test_however_many_clients_finish_no_request_probes_are_answered(descriptors: None, said: str, count: int) -> None:
    with DaemonProcess() as daemon, contextlib.ExitStack() as open_ones:
        for _ in range(count):
            one = open_ones.enter_context(connect(daemon))
            with contextlib.suppress(ConnectionError):
                one.send(UNFINISHED[said])
        assert_served(daemon)
        assert psutil.Process(daemon.pid).num_fds() <= CONNECTIONS_MAX + ACCEPTED_MAX + OTHER_DESCRIPTORS_MAX
        assert [line for line in daemon.lines if "Traceback" in line or '"level": "error"' in line] == []


def test_where_few_files_may_be_open_silent_clients_starve_no_probe(descriptors: None) -> None:
    """`ulimit -n 256`: connections of both ports together stay below it."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        starting = DaemonProcess()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with starting as daemon, contextlib.ExitStack() as open_ones:
        for _ in range(300):
            open_ones.enter_context(connect(daemon))
        host, _, port = daemon.target.rpartition(":")
        for _ in range(300):
            with contextlib.suppress(ConnectionError):
                open_ones.enter_context(socket.create_connection((host, int(port)), LIMIT_SECONDS))
        for path in ("/livez", "/readyz", "/metrics", "/livez"):
            assert httpx.get(daemon.url + path, timeout=LIMIT_SECONDS).status_code == 200
        assert not [line for line in daemon.lines if "no file descriptor left" in line]


def test_clients_that_read_nothing_delay_neither_metrics_nor_the_shutdown() -> None:
    with DaemonProcess() as daemon, contextlib.ExitStack() as open_ones:
        for _ in range(2 * READERS_MAX):
            one = open_ones.enter_context(connect(daemon, receive_bytes=4096))
            one.send(SCRAPE * 500)
        assert_served(daemon)
        before_bytes = daemon.resident_bytes()
        for _ in range(20):
            assert_served(daemon)
        assert daemon.resident_bytes() - before_bytes < 50 << 20
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == ExitCode.OK
