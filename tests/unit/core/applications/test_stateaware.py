"""A state-aware leaf: one application starts at a time, and one that is blocked for long lets the next one start."""

from __future__ import annotations

from schedulerd.core.commands import NodeAction
from schedulerd.core.resources import Resources
from schedulerd.core.specs import SECOND_NS, ApplicationOrder
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    placed,
)
from tests.unit.core.gang_builders import a_held_place

TIMEOUT_NS = 10 * SECOND_NS


def a_talk(*names: str) -> Conversation:
    """Applications of one leaf, oldest first."""
    leaf = a_queue_spec("leaf", order=ApplicationOrder.STATE_AWARE, stateaware_timeout_ns=TIMEOUT_NS)
    talk = a_conversation(a_node("n1", {"memory": 30}), root=a_root(leaf))
    for age, name in enumerate(names):
        talk.apps(an_app(name, "root.leaf", asked_at_ns=age))
    return talk


def after(talk: Conversation, duration_ns: int) -> list[str]:
    """Which applications are placed until then."""
    return [app for app, _, _ in placed([*talk.schedule(), *talk.sleep(duration_ns), *talk.schedule()])]


def test_an_application_that_is_blocked_for_long_lets_the_next_one_start() -> None:
    talk = a_talk("big", "next", "last")
    talk.asks(an_ask("k", 100, app="big"), an_ask("k", app="next"), an_ask("k", app="last"))
    assert after(talk, TIMEOUT_NS - 1) == []
    assert after(talk, 1) == ["next"]
    assert after(talk, TIMEOUT_NS) == [], "next is starting"


def test_it_keeps_its_place_and_starts_when_it_can() -> None:
    talk = a_talk("big", "next", "last")
    talk.asks(an_ask("k", 100, app="big"), an_ask("k", 200, app="next"), an_ask("k", 200, app="last"))
    assert after(talk, TIMEOUT_NS) == after(talk, TIMEOUT_NS) == []
    assert [one.lets_next_start for one in map(talk.app, ("big", "next", "last"))] == [True, True, False]
    talk.nodes(a_node("n2", {"memory": 200}))
    assert after(talk, 0) == ["big"]
    assert not talk.app("big").lets_next_start


def test_one_that_is_not_its_turn_loses_no_time() -> None:
    """The time of the second one begins when it may start."""
    talk = a_talk("big", "second", "third")
    talk.asks(an_ask("k", 100, app="big"), an_ask("k", 100, app="second"), an_ask("k", app="third"))
    assert after(talk, 2 * TIMEOUT_NS - 1) == []
    assert after(talk, 1) == ["third"]


def test_a_gang_that_holds_a_placeholder_holds_the_leaf() -> None:
    talk = a_talk()
    talk.apps(an_app("gang", "root.leaf", placeholder_ask=Resources(memory=100)), an_app("next", "root.leaf"))
    talk.asks(a_placeholder("p", 25, 4, app="gang"), an_ask("k", 5, app="next"))
    assert after(talk, 3 * TIMEOUT_NS) == ["gang"]
    assert after(talk, 10 * 60 * SECOND_NS) == []


def test_a_gang_of_which_a_placeholder_is_reported_holds_the_leaf() -> None:
    talk = a_talk()
    talk.apps(an_app("gang", "root.leaf", placeholder_ask=Resources(memory=1000)), an_app("next", "root.leaf"))
    talk.asks(a_placeholder("p", 500, 2, app="gang"))
    talk.sleep(TIMEOUT_NS)
    talk.schedule()
    talk.sleep(TIMEOUT_NS)
    assert talk.app("gang").lets_next_start
    talk.nodes(a_node("n2", {"memory": 10}, a_held_place(key="q")))
    assert not talk.app("gang").lets_next_start
    talk.asks(an_ask("k", 5, app="next"))
    assert after(talk, 10 * SECOND_NS) == []


def test_one_that_could_start_lets_no_other_start() -> None:
    """No cycle has found out yet that there is no room for it."""
    talk = a_talk("first", "next")
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    talk.asks(an_ask("k", app="first"))
    talk.sleep(3 * TIMEOUT_NS)
    assert not talk.app("first").lets_next_start
    assert after(talk, TIMEOUT_NS) == []
    assert talk.app("first").lets_next_start
