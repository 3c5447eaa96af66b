"""StreamEvents of Admin; over the wire it is in `tests/contract`."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.daemon.admin import event_service
from schedulerd.daemon.admin.event_service import STREAMS_MAX, EventService
from schedulerd.observe import event_ring
from tests.unit.daemon.admin.event_calls import Aborted, a_world, play, streaming
from tests.unit.daemon.event_world import REGISTRATION_EVENTS
from tests.unit.daemon.fake_call import turns


def test_a_stream_says_whose_ids_it_has_and_then_what_happens() -> None:
    async def story() -> None:
        world = a_world()
        async with streaming(world) as (call, _):
            assert [(one.instanceID, len(one.events)) for one in call.written] == [("this-run", 0)]
            world.happen()
            await turns()
            assert call.ids == [3, 4]
        assert world.feed.counts.followers == 0

    play(story)


def test_a_message_of_a_stream_takes_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = a_world()
        monkeypatch.setattr(event_service, "MESSAGE_BYTES_MAX", 200)
        async with streaming(world) as (call, _):
            world.happen(applications=20)
            await turns()
            assert call.ids == list(range(REGISTRATION_EVENTS, REGISTRATION_EVENTS + 40))
            for message in call.written:
                assert sum(event.ByteSize() for event in message.events[:-1]) < 200
            assert call.lost == 0

    play(story)


def test_past_events_come_first() -> None:
    async def story() -> None:
        world = a_world()
        world.register("other")
        async with streaming(world, count=4) as (call, _), streaming(world, count=2, rmID="rm") as (of_one, _):
            world.happen()
            world.happen(rm_id="other")
            await turns()
            assert call.ids == [2, 3, 4, 5, 6, 7, 8, 9]
            assert of_one.ids == [1, 2, 6, 7]

    play(story)


def test_past_events_of_one_resource_manager_are_looked_for_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ring, "LOOKED_AT_MAX", 2)

    async def story() -> None:
        world = a_world()
        world.register("other")
        async with streaming(world, count=100, rmID="rm") as (call, _):
            assert call.ids == [0, 1, 2]

    play(story)


def test_a_stream_goes_on_after_one_that_broke() -> None:
    async def story() -> None:
        world = a_world()
        position = admin_pb2.StreamPosition(instanceID="this-run", id=1)
        elsewhere = admin_pb2.StreamPosition(instanceID="another run", id=1)
        async with streaming(world, after=position) as (call, _), streaming(world, after=elsewhere) as (anew, _):
            assert call.ids == [2]
            assert anew.ids == [0, 1, 2]

    play(story)


def test_a_client_of_another_run_learns_what_is_gone_of_this_one() -> None:
    async def story() -> None:
        world = a_world(events_max=4)
        world.happen(applications=5)  # ids 3 to 12
        for position, lost in ((("another run", 700), 9), (("another run", -1), 9), (("this-run", 6), 2)):
            after = admin_pb2.StreamPosition(instanceID=position[0], id=position[1])
            async with streaming(world, after=after) as (call, _):
                assert (call.ids, call.lost) == ([9, 10, 11, 12], lost)

    play(story)


@pytest.mark.parametrize(("seen", "ids"), [(-1, [0, 1, 2]), (1, [2]), (2, [])])
def test_a_stream_goes_on_after_any_event_there_is(seen: int, ids: list[int]) -> None:
    async def story() -> None:
        after = admin_pb2.StreamPosition(instanceID="this-run", id=seen)
        async with streaming(a_world(), after=after) as (call, _):
            assert (call.ids, call.lost) == (ids, 0)

    play(story)


def test_a_client_that_does_not_read_loses_events_and_learns_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_service, "BATCH_MAX", 2)

    async def story() -> None:
        world = a_world(events_max=4)
        async with streaming(world) as (call, _):
            call.reading.clear()
            world.happen()
            await turns()  # this is under way to the client
            world.happen(applications=5)
            await turns()
            assert call.ids == []
            call.reading.set()
            await turns()
            assert call.ids == [3, 4, 11, 12, 13, 14]
            assert [len(message.events) for message in call.written] == [0, 2, 2, 2]
            assert call.lost == 6
            assert world.feed.counts.lost == 6

    play(story)


def test_a_stream_without_tracking_has_what_is_to_come() -> None:
    async def story() -> None:
        world = a_world(tracked=False)
        async with streaming(world) as (call, _):
            world.happen()
            await turns()
            assert call.ids == [0, 1]
        async with streaming(world, count=1) as (_, served):
            with pytest.raises(Aborted, match="event_tracking") as refused:
                await served
            assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION

    play(story)


@pytest.mark.parametrize(
    ("request_fields", "says"),
    [
        ({"count": -1}, "count: is -1"),
        ({"count": 1, "after": admin_pb2.StreamPosition()}, "count: is 1 with `after` set"),
        ({"after": admin_pb2.StreamPosition(instanceID="this-run", id=-2)}, "after.id: is -2; it must be the id of"),
        ({"after": admin_pb2.StreamPosition(instanceID="another run", id=-9)}, "after.id: is -9"),
        ({"after": admin_pb2.StreamPosition(instanceID="this-run", id=3)}, "is 3, and the newest event"),
        ({"rmID": "x" * 10_000}, "rmID"),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(request_fields: dict[str, Any], says: str) -> None:
    async def story() -> None:
        async with streaming(a_world(), **request_fields) as (_, served):
            with pytest.raises(Aborted) as refused:
                await served
            assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
            assert says in refused.value.details

    play(story)


def test_streams_are_bounded_and_those_that_ended_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STREAMS_MAX > 1
    monkeypatch.setattr(event_service, "STREAMS_MAX", 1)

    async def story() -> None:
        world = a_world()
        service = EventService(world.feed)
        async with streaming(world, service), streaming(world, service) as (_, served):
            with pytest.raises(Aborted) as refused:
                await served
            assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with streaming(world, service) as (call, _):
            assert len(call.written) == 1

    play(story)


def test_one_rm_cannot_hold_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_service, "STREAMS_MAX", 8)

    async def story() -> None:
        world = a_world()
        service = EventService(world.feed)
        async with streaming(world, service, rmID="rm"), streaming(world, service, rmID="rm"):
            async with streaming(world, service, rmID="rm") as (_, served):
                with pytest.raises(Aborted, match="2 streams of events are open by this client already") as refused:
                    await served
                assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            for other in ("another", ""):
                async with streaming(world, service, rmID=other) as (call, _):
                    assert len(call.written) == 1

    play(story)


def test_a_closing_daemon_ends_the_streams_when_all_was_sent() -> None:
    async def story() -> None:
        world = a_world()
        async with streaming(world) as (call, served):
            world.happen()
            world.feed.close()
            with pytest.raises(Aborted, match="draining") as ended:
                await served
            assert ended.value.code is grpc.StatusCode.UNAVAILABLE
            assert call.ids == [3, 4]

    play(story)
