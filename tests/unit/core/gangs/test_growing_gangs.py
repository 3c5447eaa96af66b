"""Members above the min of their gang, and gangs that gather in the same leaf."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from tests.unit.core.builders import Conversation, a_conversation, a_node, an_app, an_ask
from tests.unit.core.gangs.test_declared_gangs import declares, member, told

GROWS = '[{"name": "w", "min": 1, "max": 9}]'


def a_growing_gang(*, is_older: bool, priority: int = 0) -> Conversation:
    """`grows` has its one member; `gang` waits for two nodes of which one is free; then `grows` asks for one more."""
    talk = a_conversation(a_node("n1", {"memory": 10}))
    other = declares({"name": "w", "min": 2})
    grows = an_app("grows", "root.a", tags={TASK_GROUPS_TAG: GROWS})
    talk.apps(*[replace(one, asked_at_ns=at) for at, one in enumerate((grows, other) if is_older else (other, grows))])
    talk.asks(an_ask("g1", 10, 1, "grows", task_group="w", priority=priority))
    assert told(talk.schedule()) == ["g1"]
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.asks(member("m1"), member("m2"))
    assert told(talk.schedule()) == []
    talk.asks(an_ask("g2", 10, 1, "grows", task_group="w", priority=priority))
    return talk


def test_growth_takes_no_room_from_a_gang_that_gathers_ahead_of_it() -> None:
    talk = a_growing_gang(is_older=False)
    assert told(talk.schedule()) == []
    talk.nodes(a_node("n3", {"memory": 10}))
    assert told(talk.schedule()) == ["m1", "m2"]
    talk.nodes(a_node("n4", {"memory": 10}))
    assert told(talk.schedule()) == ["g2"]


def test_growth_goes_on_when_the_gang_ahead_is_gone() -> None:
    talk = a_growing_gang(is_older=False)
    talk.schedule()
    talk.release_asks(application_id="gang", allocation_key="m1")
    assert told(talk.schedule()) == ["g2"]


def test_growth_that_is_ahead_itself_waits_for_nobody() -> None:
    assert told(a_growing_gang(is_older=True).schedule()) == ["g2"]
    assert told(a_growing_gang(is_older=False, priority=1).schedule()) == ["g2"]


def test_a_gang_that_no_node_could_hold_keeps_no_room_from_growth() -> None:
    talk = a_growing_gang(is_older=False)
    talk.asks(member("m1", 100))
    assert told(talk.schedule()) == ["g2"]


def test_members_that_a_gang_needs_are_no_growth() -> None:
    talk = a_growing_gang(is_older=False)
    talk.schedule()
    talk.apps(replace(an_app("grows", "root.a", tags={TASK_GROUPS_TAG: GROWS.replace("1", "2", 1)}), asked_at_ns=1))
    assert told(talk.schedule()) == ["g2"]
