"""A follower of events that does not read costs nothing, and nothing is recorded without a follower."""

from __future__ import annotations

from schedulerd.observe.event_record import EventCounts
from tests.instants import at
from tests.unit.daemon.event_world import APPLICATION_EVENTS, REGISTRATION_EVENTS, EventWorld, taken


def nothing() -> None:
    """For followers that look by themselves."""


def test_a_follower_sees_what_happens_from_now_on() -> None:
    world = EventWorld()
    world.register()
    woken: list[None] = []
    with world.feed.follow(lambda: woken.append(None)) as follower:
        assert taken(follower) == []
        world.happen()
        assert len(woken) == 1
        first = REGISTRATION_EVENTS
        assert taken(follower) == [(first, "app-0"), (first + 1, "root.a")]
        assert taken(follower) == []


def test_a_follower_from_an_id_on_sees_what_was_first() -> None:
    world = EventWorld()
    world.register()
    with world.feed.follow(nothing, start=1) as follower:
        assert taken(follower) == [(1, "root"), (2, "root.a")]


def test_what_is_more_than_it_takes_is_there_at_once() -> None:
    world = EventWorld()
    world.register()
    with world.feed.follow(nothing, start=0) as follower:
        batch = follower.take(2)
        assert ([event.event_id for event in batch.events], batch.more) == ([0, 1], True)
        batch = follower.take(2)
        assert ([event.event_id for event in batch.events], batch.more) == ([2], False)


def test_a_slow_follower_is_told_what_it_lost_and_others_lose_nothing() -> None:
    world = EventWorld(events_max=4)
    world.register()
    with world.feed.follow(nothing) as slow, world.feed.follow(nothing) as fast:
        for _ in range(3):
            world.happen()
            assert fast.take(10).lost == 0
        batch = slow.take(10)
        assert (batch.lost, len(batch.events)) == (3 * APPLICATION_EVENTS - 4, 4)
        assert slow.take(10) == ([], 0, False)
        assert world.feed.counts == EventCounts(
            recorded=REGISTRATION_EVENTS + 3 * APPLICATION_EVENTS, suppressed=0, lost=2, followers=2
        )
    assert world.feed.counts.followers == 0


def test_a_follower_of_one_resource_manager_is_not_told_of_others() -> None:
    world = EventWorld()
    with world.feed.follow(nothing, "rm-2") as follower:
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
    with world.feed.follow(nothing) as one:
        with world.feed.follow(nothing):
            world.happen()
        world.happen()
        assert [event_id for event_id, _ in taken(one)] == list(range(2 * APPLICATION_EVENTS))
    assert world.recorder.calls == 2
    world.happen()
    assert world.recorder.calls == 2


def test_closing_notifies_all_followers() -> None:
    world = EventWorld()
    woken: list[None] = []
    with world.feed.follow(lambda: woken.append(None)):
        world.feed.close()
    assert (len(woken), world.feed.closed) == (1, True)


def test_a_turn_without_events_notifies_no_follower() -> None:
    world = EventWorld()
    world.register()
    woken: list[None] = []
    with world.feed.follow(lambda: woken.append(None)):
        world.feed.observe([], at(1))
    assert woken == []
