"""One mistake in an otherwise good item: its sender hears what is wrong, and the next item is served.

What the interface has a rejection for is rejected; a release or removal that cannot be used is logged with its reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, allocated, resource

INT64_MAX = 2**63 - 1
LONG = "x" * 1025

Change = Callable[[Any], object]

ASKS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "no key": (lambda ask: ask.ClearField("allocationKey"), ("allocationKey",)),
    "no application": (lambda ask: ask.ClearField("applicationID"), ("applicationID",)),
    "another application": (lambda ask: setattr(ask, "applicationID", "nobody"), ("applicationID", "nobody")),
    "another partition": (lambda ask: setattr(ask, "partitionName", "gpu"), ("partitionName", "gpu")),
    "the partition of another rm": (lambda ask: setattr(ask, "partitionName", "[x]default"), ("[x]default",)),
    "no resources": (lambda ask: ask.ClearField("resourceAsk"), ("resourceAsk",)),
    "zero resources": (lambda ask: ask.resourceAsk.CopyFrom(resource(vcore=0)), ("resourceAsk",)),
    "negative resources": (lambda ask: ask.resourceAsk.CopyFrom(resource(vcore=1, memory=-5)), ("memory", "-5")),
    "negative count": (lambda ask: setattr(ask, "maxAllocations", -3), ("maxAllocations", "-3")),
    "a long key": (lambda ask: setattr(ask, "allocationKey", LONG), ("allocationKey", "xxx", "1025", "at most 1024")),
    "a long application": (lambda ask: setattr(ask, "applicationID", LONG), ("applicationID", "1025", "at most 1024")),
    "long tags": (lambda ask: ask.tags.update({"label": "x" * 65_536}), ("tags", "65541", "at most 65536")),
    "a long resource name": (
        lambda ask: ask.resourceAsk.resources["y" * 257].MergeFrom(si_pb2.Quantity(value=1)),
        ("resourceAsk", "yyy", "1 to 256"),
    ),
    "a resource without name": (
        lambda ask: ask.resourceAsk.resources[""].MergeFrom(si_pb2.Quantity(value=1)),
        ("resourceAsk", "''", "1 to 256"),
    ),
    "many resources": (
        lambda ask: ask.resourceAsk.CopyFrom(resource(**{f"r{number}": 1 for number in range(65)})),
        ("resourceAsk", "more than 64 resources", "at most 64"),
    ),
}

NODES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "no id": (lambda node: node.ClearField("nodeID"), ("nodeID",)),
    "another partition": (lambda node: node.attributes.update({"si/node-partition": "gpu"}), ("gpu",)),
    "known already": (lambda node: setattr(node, "nodeID", "node-0"), ("nodeID", "node-0")),
    "unknown action": (lambda node: setattr(node, "action", 77), ("action",)),
    "no action": (lambda node: node.ClearField("action"), ("action",)),
    "a long id": (lambda node: setattr(node, "nodeID", LONG), ("nodeID", "1025", "at most 1024")),
    "negative capacity": (
        lambda node: node.schedulableResource.CopyFrom(resource(vcore=-7)),
        ("schedulableResource", "vcore", "-7", "0 or more"),
    ),
    "negative occupied": (
        lambda node: node.occupiedResource.CopyFrom(resource(memory=-8)),
        ("occupiedResource", "memory", "-8", "0 or more"),
    ),
    "a negative allocation": (
        lambda node: node.existingAllocations.add(
            applicationID="app-1", UUID="u", allocationKey="k", resourcePerAlloc=resource(vcore=-9)
        ),
        ("resourcePerAlloc", "vcore", "-9"),
    ),
    "an allocation without uuid": (
        lambda node: node.existingAllocations.add(
            applicationID="app-1", allocationKey="k", resourcePerAlloc=resource(vcore=1)
        ),
        ("UUID",),
    ),
    "allocation without amounts": (
        lambda node: node.existingAllocations.add(applicationID="nobody", UUID="u", allocationKey="k"),
        ("resourcePerAlloc",),
    ),
}

APPLICATIONS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "no id": (lambda app: app.ClearField("applicationID"), ("applicationID",)),
    "another partition": (lambda app: setattr(app, "partitionName", "gpu"), ("partitionName", "gpu")),
    "known already": (lambda app: setattr(app, "applicationID", "app-1"), ("app-1",)),
    "another queue": (lambda app: setattr(app, "queueName", "root.nowhere"), ("root.nowhere",)),
    "a parent queue": (lambda app: setattr(app, "queueName", "root"), ("root",)),
    "a long id": (lambda app: setattr(app, "applicationID", LONG), ("applicationID", "1025", "at most 1024")),
    "a negative gang": (
        lambda app: app.placeholderAsk.CopyFrom(resource(memory=-4)),
        ("placeholderAsk", "memory", "-4", "0 or more"),
    ),
}

RELEASES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "another application": (lambda one: setattr(one, "applicationID", "nobody"), ("applicationID", "nobody")),
    "no application and no uuid": (
        lambda one: one.ClearField("applicationID") or one.ClearField("UUID"),
        ("applicationID and UUID are both empty",),
    ),
    "another partition": (lambda one: setattr(one, "partitionName", "gpu"), ("partitionName", "gpu")),
    "another uuid": (lambda one: setattr(one, "UUID", "nowhere"), ("no such allocation",)),
    "another key": (
        lambda one: one.MergeFrom(si_pb2.AllocationRelease(allocationKey="nothing")) or one.ClearField("UUID"),
        ("no such allocation",),
    ),
    "a confirmation of nothing": (
        lambda one: setattr(one, "terminationType", si_pb2.PLACEHOLDER_REPLACED),
        ("is not being replaced",),
    ),
}

ASK_RELEASES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "another application": (lambda one: setattr(one, "applicationID", "nobody"), ("no such ask",)),
    "another partition": (lambda one: setattr(one, "partitionName", "gpu"), ("partitionName", "gpu")),
    "another key": (lambda one: setattr(one, "allocationKey", "nothing"), ("no such ask",)),
    "neither key nor application": (
        lambda one: one.ClearField("applicationID") or one.ClearField("allocationKey"),
        ("applicationID", "allocationKey", "must be set"),
    ),
    "a confirmation of nothing": (
        lambda one: setattr(one, "terminationType", si_pb2.TIMEOUT),
        ("terminationType", "TIMEOUT"),
    ),
}

REMOVALS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "another application": (lambda one: setattr(one, "applicationID", "nobody"), ("applicationID", "nobody")),
    "no application": (lambda one: one.ClearField("applicationID"), ("applicationID",)),
    "another partition": (lambda one: setattr(one, "partitionName", "gpu"), ("partitionName", "gpu")),
}

REGISTRATIONS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "no rmID": (lambda one: one.ClearField("rmID"), ("rmID", "is empty")),
    "a blank rmID": (lambda one: setattr(one, "rmID", " "), ("rmID", "is empty")),
    "a long rmID": (lambda one: setattr(one, "rmID", "x" * 257), ("rmID", "257", "at most 256")),
    "an rmID of two lines": (lambda one: setattr(one, "rmID", "two\nlines"), ("rmID", "printable")),
    "no YAML": (lambda one: setattr(one, "config", "partitions: ["), ("line 1",)),
    "no partitions": (lambda one: setattr(one, "config", "partitions: 3"), ("partitions", "3")),
    "a wrong quantity": (
        lambda one: setattr(one, "config", QUEUES + "            resources: {max: {memory: much}}\n"),
        ("line 10", "partitions[0].queues[0].queues[1].resources.max", "much"),
    ),
    "another policy group": (
        lambda one: one.CopyFrom(si_pb2.RegisterResourceManagerRequest(rmID=one.rmID, policyGroup="nowhere")),
        ("policyGroup", "nowhere"),
    ),
}

names = itertools.count()


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One that does not wait for what an item refers to, so that it answers at once."""
    with DaemonProcess("--early-message-timeout-s", "0") as process:
        yield process


@pytest.fixture
def fresh(daemon: DaemonProcess) -> Iterator[RawClient]:
    """A resource manager with a node and an application, which makes its first mistake."""
    with RawClient(daemon.target, f"mistaken-{next(names)}") as client:
        client.set_up()
        yield client


def logged_reason(daemon: DaemonProcess, client: RawClient, event: str) -> str:
    return str(daemon.wait_for_event(event, lambda line: line["rm_id"] == client.rm_id)["reason"])


class TestEveryMistakeIsRejectedWithItsReason:
    @pytest.mark.parametrize("mistake", ASKS)
    def test_ask(self, fresh: RawClient, mistake: str) -> None:
        change, words = ASKS[mistake]
        request = fresh.asks("app-1", ["bad", "good"])
        change(request.asks[0])
        stream = fresh.allocations()
        stream.send(request)
        got = stream.until(lambda got: bool(allocated(got)) and any(response.rejected for response in got))
        assert [allocation.allocationKey for allocation in allocated(got)] == ["good"]
        (rejected,) = [item for response in got for item in response.rejected]
        assert rejected.allocationKey == request.asks[0].allocationKey
        assert [word for word in words if word not in rejected.reason] == [], rejected.reason

    @pytest.mark.parametrize("mistake", NODES)
    def test_node(self, fresh: RawClient, mistake: str) -> None:
        change, words = NODES[mistake]
        request = fresh.node("bad")
        request.nodes.append(fresh.node("good").nodes[0])
        change(request.nodes[0])
        stream = fresh.nodes()
        stream.send(request)
        got = stream.until(
            lambda got: any(response.accepted for response in got) and any(response.rejected for response in got)
        )
        assert [node.nodeID for response in got for node in response.accepted] == ["good"]
        (rejected,) = [item for response in got for item in response.rejected]
        assert rejected.nodeID == request.nodes[0].nodeID
        assert [word for word in words if word not in rejected.reason] == [], rejected.reason

    @pytest.mark.parametrize("mistake", APPLICATIONS)
    def test_application(self, fresh: RawClient, mistake: str) -> None:
        change, words = APPLICATIONS[mistake]
        request = fresh.application("bad")
        request.new.append(fresh.application("good").new[0])
        change(request.new[0])
        stream = fresh.applications()
        stream.send(request)
        got = stream.until(
            lambda got: any(response.accepted for response in got) and any(response.rejected for response in got)
        )
        assert [app.applicationID for response in got for app in response.accepted] == ["good"]
        (rejected,) = [item for response in got for item in response.rejected]
        assert rejected.applicationID == request.new[0].applicationID
        assert [word for word in words if word not in rejected.reason] == [], rejected.reason

    @pytest.mark.parametrize("mistake", REGISTRATIONS)
    def test_registration(self, daemon: DaemonProcess, mistake: str) -> None:
        change, words = REGISTRATIONS[mistake]
        with RawClient(daemon.target, f"mistaken-{next(names)}") as client:
            request = si_pb2.RegisterResourceManagerRequest(rmID=client.rm_id, config=QUEUES)
            change(request)
            with pytest.raises(grpc.RpcError) as refused:
                client.stub.RegisterResourceManager(request, timeout=LIMIT_SECONDS)
            details = refused.value.details() or ""
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert [word for word in words if word not in details] == [], details
            client.set_up()


class TestEveryMistakeIsLoggedWithItsReason:
    @pytest.mark.parametrize("mistake", RELEASES)
    def test_release(self, daemon: DaemonProcess, fresh: RawClient, mistake: str) -> None:
        change, words = RELEASES[mistake]
        stream = fresh.allocations()
        stream.send(fresh.asks("app-1", ["pod"]))
        (pod,) = allocated(stream.until(lambda got: bool(allocated(got))))
        request = fresh.release("app-1", pod.UUID)
        change(request.releases.allocationsToRelease[0])
        stream.send(request)
        stream.send(fresh.release("app-1", pod.UUID))
        assert [one.UUID for one in stream.next().released] == [pod.UUID]
        reason = logged_reason(daemon, fresh, "release ignored")
        assert [word for word in words if word not in reason] == [], reason

    @pytest.mark.parametrize("mistake", ASK_RELEASES)
    def test_release_of_an_ask(self, daemon: DaemonProcess, fresh: RawClient, mistake: str) -> None:
        change, words = ASK_RELEASES[mistake]
        stream = fresh.allocations()
        stream.send(fresh.asks("app-1", ["waits"], memory=INT64_MAX))
        request = si_pb2.AllocationRequest(rmID=fresh.rm_id)
        for _ in range(2):
            request.releases.allocationAsksToRelease.add(applicationID="app-1", allocationKey="waits")
        change(request.releases.allocationAsksToRelease[0])
        stream.send(request)
        reason = logged_reason(daemon, fresh, "release ignored")
        assert [word for word in words if word not in reason] == [], reason
        stream.send(fresh.asks("app-1", ["fits"]))
        assert [one.allocationKey for one in allocated(stream.until(lambda got: bool(allocated(got))))] == ["fits"]
        (manager,) = daemon.state(rm=fresh.rm_id)["resource_managers"]
        assert manager["partitions"][0]["applications"][0]["asks"] == []

    @pytest.mark.parametrize("mistake", REMOVALS)
    def test_removal(self, daemon: DaemonProcess, fresh: RawClient, mistake: str) -> None:
        change, words = REMOVALS[mistake]
        stream, applications = fresh.allocations(), fresh.applications()
        stream.send(fresh.asks("app-1", ["pod"]))
        stream.until(lambda got: bool(allocated(got)))
        request = si_pb2.ApplicationRequest(rmID=fresh.rm_id)
        for _ in range(2):
            request.remove.add(applicationID="app-1")
        change(request.remove[0])
        applications.send(request)
        assert [one.allocationKey for one in stream.next().released] == ["pod"]
        reason = logged_reason(daemon, fresh, "item ignored")
        assert [word for word in words if word not in reason] == [], reason


def test_an_ask_that_is_larger_than_anything_waits_and_breaks_nothing(daemon: DaemonProcess, fresh: RawClient) -> None:
    stream = fresh.allocations()
    stream.send(fresh.asks("app-1", ["huge", "huger"], memory=INT64_MAX))
    stream.send(fresh.asks("app-1", ["fits"]))
    assert [a.allocationKey for a in allocated(stream.until(lambda got: bool(allocated(got))))] == ["fits"]
    assert daemon.state()["violations"] == []


def test_after_all_the_mistakes_the_books_balance(daemon: DaemonProcess) -> None:
    assert daemon.state()["violations"] == []
