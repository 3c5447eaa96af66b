"""A resource manager of 2021-02 against a real daemon: one stream, one message for everything (SEMANTICS B1, C3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from schedulerd._generated.si.v2021_02 import si_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, allocated
from tests.contract.raw_client_2021 import RawClient2021, merged, placed, resource


@pytest.fixture
def rm(daemon: DaemonProcess, client: RawClient) -> Iterator[RawClient2021]:
    """A resource manager of this dialect that nobody has seen before."""
    with RawClient2021(daemon.target, f"{client.rm_id}-2021") as made:
        yield made


def test_the_registration_of_this_dialect_is_the_same_on_the_wire(rm: RawClient2021) -> None:
    register: Any = rm.channel.unary_unary("/si.v1.Scheduler/RegisterResourceManager")
    request = si_pb2.RegisterResourceManagerRequest(rmID=rm.rm_id, version="2021")
    answer = register(request.SerializeToString(), timeout=LIMIT_SECONDS)
    assert si_pb2.RegisterResourceManagerResponse.FromString(answer) == si_pb2.RegisterResourceManagerResponse()
    stream = rm.updates()
    stream.send(rm.everything(["n1"], "app-1", [], queue_name="root.batch"))
    assert merged(stream.until(lambda got: bool(merged(got).acceptedNodes))).acceptedApplications


def test_one_message_that_says_everything_and_the_end_of_what_it_started(rm: RawClient2021) -> None:
    rm.register()
    stream = rm.updates()
    request = rm.everything(["n1"], "app-1", ["pod-1", "pod-2"])
    request.asks[0].tags["name"] = "first"
    request.updatedNodes.add(nodeID="n1", action=si_pb2.UpdateNodeInfo.UPDATE, attributes={"si/hostname": "one"})
    request.utilizationReports.add(ID="n1", actualUsedResource=resource(memory=1))
    stream.send(request)
    heard = merged(stream.until(lambda got: len(placed(got)) == 2))
    assert [node.nodeID for node in heard.acceptedNodes] == ["n1"]
    assert [app.applicationID for app in heard.acceptedApplications] == ["app-1"]
    first, second = heard.newAllocations
    assert (first.allocationKey, first.nodeID, first.queueName) == ("pod-1", "n1", "root.a")
    assert (first.partitionName, dict(first.allocationTags)) == (f"[{rm.rm_id}]default", {"name": "first"})
    assert first.resourcePerAlloc == resource(memory=10, vcore=1)

    stream.send(rm.release_of("app-1", first.UUID))
    (gone,) = merged(stream.until(lambda got: bool(merged(got).releasedAllocations))).releasedAllocations
    assert (gone.UUID, gone.terminationType) == (first.UUID, si_pb2.AllocationRelease.STOPPED_BY_RM)

    last = rm.update()
    last.removeApplications.add(applicationID="app-1")
    stream.send(last)
    (gone,) = merged(stream.until(lambda got: bool(merged(got).releasedAllocations))).releasedAllocations
    assert gone.UUID == second.UUID


def test_placeholders_are_replaced_with_the_types_of_this_dialect(rm: RawClient2021) -> None:
    rm.register()
    stream = rm.updates()
    request = rm.everything(["n1"], "gang", ["holder"])
    request.newApplications[0].placeholderAsk.CopyFrom(resource(memory=10, vcore=1))
    request.asks[0].taskGroupName, request.asks[0].placeholder = "workers", True
    stream.send(request)
    (holder,) = placed(stream.until(lambda got: bool(placed(got))))
    assert (holder.taskGroupName, holder.placeholder) == ("workers", True)

    real = rm.work("gang", ["real"])
    real.asks[0].taskGroupName = "workers"
    stream.send(real)
    (asked,) = merged(stream.until(lambda got: bool(merged(got).releasedAllocations))).releasedAllocations
    replaced = si_pb2.AllocationRelease.PLACEHOLDER_REPLACED
    assert (asked.UUID, asked.terminationType) == (holder.UUID, replaced)
    stream.send(rm.release_of("gang", holder.UUID, replaced))
    (placed_real,) = placed(stream.until(lambda got: bool(placed(got))))
    assert (placed_real.allocationKey, placed_real.placeholder) == ("real", False)


def test_bad_items_are_rejected_with_reasons_and_the_rest_goes_on(rm: RawClient2021) -> None:
    rm.register()
    stream = rm.updates()
    request = rm.everything(["n1", "n1"], "app-1", ["classless", "nowhere", "odd", "scopeless", "good"])
    request.newApplications.add(applicationID="lost", queueName="root.none")
    request.updatedNodes.add(nodeID="nobody", action=si_pb2.UpdateNodeInfo.DRAIN_NODE)
    request.updatedNodes.add(nodeID="n1", action=17)
    request.asks[0].priority.priorityClassName = "urgent"
    request.asks[1].applicationID = ""
    affinity = request.asks[2].placementConstraint.simpleConstraint.nodeAffinityConstraint
    affinity.targetExpressions.add(targetKey="zone", targetOperator=9)
    request.asks[3].placementConstraint.simpleConstraint.allocationAffinityAttribute.maxCardinality = 1
    stream.send(request)
    heard = merged(stream.until(lambda got: bool(placed(got))))
    assert [one.allocationKey for one in heard.newAllocations] == ["good"]
    reasons = {one.allocationKey: one.reason for one in heard.rejectedAllocations}
    assert set(reasons) == {"classless", "nowhere", "odd", "scopeless"}
    assert "priority.priorityClassName is 'urgent'" in reasons["classless"]
    assert "applicationID is empty" in reasons["nowhere"]
    assert "targetOperator is 9" in reasons["odd"]
    assert "scope" in reasons["scopeless"]
    rejected = [(one.nodeID, one.reason) for one in heard.rejectedNodes]
    assert [node_id for node_id, _ in rejected] == ["n1", "nobody", "n1"]
    assert "17" in rejected[2][1]
    assert [one.applicationID for one in heard.rejectedApplications] == ["lost"]


def test_a_placement_constraint_is_kept(rm: RawClient2021) -> None:
    rm.register()
    stream = rm.updates()
    request = rm.everything(["n1", "n2", "n3"], "app-1", [f"pod-{number}" for number in range(5)])
    for node, zone in zip(request.newSchedulableNodes, ("east", "west", "west"), strict=True):
        node.attributes.update({"zone": zone, "si/hostname": node.nodeID})
    for ask in request.asks:
        simple = ask.placementConstraint.simpleConstraint
        simple.nodeAffinityConstraint.targetExpressions.add(targetKey="zone", targetValues=["west"])
    stream.send(request)
    got = placed(stream.until(lambda got: len(placed(got)) == 5))
    assert {one.nodeID for one in got} == {"n2", "n3"}


def test_priority_classes_are_named_in_the_settings() -> None:
    with DaemonProcess("--priority-classes", "high=1000,low=-5") as daemon, RawClient2021(daemon.target) as rm:
        rm.register()
        stream = rm.updates()
        request = rm.everything([], "app-1", ["plain", "high", "low"])
        plain, high, low = request.asks
        plain.priority.priorityValue = 3
        high.priority.priorityClassName, low.priority.priorityClassName = "high", "low"
        stream.send(request)
        stream.until(lambda got: bool(merged(got).acceptedApplications))
        stream.send(rm.everything(["n1"], "app-2", []))
        got = placed(stream.until(lambda got: len(placed(got)) == 3))
        said = [(one.allocationKey, one.priority.priorityValue) for one in got]
        assert said == [("high", 1000), ("plain", 3), ("low", -5)]


def test_an_rm_speaks_one_dialect_until_it_registers_again(rm: RawClient2021) -> None:
    rm.register()
    stream = rm.updates()
    stream.send(rm.everything(["n1"], "app-1", ["pod"]))
    stream.until(lambda got: bool(placed(got)))
    for other, hello in ((rm.allocations(), rm.hello()), (rm.nodes(), rm.node("n2"))):
        other.send(hello)
        code, details = other.status()
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        for name in (rm.rm_id, "2021-02", "2023-06"):
            assert name in details
    stream.send(rm.work("app-1", ["later"]))
    assert placed(stream.until(lambda got: bool(placed(got)))), "the stream that is right goes on"

    rm.register()
    assert stream.status()[0] is grpc.StatusCode.ABORTED
    nodes = rm.nodes()
    nodes.send(rm.node("n1"))
    assert nodes.next().accepted
    mixing = rm.updates()
    mixing.send(rm.update())
    assert mixing.status()[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_two_dialects_side_by_side(client: RawClient, rm: RawClient2021) -> None:
    client.set_up()
    rm.register()
    old, new = rm.updates(), client.allocations()
    old.send(rm.everything(["n1"], "app-1", [f"old-{number}" for number in range(5)]))
    new.send(client.asks("app-1", [f"new-{number}" for number in range(5)]))
    assert {one.nodeID for one in placed(old.until(lambda got: len(placed(got)) == 5))} == {"n1"}
    assert {one.nodeID for one in allocated(new.until(lambda got: len(allocated(got)) == 5))} == {"node-0"}


def test_a_stream_for_every_message_is_a_legal_way_to_speak(rm: RawClient2021) -> None:
    rm.register()
    first = rm.updates()
    first.send(rm.everything(["n1"], "app-1", ["pod-0"]))
    first.half_close()
    streams, heard = [first], first.until(lambda got: bool(placed(got)))
    for number in range(1, 8):
        stream = rm.updates()
        stream.send(rm.work("app-1", [f"pod-{number}"]))
        stream.half_close()
        heard += stream.until(lambda got: bool(placed(got)))
        streams.append(stream)
    for stream in streams[:-1]:
        rest, code, _ = stream.rest()
        heard += rest
        assert code is grpc.StatusCode.OK
    assert sorted(one.allocationKey for one in placed(heard)) == [f"pod-{number}" for number in range(8)]


def test_more_than_is_kept_means_resync_for_a_client_that_reads_again() -> None:
    with DaemonProcess("--outbox-max-bytes", "65536") as daemon, RawClient2021(daemon.target) as rm:
        rm.register()
        stream = rm.updates(reading=False)
        request = rm.everything(["node-1"], "app-1", [f"pod-{number}" for number in range(2000)])
        request.newSchedulableNodes[0].schedulableResource.CopyFrom(resource(memory=20_000, vcore=2_000))
        for ask in request.asks:
            ask.tags["large"] = "x" * 1000
            ask.executionTimeoutMilliSeconds = 1
        stream.send(request)
        daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "stopped")
        stream.read()
        responses, code, _ = stream.rest()
        assert code in (grpc.StatusCode.OK, grpc.StatusCode.ABORTED)
        if code is grpc.StatusCode.OK:
            assert responses[-1].action == si_pb2.UpdateResponse.RESYNC
        assert daemon.state()["violations"] == []
