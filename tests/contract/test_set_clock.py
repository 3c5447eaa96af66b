"""Nothing ends early or late because the wall clock of the machine is set; what is told has the time it shows."""

from __future__ import annotations

import signal
import time

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated
from tests.contract.set_clock_daemon import DAY_NS, HOUR_NS

SOON_MS = 500
A_MINUTE_NS = 60 * 10**9


def place(
    client: RawClient, stream: UpdateStream[si_pb2.AllocationResponse], key: str, execution_timeout_ms: int
) -> None:
    request = client.asks("app-1", [key])
    request.asks[0].executionTimeoutMilliSeconds = execution_timeout_ms
    stream.send(request)
    stream.until(lambda got: key in {one.allocationKey for one in allocated(got)})


def ended(stream: UpdateStream[si_pb2.AllocationResponse]) -> str:
    """The key of the next allocation that is told to go."""
    got = stream.until(lambda got: any(response.released for response in got))
    (release,) = (one for response in got for one in response.released)
    assert release.terminationType == si_pb2.TIMEOUT
    return release.allocationKey


def last_event_ns(client: RawClient) -> int:
    events = admin_pb2_grpc.AdminStub(client.channel).ListEvents(admin_pb2.ListEventsRequest(), timeout=LIMIT_SECONDS)
    return events.events[-1].record.timestampNano


def test_a_workload_ends_on_time_whatever_is_done_to_the_wall_clock() -> None:
    with DaemonProcess(module="tests.contract.set_clock_daemon") as daemon, RawClient(daemon.target) as client:
        client.set_up()
        stream = client.allocations()
        place(client, stream, "long", 3_600_000)
        for key, ahead_ns in (("back", -HOUR_NS), ("forward", DAY_NS - HOUR_NS)):
            place(client, stream, key, SOON_MS)
            daemon.signal(signal.SIGUSR1)
            daemon.wait_for_event("wall clock set")
            assert ended(stream) == key
            assert abs(last_event_ns(client) - time.time_ns() - ahead_ns) < A_MINUTE_NS
            (app,) = daemon.state()["resource_managers"][0]["partitions"][0]["applications"]
            assert abs(app["submitted_at_ns"] - time.time_ns() - ahead_ns) < A_MINUTE_NS
