"""Events over the wire: listed, streamed, on a callback stream, and to a client that does not read."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc, callback_pb2, callback_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated

SI = si_pb2.EventRecord
PODS = 1_000


def admin(client: RawClient) -> admin_pb2_grpc.AdminStub:
    return admin_pb2_grpc.AdminStub(client.channel)


def streamed(client: RawClient, **request: Any) -> Iterator[admin_pb2.StreamEventsResponse]:
    """An open stream, of which the first message was read."""
    stream = admin(client).StreamEvents(
        admin_pb2.StreamEventsRequest(rmID=client.rm_id, **request), timeout=LIMIT_SECONDS
    )
    assert next(stream).instanceID
    return stream


def until(stream: Iterator[admin_pb2.StreamEventsResponse], detail: int) -> list[admin_pb2.Event]:
    """Reads until an event of this detail has come."""
    events: list[admin_pb2.Event] = []
    for message in stream:
        events += message.events
        if any(event.record.eventChangeDetail == detail for event in message.events):
            return events
    raise AssertionError(f"no event of detail {detail} among {events}")


def place(client: RawClient, pods: int = 1) -> None:
    stream = client.allocations()
    stream.send(client.asks("app-1", [f"pod-{number}" for number in range(pods)], memory=1, vcore=0))
    stream.until(lambda got: len(allocated(got)) == pods)
    stream.cancel()


def highest_id(client: RawClient) -> int:
    return admin(client).ListEvents(admin_pb2.ListEventsRequest(), timeout=LIMIT_SECONDS).highestID


def details(events: Iterable[admin_pb2.Event]) -> list[int]:
    return [event.record.eventChangeDetail for event in events]


def test_a_placement_is_streamed_as_it_happens_and_listed_afterwards(client: RawClient) -> None:
    client.register()
    stream = streamed(client)
    client.set_up()
    place(client)
    events = until(stream, SI.QUEUE_ALLOC)
    assert all(event.rmID == client.rm_id for event in events)
    for detail in (SI.APP_NEW, SI.QUEUE_APP, SI.APP_REQUEST, SI.APP_ACCEPTED, SI.REQUEST_ALLOC, SI.NODE_ALLOC):
        assert detail in details(events)
    start = events[0].id
    answer = admin(client).ListEvents(
        admin_pb2.ListEventsRequest(start=start, rmID=client.rm_id), timeout=LIMIT_SECONDS
    )
    assert list(answer.events)[: len(events)] == events


def test_a_client_that_does_not_read_is_told_what_it_lost_and_delays_no_other() -> None:
    with DaemonProcess("--event-ring-max", "1000") as daemon, RawClient(daemon.target, "rm") as client:
        client.set_up(memory=PODS, vcore=0)
        stream = streamed(client)
        before = highest_id(client)
        place(client, PODS)
        last = highest_id(client)
        lost, ids = 0, [before]
        while ids[-1] < last:
            message = next(stream)
            lost += message.lost
            ids += [event.id for event in message.events]
        assert lost > 0
        assert ids == sorted(set(ids))
        assert last - before == len(ids) - 1 + lost


def test_a_callback_stream_has_the_events_of_its_resource_manager(client: RawClient) -> None:
    client.register()
    stub = callback_pb2_grpc.CallbackStub(client.channel)
    stream: UpdateStream[callback_pb2.CallbackCall] = UpdateStream(stub.Connect)
    hello = callback_pb2.CallbackHello(rmID=client.rm_id, events=True)
    stream.send(callback_pb2.CallbackAnswer(hello=hello))
    assert stream.next().HasField("connected")
    applications = client.applications()
    applications.send(client.application("app-1"))
    calls = stream.until(lambda got: any(event.objectID == "app-1" for call in got for event in call.events))
    assert SI.APP_NEW in [event.eventChangeDetail for call in calls for event in call.events]
    stream.cancel()
    applications.cancel()


def test_without_tracking_nothing_is_kept_and_a_stream_still_follows() -> None:
    with DaemonProcess("--no-event-tracking") as daemon, RawClient(daemon.target, "rm") as client:
        with pytest.raises(grpc.RpcError) as refused:
            admin(client).ListEvents(admin_pb2.ListEventsRequest(), timeout=LIMIT_SECONDS)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        client.register()
        assert daemon.metric("schedulerd_events_recorded_total") == 0
        stream = streamed(client)
        client.set_up()
        place(client)
        assert SI.NODE_ALLOC in details(until(stream, SI.QUEUE_ALLOC))
        assert daemon.metric("schedulerd_events_recorded_total") > 0


def test_a_drain_ends_the_streams() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target, "rm") as client:
        client.register()
        stream = streamed(client)
        daemon.signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as ended:
            list(stream)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "draining" in (ended.value.details() or "")
        assert daemon.wait() == 0
