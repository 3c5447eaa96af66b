"""A follower of events that does not read costs nothing, and nothing is recorded without a follower."""

from __future__ import annotations

from schedulerd.observe.event_record import EventCounts
from tests.instants import at
from tests.unit.daemon.event_world import APPLICATION_EVENTS, REGISTRATION_EVENTS, EventWorld, taken


def test_a_follower_sees_what_happens_from_now_on() -> None:
    world = EventWorld()
    world.register()
    with world.feed.follow() as follower:
        assert taken(follower) == []
        world.happen()
        assert follower.woken.is_set()
        first = REGISTRATION_EVENTS
        assert taken(follower) == [(first, "app-0"), (first + 1, "root.a")]
        assert taken(follower) == []


def test_a_follower_from_an_id_on_sees_what_was_first() -> None:
    world = EventWorld()
    world.register()
    with world.feed.follow(start=1) as follower:
        assert taken(follower) == [(1, "root"), (2, "root.a")]


def test_what_is_more_than_it_takes_is_there_at_once() -> None:
    world = EventWorld()
    world.register()
    with world.feed.follow(start=0) as follower:
        assert ([event.event_id for event in follower.take(2)], follower.is_at_end) == ([0, 1], False)
        assert ([event.event_id for event in follower.take(2)], follower.is_at_end) == ([2], True)


def test_a_slow_follower_is_told_what_it_lost_and_others_lose_nothing() -> None:
    world = EventWorld(events_max=4)
    world.register()
    with world.feed.follow() as slow, world.feed.follow() as fast:
        for _ in range(3):
            world.happen()
            fast.take(10)
            assert fast.lost == 0
        assert (len(slow.take(10)), slow.lost, slow.is_at_end) == (4, 3 * APPLICATION_EVENTS - 4, True)
        assert slow.take(10) == []
        assert world.feed.counts == EventCounts(
            recorded=REGISTRATION_EVENTS + 3 * APPLICATION_EVENTS, suppressed=0, lost=2, followers=2
        )
    assert world.feed.counts.followers == 0


def test_a_follower_of_one_resource_manager_is_not_told_of_others() -> None:
    world = EventWorld()
    with world.feed.follow("rm-2") as follower:
        world.register("rm-1")
        assert taken(follower) == []
        world.register("rm-2")
        assert [name for _, name in taken(follower)] == ["rm-2", "root", "root.a"]


def test_events_are_recorded_without_followers_if_they_are_tracked() -> None:
    world = EventWorld()
    world.register()
    assert world.feed.ring.next_id == REGISTRATION_EVENTS


def test_the_recorder_is_not_even_called_without_followers_and_tracking() -> None:
    world = EventWorld(tracked=False)
    world.register()
    assert world.recorder.calls == 0
    with world.feed.follow() as one:
        with world.feed.follow():
            world.happen()
        world.happen()
        assert [event_id for event_id, _ in taken(one)] == list(range(2 * APPLICATION_EVENTS))
    assert world.recorder.calls == 2
    world.happen()
    assert world.recorder.calls == 2


def test_closing_notifies_all_followers() -> None:
    world = EventWorld()
    with world.feed.follow() as follower:
        world.feed.close()
    assert (follower.woken.is_set(), world.feed.closed) == (True, True)


def test_a_turn_without_events_notifies_no_follower() -> None:
    world = EventWorld()
    world.register()
    with world.feed.follow() as follower:
        world.feed.observe([], at(1))
    assert not follower.woken.is_set()
