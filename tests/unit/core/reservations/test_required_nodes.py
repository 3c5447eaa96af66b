"""Asks for one node and no other, as those of daemons are (SI tag `yunikorn.apache.org/requiredNode`)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NewAsk, NodeAction, NodeUpdate
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    an_app,
    an_ask,
    of,
    only,
    placed,
)


def a_daemon(key: str = "d", node: str = "n2", memory: int = 10, **fields: Any) -> NewAsk:
    return an_ask(key, memory, tags={REQUIRED_NODE_TAG: node}, **fields)


def a_talk(**memory: int) -> Conversation:
    """Nodes by name, each with so much memory."""
    return a_conversation(*(a_node(name, {"memory": amount}) for name, amount in memory.items()))


def test_it_goes_to_its_node_and_to_no_other_and_others_go_anywhere() -> None:
    talk = a_talk(n1=10, n2=20)
    talk.asks(a_daemon("d1"), a_daemon("d2"), an_ask("any"), a_daemon("d3"))
    assert placed(talk.schedule()) == [("app", "d1", "n2"), ("app", "d2", "n2"), ("app", "any", "n1")]
    [ask] = talk.app().asks
    assert ask.required_node == "n2"
    assert ask.waiting_for == "the node that it requires, n2, has too little memory; n2 is kept for it"


def test_equal_asks_for_different_nodes_do_not_wait_for_each_other() -> None:
    talk = a_talk(n1=10, n2=5)
    talk.asks(a_daemon("d2", "n2"), a_daemon("d1", "n1"))
    assert placed(talk.schedule()) == [("app", "d1", "n1")]


def test_one_for_an_unknown_node_waits_for_it_alone_and_says_so() -> None:
    talk = a_talk(n1=20)
    talk.asks(a_daemon("d", "n2"), an_ask("k"))
    assert placed(talk.schedule()) == [("app", "k", "n1")]
    assert talk.app().asks[0].waiting_for == "the node that it requires, n2, is not registered"
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(talk.schedule()) == [("app", "d", "n2")]


@pytest.mark.parametrize(
    "change",
    [
        a_node("n2", {"memory": 20}, action=NodeAction.UPDATE),
        a_node("n2", occupied={}, action=NodeAction.UPDATE),
    ],
    ids=["larger", "less occupied"],
)
def test_it_is_tried_again_when_its_node_has_more_room(change: NodeUpdate) -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}), a_node("n2", {"memory": 15}, occupied={"memory": 10}))
    talk.asks(a_daemon())
    assert placed(talk.schedule()) == []
    talk.nodes(change)
    assert placed(talk.schedule()) == [("app", "d", "n2")]


def test_room_on_another_node_does_not_requeue_it() -> None:
    talk = a_talk(n1=10, n2=5)
    talk.asks(a_daemon())
    talk.schedule()
    talk.nodes(a_node("n3", {"memory": 100}))
    assert not talk.scheduler.wants_cycle()


@pytest.mark.parametrize("action", [NodeAction.CREATE_DRAIN, NodeAction.CREATE])
def test_a_draining_node_takes_what_requires_it_and_nothing_else(action: NodeAction) -> None:
    talk = a_conversation()
    talk.asks(a_daemon(), an_ask("k"))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 5}, action=action))
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 100}, action=NodeAction.UPDATE))
    assert placed(talk.schedule()) == [("app", "d", "n2")]


def test_what_completes_on_a_draining_node_makes_room_for_what_requires_it() -> None:
    talk = a_talk(n2=10)
    talk.asks(an_ask("k"))
    talk.schedule()
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    talk.asks(a_daemon())
    assert placed(talk.schedule()) == []
    talk.release(allocation_key="k")
    assert placed(talk.schedule()) == [("app", "d", "n2")]


def test_a_node_that_is_not_ready_takes_nothing() -> None:
    talk = a_conversation(a_node("n2", {"memory": 100}, attributes={"ready": "false"}))
    talk.asks(a_daemon())
    assert placed(talk.schedule()) == []
    assert talk.app().asks[0].waiting_for == "the node that it requires, n2, is not ready"
    talk.nodes(a_node("n2", action=NodeAction.UPDATE, attributes={"ready": "true"}))
    assert placed(talk.schedule()) == [("app", "d", "n2")]


def test_an_update_may_change_the_node() -> None:
    talk = a_talk(n1=10, n2=5)
    talk.asks(a_daemon())
    talk.schedule()
    talk.asks(a_daemon(node="n1"))
    assert placed(talk.schedule()) == [("app", "d", "n1")]


def test_it_is_not_outstanding_as_no_other_node_would_help() -> None:
    talk = a_talk(n2=5)
    talk.asks(a_daemon(), an_ask("k"))
    talk.schedule()
    assert talk.outstanding() == [("app", "k", 1)]


def test_a_real_ask_takes_the_placeholder_on_its_node() -> None:
    talk = a_talk(n1=10, n2=10)
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder(count=2, app="gang"))
    talk.schedule()
    talk.asks(a_daemon(app="gang", task_group="group"))
    assert only(ReleaseRequested, talk.schedule()).node_id == "n2"


def test_a_placeholder_is_not_given_up_for_a_node_without_room() -> None:
    talk = a_talk(n1=10, n2=5)
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=10)))
    talk.asks(a_placeholder(app="gang"))
    talk.schedule()
    talk.asks(a_daemon(app="gang", task_group="group"))
    assert of(ReleaseRequested, talk.schedule()) == []
    talk.nodes(a_node("n2", {"memory": 10}, action=NodeAction.UPDATE))
    request = only(ReleaseRequested, talk.schedule())
    facts = talk.release(application_id="gang", uuid=request.uuid, termination=request.termination)
    assert placed(facts) == [("gang", "d", "n2")]
