"""What the specification promises a resource manager, end to end: every request has its confirmation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, allocated, resource

ROOT = Path(__file__).parents[2]


@pytest.mark.smoke
def test_a_client_made_from_the_proto_file_alone(daemon: DaemonProcess, tmp_path: Path) -> None:
    protoc = [sys.executable, "-I", "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}", f"--python_out={tmp_path}"]
    files = ["si/v1/si.proto", "si/v2021_02/si.proto"]
    subprocess.run([*protoc, f"--grpc_python_out={tmp_path}", *files], check=True, timeout=LIMIT_SECONDS)
    # Isolated: neither this folder nor the environment adds to what it can import.
    client = [sys.executable, "-I", str(ROOT / "tests" / "contract" / "foreign_client.py"), str(tmp_path)]
    ended = subprocess.run(
        [*client, daemon.target], capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "nodes": ["node-1"],
        "applications": ["app-1"],
        "placed": ["pod-1", "node-1", "[foreign]default"],
        "released": ["pod-1", True],
    }


@pytest.mark.smoke
def test_a_session_from_registration_to_the_last_release(client: RawClient) -> None:
    client.register()
    nodes, applications, allocations = client.nodes(), client.applications(), client.allocations()
    nodes.send(client.node("node-1"))
    assert [node.nodeID for node in nodes.next().accepted] == ["node-1"]
    applications.send(client.application("app-1"))
    assert [app.applicationID for app in applications.next().accepted] == ["app-1"]

    allocations.send(client.asks("app-1", ["pod-1", "pod-2"]))
    placed = allocated(allocations.until(lambda got: len(allocated(got)) == 2))
    assert [allocation.allocationKey for allocation in placed] == ["pod-1", "pod-2"]
    assert {allocation.nodeID for allocation in placed} == {"node-1"}
    assert {allocation.applicationID for allocation in placed} == {"app-1"}
    assert {allocation.partitionName for allocation in placed} == {f"[{client.rm_id}]default"}
    assert all(allocation.resourcePerAlloc == resource(memory=10, vcore=1) for allocation in placed)
    assert len({allocation.UUID for allocation in placed}) == 2

    states = applications.until(lambda got: any(app.state == "Running" for r in got for app in r.updated))
    updates = [app for response in states for app in response.updated]
    assert [app.state for app in updates] == ["Accepted", "Starting", "Running"]
    assert all(app.stateTransitionTimestamp > 1_600_000_000 * 10**9 for app in updates), "nanoseconds since the epoch"

    allocations.send(client.release("app-1", placed[0].UUID))
    (released,) = allocations.next().released
    assert (released.UUID, released.terminationType) == (placed[0].UUID, si_pb2.STOPPED_BY_RM)
    assert released.partitionName == f"[{client.rm_id}]default"

    removal = si_pb2.RemoveApplicationRequest(applicationID="app-1")
    applications.send(si_pb2.ApplicationRequest(rmID=client.rm_id, remove=[removal]))
    (released,) = allocations.next().released
    assert released.UUID == placed[1].UUID


def test_rejections_name_the_item_and_the_rest_of_the_message_is_processed(client: RawClient) -> None:
    client.set_up()
    allocations = client.allocations()
    request = client.asks("app-1", ["good"])
    request.asks.add(allocationKey="negative", applicationID="app-1", maxAllocations=1).resourceAsk.CopyFrom(
        resource(memory=-5)
    )
    request.asks.add(allocationKey="", applicationID="app-1", maxAllocations=1).resourceAsk.CopyFrom(resource(vcore=1))
    allocations.send(request)
    got = allocations.until(lambda got: len(allocated(got)) == 1 and sum(len(r.rejected) for r in got) == 2)
    reasons = {ask.allocationKey: ask.reason for response in got for ask in response.rejected}
    assert "-5" in reasons["negative"]
    assert "memory" in reasons["negative"]
    assert "allocationKey" in reasons[""]


def test_registering_again_drops_the_state_and_the_streams(daemon: DaemonProcess, client: RawClient) -> None:
    client.set_up()
    before = client.allocations()
    before.send(client.asks("app-1", ["pod-1"]))
    before.until(lambda got: len(allocated(got)) == 1)

    client.register()
    code, details = before.status()
    assert (code.name, "registered again" in details) == ("ABORTED", True)
    (manager,) = [rm for rm in daemon.state()["resource_managers"] if rm["rm_id"] == client.rm_id]
    (partition,) = manager["partitions"]
    assert (partition["nodes"], partition["applications"]) == ([], [])

    nodes, applications, allocations = client.nodes(), client.applications(), client.allocations()
    recovered = client.node("node-0")
    recovered.nodes[0].existingAllocations.add(
        allocationKey="pod-1", UUID="known-before", nodeID="node-0", applicationID="app-1"
    ).resourcePerAlloc.CopyFrom(resource(memory=10, vcore=1))
    applications.send(client.application("app-1"))
    applications.until(lambda got: any(response.accepted for response in got))
    nodes.send(recovered)
    assert [node.nodeID for node in nodes.next().accepted] == ["node-0"]
    allocations.send(client.release("app-1", "known-before"))
    (released,) = allocations.next().released
    assert released.UUID == "known-before"


def test_two_resource_managers_have_the_same_names_and_do_not_meet(daemon: DaemonProcess, client: RawClient) -> None:
    with RawClient(daemon.target, f"{client.rm_id}-other") as other:
        client.set_up()
        other.set_up()
        mine, theirs = client.allocations(), other.allocations()
        mine.send(client.asks("app-1", ["pod"]))
        theirs.send(other.asks("app-1", ["pod"]))
        for stream, owner in ((mine, client), (theirs, other)):
            (allocation,) = allocated(stream.until(lambda got: bool(allocated(got))))
            assert allocation.partitionName == f"[{owner.rm_id}]default"


def test_the_node_attribute_and_any_spelling_of_the_name_pick_the_partition(client: RawClient) -> None:
    client.register(
        QUEUES.rstrip() + QUEUES.replace("partitions:\n", "").replace("name: default", "name: gpu").rstrip()
    )
    nodes, applications, allocations = client.nodes(), client.applications(), client.allocations()
    on_gpu = client.node("node-gpu")
    on_gpu.nodes[0].attributes["si/node-partition"] = f"[{client.rm_id}]gpu"
    nodes.send(client.node("node-default"))
    nodes.send(on_gpu)
    nodes.until(lambda got: sum(len(response.accepted) for response in got) == 2)
    for partition, application_id in ((f"[{client.rm_id}]gpu", "app-gpu"), ("", "app-default")):
        request = client.application(application_id)
        request.new[0].partitionName = partition
        applications.send(request)
    applications.until(lambda got: sum(len(response.accepted) for response in got) == 2)
    for partition, application_id in (("gpu", "app-gpu"), ("default", "app-default")):
        ask = client.asks(application_id, ["pod"])
        ask.asks[0].partitionName = partition
        allocations.send(ask)
    placed = allocated(allocations.until(lambda got: len(allocated(got)) == 2))
    assert {allocation.applicationID: allocation.nodeID for allocation in placed} == {
        "app-gpu": "node-gpu",
        "app-default": "node-default",
    }
