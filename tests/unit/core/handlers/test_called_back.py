"""Whose turn it is when a node has room for some of those it did not refuse, and they do not take it (SEMANTICS B4)."""

from __future__ import annotations

import pytest

from schedulerd.core.commands import NodeAction
from schedulerd.core.model import waking
from tests.unit.core.builders import a_node, a_queue_spec, a_root, an_app, an_ask, placed
from tests.unit.core.judges import Judge, Refuses

KEYS = [f"a{number}" for number in range(5)]


def resting(*keys: str) -> Judge:
    """Asks of 10 that were all refused on n1, the first one first; those after it run in a queue of their own."""
    talk = Judge(Refuses(*((key, "n1") for key in keys)))
    talk.begin(a_root(a_queue_spec("small", max={"memory": 10}), a_queue_spec("open")))
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.apps(an_app("first", "root.small"), an_app("rest", "root.open"))
    for key in keys:
        talk.asks(an_ask(key, app="first" if key == keys[0] else "rest"))
        talk.schedule()
    assert len(list(talk.model().turned_down)) == len(keys)
    return talk


def test_one_that_is_withdrawn_before_it_is_asked_about_gives_its_room_to_the_next() -> None:
    talk = resting("a", "b")
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.release_asks(application_id="first", allocation_key="a")
    assert placed(talk.schedule()) == [("rest", "b", "n2")]


def test_one_whose_queue_is_full_gives_its_room_to_the_next() -> None:
    talk = resting("a", "b")
    talk.asks(an_ask("filler", app="first"))
    assert placed(talk.schedule()) == [("first", "filler", "n1")]
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(talk.schedule()) == [("rest", "b", "n2")]


def test_few_nodes_are_looked_at_after_a_step_and_the_others_after_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "LOOKED_AT_MAX", 1)
    talk = resting(*KEYS)
    talk.nodes(a_node("n2", {"memory": 10}), a_node("n3", {"memory": 10}))
    assert sorted(node for _, _, node in placed(talk.schedule())) == ["n2", "n3"]
    assert not talk.model().turned_down.wanted, "nobody wants more than they have"
    assert not talk.scheduler.wants_cycle()


def test_a_node_that_is_gone_is_wanted_no_longer() -> None:
    talk = resting("a", "b")
    talk.nodes(a_node("n2", {"memory": 10}))
    assert [node.node_id for node in talk.model().turned_down.wanted] == ["n2"]
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    assert not talk.model().turned_down.wanted
