"""Room for the slots of a gang whose members decide, by where they are, which nodes take the others."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.commands import NewAsk
from tests.unit.core.builders import Conversation, a_conversation, a_node, an_ask
from tests.unit.core.constraint_builders import HOST, IS_WEB, WEB, together
from tests.unit.core.gangs.test_declared_gangs import declares, held, member, racks, told

ALONE: dict[str, Any] = {"tags": WEB, "constraint": together(HOST, IS_WEB, most=1)}


def alone(key: str, **fields: Any) -> NewAsk:
    """A member that shares its node with no other one."""
    return member(key, **ALONE, **fields)


def nodes_of(talk: Conversation) -> list[str]:
    """Of the gang's members."""
    return sorted(one.node.node_id for one in talk.model().applications["gang"].allocations.values())


def test_members_that_exclude_each_other_get_nodes_together_or_none() -> None:
    talk = a_conversation(*(a_node(name, {"memory": 40}) for name in ("n0", "n1")))
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(*(alone(key) for key in "abc"))
    facts = talk.cycle()
    assert (told(facts), held(facts), talk.scheduler.wants_cycle()) == ([], 0, False), "two of three have a node"
    talk.asks(an_ask("x", 40, 2))
    assert told(talk.schedule()) == ["x", "x"], "nothing is held meanwhile"
    talk.nodes(*(a_node(name, {"memory": 40}) for name in ("m0", "m1", "m2")))
    assert sorted(told(talk.schedule())) == ["a", "b", "c"]
    assert nodes_of(talk) == ["m0", "m1", "m2"]


def test_in_a_domain_they_get_nodes_together_or_none_as_well() -> None:
    talk = racks(("a", 40), ("a", 40), ("b", 40), ("b", 40))
    talk.apps(declares({"name": "w", "min": 3, "topology": {"required": "rack"}}))
    talk.asks(*(alone(key) for key in "abc"))
    facts = talk.cycle()
    assert (told(facts), held(facts), talk.scheduler.wants_cycle()) == ([], 0, False)
    talk.nodes(a_node("n4", {"memory": 10}, attributes={"r": "b"}))
    assert sorted(told(talk.schedule())) == ["a", "b", "c"]
    assert nodes_of(talk) == ["n2", "n3", "n4"]
