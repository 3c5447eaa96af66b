"""ListEvents of Admin; over the wire it is in `tests/contract`."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.daemon.admin import event_service
from schedulerd.daemon.admin.event_service import LISTED_MAX
from schedulerd.observe import event_ring
from schedulerd.observe.event_messages import admin_event
from schedulerd.observe.event_record import Event
from tests.unit.daemon.admin.event_calls import Aborted, a_world, listed, play, streaming
from tests.unit.daemon.event_world import REGISTRATION_EVENTS, EventWorld
from tests.unit.daemon.fake_call import turns


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
