"""Which refused asks are called back when a node has room for some of them, and they do not take it (SEMANTICS B4)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.core.state.pending import end_of_step
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import a_node, a_queue_spec, a_root, an_app, an_ask, placed


def resting(small: Sequence[str], open_: Sequence[str]) -> AnsweringRM:
    """Asks for 10 that were refused on n1, one after the other: those of a queue with a quota of 10, and others."""
    keys = [*small, *open_]
    talk = AnsweringRM(Refuses(*((key, "n1") for key in keys)))
    talk.begin(a_root(a_queue_spec("small", max={"memory": 10}), a_queue_spec("open")))
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.apps(an_app("small", "root.small"), an_app("open", "root.open"))
    for key in keys:
        talk.asks(an_ask(key, app="small" if key in small else "open"))
        talk.schedule()
    assert how_many(talk) == len(keys)
    return talk


def fill(talk: AnsweringRM) -> None:
    """Uses up the quota."""
    talk.asks(an_ask("filler", app="small"))
    assert placed(talk.schedule()) == [("small", "filler", "n1")]


def how_many(talk: AnsweringRM) -> int:
    """Of them rest."""
    return len(list(talk.model().refused_asks))


def test_one_that_is_withdrawn_before_it_is_asked_about_gives_its_room_to_the_next() -> None:
    talk = resting(["a"], ["b"])
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.release_asks(application_id="small", allocation_key="a")
    assert placed(talk.schedule()) == [("open", "b", "n2")]


def test_one_whose_queue_is_full_gives_its_room_to_the_next() -> None:
    talk = resting(["a"], ["b"])
    fill(talk)
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(talk.schedule()) == [("open", "b", "n2")]


def test_no_other_ask_is_called_back_when_the_room_is_taken() -> None:
    talk = resting([], ["a", "b", "c"])
    talk.nodes(a_node("n2", {"memory": 20}))
    assert [key for _, key, _ in placed(talk.schedule())] == ["a", "b"]
    assert (how_many(talk), dict(talk.model().refused_asks.nodes_to_retry)) == (1, {})


@pytest.mark.parametrize(("looked_at", "rest_after_each_cycle"), [(1, [3, 2, 1, 0]), (2, [2, 0])])
def test_so_many_nodes_are_looked_at_again_after_a_step(
    monkeypatch: pytest.MonkeyPatch, looked_at: int, rest_after_each_cycle: list[int]
) -> None:
    monkeypatch.setattr(end_of_step, "LOOKED_AT_MAX", looked_at)
    talk = resting([f"a{number}" for number in range(5)], ["b"])
    fill(talk)
    talk.nodes(a_node("n2", {"memory": 10}), a_node("n3", {"memory": 10}))
    counts = []
    while how_many(talk):
        assert talk.scheduler.wants_cycle()
        assert placed(talk.cycle()) == []
        counts.append(how_many(talk))
    assert counts == rest_after_each_cycle
    assert [key for _, key, _ in placed(talk.schedule())] == ["b"]


def test_a_node_that_is_gone_is_wanted_no_longer() -> None:
    talk = resting([], ["a", "b"])
    talk.nodes(a_node("n2", {"memory": 10}))
    assert [node.node_id for node in talk.model().refused_asks.nodes_to_retry] == ["n2"]
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    assert not talk.model().refused_asks.nodes_to_retry


def test_a_node_that_goes_with_its_allocations_is_not_retried_for_asks_that_require_it() -> None:
    talk = AnsweringRM(Refuses(("a", "n1"), ("b", "n1")))
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    talk.asks(*(an_ask(key, tags={REQUIRED_NODE_TAG: "n1"}) for key in ("a", "b", "c")))
    assert placed(talk.schedule()) == [("app", "c", "n1")]
    assert how_many(talk) == 2
    talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))
    assert not talk.model().refused_asks.nodes_to_retry
