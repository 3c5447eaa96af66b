"""What is written to the log blocks nothing, whether it is read or not."""

from __future__ import annotations

import json
import signal

from schedulerd.daemon.runtime.failures import ExitCode
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, allocated

PIPE_BYTES_MIN = 32_768
"""What the system holds of a pipe that is not read, at least: 16 pages of 4 KiB, of which not all are full."""


def test_a_daemon_whose_log_is_not_read_serves_and_ends() -> None:
    count = 500
    with (
        DaemonProcess("--log-level", "debug", "--drain-timeout-s", "0.2") as daemon,
        RawClient(daemon.target) as client,
    ):
        client.set_up(memory=10 * count, vcore=count)
        daemon.log_is_read.clear()
        stream = client.allocations()
        stream.send(client.asks("app-1", [f"key-{number}" for number in range(count)]))
        stream.until(lambda got: len(allocated(got)) == count)
        daemon.signal(signal.SIGTERM)
        stream.status()
        assert daemon.wait() == ExitCode.OK
    lines = daemon.lines
    assert sum(map(len, lines)) >= PIPE_BYTES_MIN
    assert '"event": "stopped"' not in lines[-1], "the pipe was full long before"


def test_a_log_that_is_read_has_the_last_line() -> None:
    with DaemonProcess("--drain-timeout-s", "0.2") as daemon:
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == ExitCode.OK
    assert json.loads(daemon.lines[-1])["event"] == "stopped"
