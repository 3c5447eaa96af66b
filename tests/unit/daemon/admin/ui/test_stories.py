"""Stories of pages: events are found over several refreshes without a gap, and equal ones are one row."""

from __future__ import annotations

import pytest

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.daemon.admin.ui.pages import stories
from schedulerd.daemon.admin.ui.pages.stories import KEPT_MAX, Story
from schedulerd.daemon.admin.ui.words import event_words, message_of, state_cause, without_uuids
from schedulerd.observe.event_record import SI, Event, Record
from tests.instants import at
from tests.unit.core.builders import RM
from tests.unit.daemon.admin.ui.ui_world import UiWorld

UUID = "0d2f6c1e-93a5-4b7c-8d1e-2f3a4b5c6d7e"


def a_world(rm_id: str = "rm") -> UiWorld:
    world = UiWorld()
    world.events.register(rm_id)
    return world


def refresh(story: Story, world: UiWorld, wanted: set[str]) -> None:
    def wants(one: Event) -> bool:
        return one.record.object_id in wanted

    list(story.read(world.events.feed.ring, "rm", wants))


def ids(story: Story) -> list[str]:
    return [one.record.object_id for one in story.events]


def test_a_story_looks_back_over_so_many_events_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stories.SCANNED_MAX == 5_000
    monkeypatch.setattr(stories, "SCANNED_MAX", 10)
    world = a_world()
    world.events.happen(1, "rm")
    world.events.happen(20, "rm")
    story = Story(5)
    looks = 0
    while not story.events:
        refresh(story, world, {"app-0"})
        looks += 1
    assert looks > 2
    assert ids(story) == ["app-0"]
    world.events.happen(1, "rm")
    refresh(story, world, {"app-0", "app-21"})
    assert ids(story) == ["app-0", "app-21"]


def test_events_that_came_too_fast_are_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "SCANNED_MAX", 10)
    world, story, wanted = a_world(), Story(), {"app-0", "app-3", "app-39"}
    world.events.happen(1, "rm")
    for _ in range(3):
        refresh(story, world, wanted)
    assert (ids(story), story.searched_to_ns) == (["app-0"], None)
    world.events.happen(39, "rm")
    refresh(story, world, wanted)
    assert ids(story) == ["app-0", "app-39"]
    assert story.searched_to_ns
    for _ in range(20):
        refresh(story, world, wanted)
    assert ids(story) == ["app-0", "app-3", "app-39"]
    assert story.searched_to_ns is None


def test_a_story_keeps_the_newest_events_and_searches_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT_MAX == 400
    monkeypatch.setattr(stories, "SCANNED_MAX", 32)
    world, story = a_world(), Story(3)
    world.events.happen(100, "rm")
    refresh(story, world, {f"app-{number}" for number in range(100)})
    refresh(story, world, {f"app-{number}" for number in range(100)})
    assert ids(story) == ["app-97", "app-98", "app-99"]
    assert story.searched_to_ns is None


def test_a_page_says_how_far_back_its_events_were_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "SCANNED_MAX", 10)
    world = a_world(RM)
    world.events.happen(60, RM)
    text = world.page("/ui/application?id=app")
    assert "None found yet: searched back to " in text
    monkeypatch.setattr(stories, "SCANNED_MAX", 5_000)
    assert "None is remembered." in world.page("/ui/application?id=app")


def test_equal_events_of_one_second_are_one_row() -> None:
    world = a_world(RM)
    for number in range(12):
        record = Record(SI.APP, "app", SI.ADD, SI.APP_REQUEST, f"k{number}", {"memory": 10}, "", "root.a")
        world.events.feed.ring.add(at(5), RM, "default", 1, lambda what: (what,), record)
    text = world.page("/ui/application?id=app")
    assert text.count('<span data-f="what">12 asks added</span>') == 1
    assert '<span data-f="what">ask added</span>' not in text


def test_an_ask_is_called_by_the_name_of_its_pod() -> None:
    world = a_world(RM)
    record = Record(SI.REQUEST, "k", SI.NONE, SI.DETAILS_NONE, "app", group="app", reason="AppReservedNode")
    world.events.feed.ring.add(at(5), RM, "default", 1, lambda what: (what,), record)
    link = '<a data-f="object" href="/ui/ask?application=app&amp;ask=k">ns/pod-1</a>'
    assert link in world.page("/ui/events")


def test_allocations_of_one_second_on_many_nodes_are_one_row() -> None:
    world = a_world(RM)
    for number in range(6):
        record = Record(SI.NODE, f"n{number // 2}", SI.ADD, SI.NODE_ALLOC, UUID, {"memory": 10})
        world.events.feed.ring.add(at(5), RM, "default", 1, lambda what: (what,), record)
    text = world.page("/ui/events")
    assert text.count('<span data-f="what">6 allocations added</span>') == 1
    assert '<a data-f="object" href="/ui/nodes">3 nodes</a>' in text
    assert UUID not in text


def test_events_are_said_in_words() -> None:
    assert event_words("AppRequestAdded", 1) == "ask added"
    assert event_words("AppRequestAdded", 1_200) == "1,200 asks added"
    assert event_words("GangTimedOut", 1) == "gang timed out"
    assert event_words("GangTimedOut", 2) == "gang timed out, 2 times"
    assert without_uuids(f"takes the room of placeholder {UUID}") == "takes the room of placeholder"


def test_causes_of_states_are_said_in_words() -> None:
    state = ApplicationState
    assert state_cause(state.NEW, state.ACCEPTED, "runApplication") == "its first ask came"
    assert state_cause(state.RESUMING, state.ACCEPTED, "runApplication").startswith("its placeholders are gone")
    assert state_cause(state.RUNNING, state.FAILING, "it ran too long") == "it ran too long"
    assert message_of("AppStarting", "runApplication") == "it got its first allocation, or its whole gang"
    assert message_of("AppResuming", "Resuming: no room") == "no room"
    assert message_of("AppReject", "no such queue") == "no such queue"
    text = UiWorld().page("/ui/application?id=app")
    assert "its first ask came" in text
    assert "runApplication" not in text
