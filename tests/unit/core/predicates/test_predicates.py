"""Where the resource manager has a say in where asks run: nothing is given up in vain."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.gangs import GangGaveWay
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import (
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)


def a_talk(says: Refuses, *nodes: str, memory: int = 20) -> AnsweringRM:
    talk = AnsweringRM(says)
    talk.begin()
    talk.nodes(*(a_node(name, {"memory": memory}) for name in nodes))
    talk.apps(an_app(placeholder_ask=Resources(memory=10)))
    return talk


def a_swap(says: Refuses, *later_nodes: str) -> AnsweringRM:
    """A placeholder on n1, nodes that came later, and a real ask `r` for it."""
    talk = a_talk(says, "n1")
    talk.asks(a_placeholder())
    talk.schedule()
    talk.nodes(*(a_node(name, {"memory": 20}) for name in later_nodes))
    talk.asks(an_ask("r", task_group="group"))
    return talk


def confirm(talk: AnsweringRM, request: ReleaseRequested) -> list[tuple[str, str, str]]:
    return placed(talk.release(uuid=request.uuid, termination=request.termination))


def test_an_ask_goes_to_the_first_node_that_takes_it_and_equal_asks_are_judged_each_on_its_own() -> None:
    talk = a_talk(Refuses(("a", "n1"), ("b", "n2")), "n1", "n2")
    talk.asks(an_ask("a"), an_ask("b"))
    assert set(placed(talk.schedule())) == {("app", "a", "n2"), ("app", "b", "n1")}


def test_an_ask_that_no_node_takes_waits_says_why_and_is_tried_again_when_a_node_comes() -> None:
    talk = a_talk(Refuses(("a", "n1")), "n1")
    talk.asks(an_ask("a"), an_ask("b"))
    assert placed(talk.schedule()) == [("app", "b", "n1")]
    [ask] = talk.app().asks
    assert ask.waiting_for == "its resource manager refuses every node that has room: tainted (node n1)"
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(talk.schedule()) == [("app", "a", "n2")]


def test_a_placeholder_on_a_node_that_takes_the_real_ask_is_the_one_to_go() -> None:
    talk = a_talk(Refuses(("r", "n1")), "n1", memory=10)
    talk.asks(a_placeholder(count=2))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.schedule()
    talk.asks(an_ask("r", task_group="group"))
    request = only(ReleaseRequested, talk.schedule())
    assert request.node_id == "n2"
    assert confirm(talk, request) == [("app", "r", "n2")]


def test_a_placeholder_is_given_up_for_another_node_that_takes_the_real_ask() -> None:
    talk = a_swap(Refuses(("r", "n1")), "n2")
    assert confirm(talk, only(ReleaseRequested, talk.schedule())) == [("app", "r", "n2")]


def test_if_that_other_node_is_gone_at_the_confirmation_the_ask_waits_for_the_next() -> None:
    talk = a_swap(Refuses(("r", "n1")), "n2")
    request = only(ReleaseRequested, talk.schedule())
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    assert confirm(talk, request) == []
    talk.nodes(a_node("n3", {"memory": 20}))
    assert placed(talk.schedule()) == [("app", "r", "n3")]


def test_a_placeholder_is_not_given_up_for_an_ask_that_no_node_takes() -> None:
    talk = a_swap(Refuses(("r", "n1"), ("r", "n2")), "n2")
    assert of(ReleaseRequested, talk.schedule()) == []
    assert [one.placeholder for one in talk.app().allocations] == [True]
    talk.nodes(a_node("n3", {"memory": 20}))
    assert confirm(talk, only(ReleaseRequested, talk.schedule())) == [("app", "r", "n3")]


def test_no_gang_is_released_for_one_that_may_not_use_the_room() -> None:
    talk = AnsweringRM(Refuses(("p2", "n1")), Timeouts(gang_deadlock_timeout_ns=SECOND_NS))
    talk.begin(a_root(a_queue_spec("a"), a_queue_spec("b")))
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(
        an_app(placeholder_ask=Resources(memory=20)), an_app("late", "root.b", placeholder_ask=Resources(memory=20))
    )
    talk.asks(a_placeholder("p1"), a_placeholder("p2"))
    talk.schedule()
    talk.asks(a_placeholder("q", count=2, app="late"))
    assert placed(talk.schedule()) == [("late", "q", "n1")]
    assert of(GangGaveWay, talk.sleep(10 * SECOND_NS)) == []


def test_others_of_its_task_group_go_on_meanwhile() -> None:
    talk = a_swap(Refuses(("r", "n1")))
    assert of(ReleaseRequested, talk.schedule()) == []
    talk.asks(an_ask("s", task_group="group"))
    assert confirm(talk, only(ReleaseRequested, talk.schedule())) == [("app", "s", "n1")]


@pytest.mark.parametrize("end", ["ask", "application"])
def test_an_ask_that_was_denied_leaves_nothing_behind(end: str) -> None:
    talk = a_swap(Refuses(("r", "n1")))
    talk.schedule()
    if end == "ask":
        talk.release_asks(allocation_key="r")
    else:
        talk.remove("app")
    assert talk.model().denied == {}


def test_a_denied_ask_is_tried_again_when_room_comes_back() -> None:
    says = Refuses(("r", "n1"))
    talk = a_swap(says)
    talk.asks(an_ask("other"))
    talk.schedule()
    says.pairs.clear()
    [other] = [one for one in talk.app().allocations if not one.placeholder]
    talk.release(uuid=other.uuid)
    assert confirm(talk, only(ReleaseRequested, talk.schedule())) == [("app", "r", "n1")]
