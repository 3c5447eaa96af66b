"""A state-aware leaf: one application starts at a time, and one that is blocked for long lets the next one start."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.commands import NodeAction, UpdateConfiguration
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, ApplicationOrder
from tests.unit.core.builders import (
    RM,
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


def reload(talk: Conversation, order: ApplicationOrder, timeout_ns: int = TIMEOUT_NS) -> None:
    leaf = a_queue_spec("leaf", order=order, stateaware_timeout_ns=timeout_ns)
    talk.step(UpdateConfiguration(RM, (replace(talk.model().spec, root=a_root(leaf)),)))


def after(talk: Conversation, duration_ns: int) -> list[str]:
    """Which applications are placed until then, when a cycle runs as soon as one is wanted."""
    facts, end_ns = talk.schedule(), talk.now_ns + duration_ns
    while (deadline_ns := talk.scheduler.next_deadline_ns()) is not None and deadline_ns <= end_ns:
        facts += [*talk.sleep(deadline_ns - talk.now_ns), *talk.schedule()]
    talk.sleep(end_ns - talk.now_ns)
    return [app for app, _, _ in placed(facts)]


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
    after(talk, TIMEOUT_NS)
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


def test_one_that_has_been_blocked_for_a_moment_lets_no_other_start() -> None:
    """It held a placeholder nearly all the time."""
    talk = a_talk()
    talk.nodes(a_node("n2", {"memory": 200}))
    talk.apps(an_app("gang", "root.leaf", placeholder_ask=Resources(memory=400)), an_app("next", "root.leaf"))
    talk.asks(a_placeholder("p", 100, 4, app="gang"), an_ask("k", 5, app="next"))
    assert after(talk, TIMEOUT_NS - 1) == ["gang", "gang"]
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    assert after(talk, TIMEOUT_NS - 1) == []
    assert after(talk, 1) == ["next"]


def test_a_reload_does_not_end_the_time_for_which_it_is_blocked() -> None:
    talk = a_talk("big", "next")
    talk.asks(an_ask("k", 100, app="big"), an_ask("k", app="next"))
    assert after(talk, TIMEOUT_NS - 1) == []
    since_ns = talk.app("big").blocked_since_ns
    spec = talk.model().spec
    talk.step(UpdateConfiguration(RM, (replace(spec, preemption_enabled=not spec.preemption_enabled),)))
    talk.sleep(1)
    assert after(talk, 0) == ["next"]
    assert talk.app("big").blocked_since_ns == since_ns


def test_room_that_is_too_small_does_not_end_the_time_for_which_it_is_blocked() -> None:
    talk = a_talk("big", "next")
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    talk.asks(an_ask("k", app="big", resources=Resources(memory=5, vcore=5)), an_ask("k", app="next"))
    assert after(talk, TIMEOUT_NS - 1) == []
    talk.nodes(a_node("n2", {"memory": 30}), a_node("n3", {"vcore": 30}))
    assert talk.scheduler.wants_cycle(), "together they have enough"
    talk.sleep(1)
    assert after(talk, 0) == ["next"]


def test_another_timeout_holds_from_the_time_at_which_it_was_blocked() -> None:
    talk = a_talk("big", "next")
    talk.asks(an_ask("k", 100, app="big"), an_ask("k", app="next"))
    assert after(talk, TIMEOUT_NS - 1) == []
    reload(talk, ApplicationOrder.STATE_AWARE, 3 * TIMEOUT_NS)
    assert after(talk, TIMEOUT_NS) == []
    reload(talk, ApplicationOrder.STATE_AWARE, 2 * TIMEOUT_NS)
    assert after(talk, 0) == []
    assert after(talk, 1) == ["next"]


def test_in_another_order_no_application_waits_for_it() -> None:
    talk = a_talk("big", "next")
    talk.asks(an_ask("k", 100, app="big"), an_ask("k", 200, app="next"))
    after(talk, 2 * TIMEOUT_NS)
    reload(talk, ApplicationOrder.FIFO)
    assert [one.lets_next_start for one in map(talk.app, ("big", "next"))] == [False, False]
    assert [one.blocked_since_ns for one in map(talk.app, ("big", "next"))] == [None, None]
    reload(talk, ApplicationOrder.STATE_AWARE)
    assert after(talk, TIMEOUT_NS - 1) == []
    assert not talk.app("big").lets_next_start


def test_it_starts_before_those_that_it_let_start_whatever_their_priority() -> None:
    talk = a_talk("big", "next")
    talk.asks(an_ask("k", 100, app="big"), an_ask("k", 100, app="next", priority=5))
    assert after(talk, TIMEOUT_NS) == []
    assert talk.app("big").lets_next_start
    talk.nodes(a_node("n2", {"memory": 100}))
    assert after(talk, 0) == ["big"]
    talk.nodes(a_node("n3", {"memory": 100}))
    assert after(talk, 0) == [], "big is starting"


def test_one_that_took_its_asks_back_has_to_be_blocked_anew() -> None:
    talk = a_talk()
    talk.apps(an_app("gang", "root.leaf", placeholder_ask=Resources(memory=100)), an_app("next", "root.leaf"))
    talk.asks(a_placeholder("p", 100, app="gang"))
    after(talk, TIMEOUT_NS)
    assert talk.app("gang").lets_next_start
    talk.release_asks(application_id="gang")
    assert talk.app("gang").state == "Completing"
    talk.asks(a_placeholder("q", 100, app="gang"), an_ask("k", app="next"))
    assert talk.app("gang").state == "Accepted"
    assert after(talk, TIMEOUT_NS - 1) == []
    assert after(talk, 1) == ["next"]
