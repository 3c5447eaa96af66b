"""What a real daemon shows of itself: dumps, metrics for autoscalers, how far asks have come, and what nodes had better
offer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from tests.contract.callback_client import connected
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream
from tests.contract.raw_client_2021 import RawClient2021, resource

State = si_pb2.UpdateContainerSchedulingStateRequest


@pytest.fixture
def admin(client: RawClient) -> Any:
    return admin_pb2_grpc.AdminStub(client.channel)


def asks_for_too_much(client: RawClient) -> UpdateStream[si_pb2.AllocationResponse]:
    """Sixteen asks of which one finds room."""
    client.set_up(memory=15)
    stream = client.allocations()
    stream.send(client.asks("app-1", [f"k{number:02}" for number in range(16)]))
    stream.until(lambda got: any(response.new for response in got))
    return stream


def test_an_autoscaler_sees_what_lacks_room(client: RawClient, admin: Any, daemon: DaemonProcess) -> None:
    stream = asks_for_too_much(client)
    request = admin_pb2.GetAutoScalingMetricsRequest(rmID=client.rm_id)
    while not (found := admin.GetAutoScalingMetrics(request, timeout=LIMIT_SECONDS).outstandingRequests):
        pass  # until the test's own time limit, if it is in vain
    (one,) = found
    assert {name: amount.value for name, amount in one.resource.resources.items()} == {"memory": 10, "vcore": 1}
    assert one.tags["schedulerd.io/count"] == "15"
    assert daemon.metric("schedulerd_outstanding_requests", rm=client.rm_id, partition="default") == 15
    stream.cancel()


def test_a_dump_has_the_state_of_scheduler_and_rm(client: RawClient, admin: Any) -> None:
    client.set_up()
    stream = connected(client, stateDump=True)
    call = admin.GetStateDump.future(admin_pb2.GetStateDumpRequest(rmID=client.rm_id), timeout=LIMIT_SECONDS)
    wanted = stream.next().stateDump
    answer = callback_pb2.StateDumpAnswer(callID=wanted.callID, dump='{"pods": 7}')
    stream.send(callback_pb2.CallbackAnswer(stateDump=answer))
    dump = call.result()
    (manager,) = json.loads(dump.state)["resource_managers"]
    assert manager["rm_id"] == client.rm_id
    assert [(one.rmID, one.state, one.problem) for one in dump.resourceManagers] == [(client.rm_id, '{"pods": 7}', "")]
    stream.cancel()


def test_how_far_asks_have_come(client: RawClient) -> None:
    client.set_up(memory=15)
    calls = connected(client, schedulingStates=True, wantedStates=[State.SCHEDULED, State.FAILED])
    stream = client.allocations()
    stream.send(client.asks("app-1", ["one", "two"]))
    told: list[tuple[str, int]] = []
    while len(told) < 2:
        told += [(one.allocationKey, one.state) for one in calls.next().schedulingStates]
    assert told == [("one", State.SCHEDULED), ("two", State.FAILED)]
    calls.cancel()
    stream.cancel()


def test_a_node_that_others_use_had_better_offer_less(daemon: DaemonProcess) -> None:
    with RawClient2021(daemon.target, "rm-use") as client:
        client.register()
        stream = client.updates()
        request = client.everything(["node-0"], "app-1", [])
        stream.send(request)
        stream.until(lambda got: any(response.acceptedNodes for response in got))
        report = client.update()
        report.utilizationReports.add(ID="node-0", actualUsedResource=resource(memory=30))
        stream.send(report)
        responses = stream.until(lambda got: any(response.nodeRecommendations for response in got))
        (found,) = responses[-1].nodeRecommendations
        assert isinstance(found, si_2021_pb2.NodeRecommendation)
        assert found.recommendedSchedulableResource == resource(memory=70, vcore=10)
        assert found.message.startswith("node node-0: memory 30 used")
        stream.cancel()
