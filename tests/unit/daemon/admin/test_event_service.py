"""ListEvents and StreamEvents of Admin; over the wire they are in `tests/contract`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn, cast

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.daemon.access.methods import UnaryContext
from schedulerd.daemon.admin import event_service
from schedulerd.daemon.admin.event_service import LISTED_MAX, STREAMS_MAX, EventService, StreamContext
from schedulerd.observe import event_ring
from schedulerd.observe.event_messages import admin_event
from schedulerd.observe.event_record import Event
from tests.unit.daemon.event_world import REGISTRATION_EVENTS, EventWorld
from tests.unit.daemon.fake_call import turns


class Aborted(Exception):
    """How a call ended that was not answered."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


class Call:
    """The border to gRPC: what was written, and whether the client reads."""

    def __init__(self) -> None:
        self.written: list[admin_pb2.StreamEventsResponse] = []
        self.reading = asyncio.Event()
        self.reading.set()

    async def write(self, message: admin_pb2.StreamEventsResponse) -> None:
        await self.reading.wait()
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Aborted(code, details)

    @property
    def ids(self) -> list[int]:
        return [event.id for message in self.written for event in message.events]

    @property
    def lost(self) -> int:
        return sum(message.lost for message in self.written)


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await story()

    asyncio.run(bounded())


def listed(world: EventWorld, **request: Any) -> admin_pb2.ListEventsResponse:
    call = cast(UnaryContext, Call())
    return asyncio.run(EventService(world.feed).list_events(admin_pb2.ListEventsRequest(**request), call))


@asynccontextmanager
async def streaming(
    world: EventWorld, service: EventService | None = None, **request: Any
) -> AsyncIterator[tuple[Call, asyncio.Task[None]]]:
    """A stream that is open until the client cancels it."""
    call = Call()
    service = service or EventService(world.feed)
    message = admin_pb2.StreamEventsRequest(**request)
    served = asyncio.create_task(service.stream_events(message, cast(StreamContext, call)))
    await turns()
    yield call, served
    served.cancel()
    await asyncio.wait({served})


def a_world(**fields: Any) -> EventWorld:
    world = EventWorld(**fields)
    world.register()
    return world


# ListEvents


def test_a_list_has_ids_owners_and_where_to_go_on() -> None:
    world = a_world()
    answer = listed(world)
    assert (answer.instanceID, answer.lowestID, answer.highestID, answer.nextID) == ("this-run", 0, 2, 3)
    assert [(one.id, one.rmID, one.partition, one.record.objectID) for one in answer.events] == [
        (0, "rm", "", "rm"),
        (1, "rm", "default", "root"),
        (2, "rm", "default", "root.a"),
    ]
    world.happen()
    assert [one.id for one in listed(world, start=answer.nextID).events] == [3, 4]


def test_pages_put_together_are_the_whole() -> None:
    world = a_world()
    world.happen(applications=20)
    start, found = 0, []
    while start < world.feed.ring.next_id:
        page = listed(world, start=start, count=7)
        assert len(page.events) <= 7
        found += [one.id for one in page.events]
        start = page.nextID
    assert found == list(range(REGISTRATION_EVENTS + 40))


@pytest.mark.parametrize("batch", [1, 3, 200])
def test_a_list_of_so_many_bytes_takes_no_more_events_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    world = a_world()
    world.happen(applications=20)
    everything = listed(world).events
    monkeypatch.setattr(event_service, "BATCH_MAX", batch)
    monkeypatch.setattr(event_service, "MESSAGE_BYTES_MAX", everything[0].ByteSize() + everything[1].ByteSize())
    start, sizes = 0, []
    found: list[admin_pb2.Event] = []
    while start < world.feed.ring.next_id:
        page = listed(world, start=start)
        sizes.append(len(page.events))
        found += page.events
        start = page.nextID
    assert found == list(everything)
    assert sizes[0] == 2
    assert max(sizes) <= 4


def test_what_is_no_longer_kept_is_skipped() -> None:
    world = a_world(events_max=4)
    world.happen(applications=5)
    answer = listed(world)
    assert [one.id for one in answer.events] == [9, 10, 11, 12]
    assert (answer.lowestID, answer.highestID) == (9, 12)


def test_events_of_one_resource_manager_are_found_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ring, "LOOKED_AT_MAX", 2)
    world = a_world()
    world.register("other")
    world.happen(applications=9)
    world.happen(rm_id="other")
    answer = listed(world, rmID="other", count=4)
    assert [one.id for one in answer.events] == [3, 4, 5, 24]
    assert answer.nextID == 25


def test_an_empty_list_says_so() -> None:
    answer = listed(EventWorld())
    assert (list(answer.events), answer.lowestID, answer.highestID, answer.nextID) == ([], 0, -1, 0)


@pytest.mark.parametrize(
    ("request_fields", "says"),
    [
        ({"count": -1}, "count: is -1"),
        ({"count": LISTED_MAX + 1}, f"it must be 1 to {LISTED_MAX}"),
        ({"start": -2}, "start: is -2"),
        ({"rmID": "x" * 10_000}, "rmID"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(request_fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Aborted) as refused:
        listed(a_world(), **request_fields)
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert says in refused.value.details


@pytest.mark.parametrize("count", [0, LISTED_MAX])
def test_a_list_has_so_many_events_at_most_and_the_next_goes_on(count: int) -> None:
    world = a_world(events_max=2 * LISTED_MAX)
    world.happen(applications=LISTED_MAX // 2)
    answer = listed(world, count=count)
    assert [one.id for one in answer.events] == list(range(LISTED_MAX))
    assert [one.id for one in listed(world, start=answer.nextID).events] == list(range(LISTED_MAX, LISTED_MAX + 3))


def test_there_is_no_list_of_what_is_not_tracked() -> None:
    with pytest.raises(Aborted, match="event_tracking") as refused:
        listed(EventWorld(tracked=False))
    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION


# StreamEvents


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


def test_an_event_that_cannot_be_encoded_is_left_out_of_lists_and_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(event: Event) -> admin_pb2.Event:
        if event.record.object_id == "app-0":
            raise OverflowError("Value out of range")
        return admin_event(event)

    monkeypatch.setattr(event_service, "admin_event", encode)
    world = a_world()
    world.happen(2)
    expected = ["rm", "root", "root.a", "root.a", "app-1", "root.a"]
    answer = listed(world)
    assert ([one.record.objectID for one in answer.events], answer.nextID) == (expected, 7)
    answer = listed(world, start=3, count=1)
    assert ([one.id for one in answer.events], answer.nextID) == ([4], 5)

    async def story() -> None:
        async with streaming(world, count=7) as (call, served):
            world.happen()
            await turns()
            assert [one.record.objectID for message in call.written for one in message.events] == [
                *expected,
                "app-2",
                "root.a",
            ]
            assert not served.done()

    play(story)
    assert world.feed.counts.failed >= 3
