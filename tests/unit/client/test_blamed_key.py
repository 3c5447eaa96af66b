"""The key of the existing allocation that a rejection blames: what the core says is what the client reads."""

from __future__ import annotations

import pytest

from schedulerd.client.messages import blamed_key
from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import NodeRejected
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, an_existing, only


@each_row("key", ["pod", "a'b", 'a"b', "a'\"b", "a\\b", "a)b\n", "0e984725-c51c-4bf4-9960-e1c80e27aba0"])
@each_row("is_update", [False, True])
def test_the_key_that_the_core_names_is_read(key: str, is_update: bool) -> None:
    talk = a_conversation()
    if is_update:
        talk.nodes(a_node("n", {"memory": 100}))
    action = NodeAction.UPDATE if is_update else NodeAction.CREATE
    node = a_node("n", {"memory": 100}, an_existing("e1"), an_existing("e2", key, memory=-1), action=action)
    assert blamed_key(only(NodeRejected, talk.nodes(node)).reason) == key


@pytest.mark.parametrize("reason", ["", "node n is known already", "labels: (allocationKey 'pod')"])
def test_other_rejections_blame_no_allocation(reason: str) -> None:
    assert blamed_key(reason) == ""
