"""A process that was stopped for a while reads what had arrived before its overdue timers ring."""

from __future__ import annotations

import signal
import threading

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, allocated

COMPLETING_SECONDS = 1.0
ASKS, EACH = 400, 20


def is_answered(got: list[si_pb2.AllocationResponse]) -> bool:
    return sum(len(one.new) + len(one.rejected) for one in got) >= ASKS * EACH


def test_asks_that_waited_in_the_socket_find_their_application() -> None:
    """It would have been Completed while the process was stopped, and unknown afterwards."""
    flags = ("--completing-timeout-s", str(COMPLETING_SECONDS), "--early-message-timeout-s", "0")
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target) as client:
        client.set_up(memory=1_000_000, vcore=1_000_000)
        stream = client.allocations()
        stream.send(client.asks("app-1", ["first"]))
        (first,) = allocated(stream.until(lambda got: bool(allocated(got))))
        release = si_pb2.AllocationRelease(applicationID="app-1", UUID=first.UUID)
        releases = si_pb2.AllocationReleasesRequest(allocationsToRelease=[release])
        stream.send(si_pb2.AllocationRequest(rmID=client.rm_id, releases=releases))
        stream.until(lambda got: any(one.released for one in got))
        daemon.signal(signal.SIGSTOP)
        try:
            for number in range(ASKS):
                stream.send(client.asks("app-1", [f"{number}-{key}" for key in range(EACH)]))
            threading.Event().wait(2 * COMPLETING_SECONDS)
        finally:
            daemon.signal(signal.SIGCONT)
        got = stream.until(is_answered)
        assert [one.reason for response in got for one in response.rejected] == []
        stream.cancel()
