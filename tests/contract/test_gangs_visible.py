"""What a running daemon shows of a gang while its swap is in flight: metrics, `/debug/state` and the log."""

from __future__ import annotations

from typing import Any

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, allocated


def of_a_task_group(request: si_pb2.AllocationRequest, *, placeholder: bool) -> si_pb2.AllocationRequest:
    for ask in request.asks:
        ask.taskGroupName, ask.placeholder = "workers", placeholder
    return request


def the_application(daemon: DaemonProcess, rm_id: str) -> dict[str, Any]:
    (manager,) = daemon.state(rm=rm_id, application="app-1")["resource_managers"]
    (application,) = manager["partitions"][0]["applications"]
    return dict(application)


def test_a_gang_is_seen_in_metrics_state_and_log(daemon: DaemonProcess, client: RawClient) -> None:
    client.set_up()
    by_partition = {"rm": client.rm_id, "partition": "default"}

    def in_queue(name: str) -> float:
        return daemon.metric(f"schedulerd_{name}", **by_partition, queue="root.a")

    def event(name: str) -> float:
        return daemon.metric("schedulerd_placeholders_total", **by_partition, event=name)

    complete_before = daemon.metric("schedulerd_gang_complete_seconds_count")
    allocations = client.allocations()
    allocations.send(of_a_task_group(client.asks("app-1", ["p-1", "p-2"]), placeholder=True))
    allocations.until(lambda got: len(allocated(got)) == 2)
    line = daemon.wait_for_event("gang complete", lambda line: line["rm_id"] == client.rm_id)
    assert (line["level"], line["application_id"], line["placeholders"]) == ("info", "app-1", 2)
    assert (in_queue("allocated_placeholders"), in_queue("asks_awaiting_placeholder")) == (2, 0)
    assert daemon.metric("schedulerd_gang_complete_seconds_count") == complete_before + 1

    allocations.send(of_a_task_group(client.asks("app-1", ["real-1"]), placeholder=False))
    (release,) = next(got.released for got in iter(allocations.next, None) if got.released)
    assert release.terminationType == si_pb2.PLACEHOLDER_REPLACED
    assert (in_queue("allocated_placeholders"), in_queue("asks_awaiting_placeholder")) == (2, 1)
    shown = the_application(daemon, client.rm_id)
    assert shown["gang_full_ns"] - shown["gang_first_asked_ns"] == line["waited_ns"]
    (group,) = shown["task_groups"]
    assert {name: group[name] for name in ("name", "wanted", "placed", "idle", "awaiting_placeholder", "replaced")} == (
        {"name": "workers", "wanted": 2, "placed": 2, "idle": 1, "awaiting_placeholder": 1, "replaced": 0}
    )

    confirmation = si_pb2.AllocationRequest(rmID=client.rm_id)
    confirmation.releases.allocationsToRelease.append(release)
    allocations.send(confirmation)
    allocations.until(lambda got: bool(allocated(got)))
    assert (in_queue("allocated_placeholders"), in_queue("asks_awaiting_placeholder")) == (1, 0)
    assert [event(name) for name in ("asked", "placed", "replaced", "released", "timed_out")] == [2, 2, 1, 1, 0]
