"""Who ends for an ask is first put to its resource manager, over a real callback stream."""

from __future__ import annotations

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from tests.contract.callback_client import connected
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated

REQUIRED_NODE = "yunikorn.apache.org/requiredNode"
PODS = [f"pod-{number}" for number in range(10)]


def full_node(client: RawClient) -> UpdateStream[si_pb2.AllocationResponse]:
    """With ten pods; the stream of allocations."""
    client.set_up(nodes=1, memory=100, vcore=10)
    stream = client.allocations()
    stream.send(client.asks("app-1", PODS))
    stream.until(lambda got: len(allocated(got)) == len(PODS))
    return stream


def ask_for_that_node(client: RawClient, stream: UpdateStream[si_pb2.AllocationResponse]) -> None:
    applications = client.applications()
    applications.send(client.application("daemons"))
    applications.until(lambda got: any(response.accepted for response in got))
    applications.cancel()
    request = client.asks("daemons", ["daemon"], memory=30, vcore=3)
    request.asks[0].tags[REQUIRED_NODE] = "node-0"
    request.asks[0].preemptionPolicy.allowPreemptOther = True
    stream.send(request)


def ended(responses: list[si_pb2.AllocationResponse]) -> list[str]:
    return [one.allocationKey for response in responses for one in response.released]


def requested(daemon: DaemonProcess, client: RawClient) -> float:
    """How many were asked to end for others."""
    labels = {"rm": client.rm_id, "partition": "default", "termination": "preempted_by_scheduler"}
    return daemon.metric("schedulerd_release_requests_total", **labels)


def test_those_that_the_rm_names_are_ended_and_no_more(daemon: DaemonProcess, client: RawClient) -> None:
    stream = full_node(client)
    callbacks = connected(client, preemptionPredicates=True)
    ask_for_that_node(client, stream)
    (call,) = callbacks.next().preemptionPredicates
    offered = list(call.args.preemptAllocationKeys)
    victims = offered[: call.args.startIndex + 1]
    assert (call.applicationID, call.partitionName) == ("daemons", f"[{client.rm_id}]default")
    assert (call.args.allocationKey, call.args.nodeID, len(victims)) == ("daemon", "node-0", 3)
    assert set(victims) < set(PODS)
    assert set(offered) == set(PODS), "the others on the node come after those that are needed"
    response = si_pb2.PreemptionPredicatesResponse(success=True, index=2)
    result = callback_pb2.PreemptionPredicatesResult(callID=call.callID, response=response)
    callbacks.send(callback_pb2.CallbackAnswer(preemptionPredicates=[result]))
    assert sorted(ended(stream.until(lambda got: len(ended(got)) == 3))) == sorted(victims)
    assert requested(daemon, client) == 3
    callbacks.cancel()


def test_nothing_is_preempted_if_the_rm_says_that_it_would_not_help(daemon: DaemonProcess, client: RawClient) -> None:
    stream = full_node(client)
    callbacks = connected(client, preemptionPredicates=True)
    ask_for_that_node(client, stream)
    (call,) = callbacks.next().preemptionPredicates
    result = callback_pb2.PreemptionPredicatesResult(callID=call.callID)
    callbacks.send(callback_pb2.CallbackAnswer(preemptionPredicates=[result]))
    while "refuses node node-0 even without the victims" not in str(daemon.state(rm=client.rm_id)):
        pass  # until the test's own time limit, if it is in vain
    assert requested(daemon, client) == 0
    callbacks.cancel()
