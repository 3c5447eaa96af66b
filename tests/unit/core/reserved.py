"""Clusters in which room is reserved for asks that have waited for long."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.specs import QueueSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    placed,
)
from tests.unit.core.preemption_builders import reserved, wait

TIMES = Timeouts()
DELAY_NS = TIMES.reservation_delay_ns
RESERVED_NS = TIMES.reservation_ns

TWO_LEAVES = a_root(a_queue_spec("a"), a_queue_spec("b"))


def a_talk(root: QueueSpec = TWO_LEAVES, /, **used: int) -> Conversation:
    """Nodes of 100 by name, of which so much is used by the allocation `on_<node>`."""
    talk = a_conversation(root=root)
    talk.apps(an_app("other", "root.b"))
    for node, memory in used.items():
        talk.nodes(a_node(node, {"memory": 100}))
        if memory:
            talk.asks(an_ask(f"on_{node}", memory, app="other"))
            assert placed(talk.schedule()) == [("other", f"on_{node}", node)]
            talk.nodes(a_node(node, action=NodeAction.DRAIN_NODE))
    for node, memory in used.items():
        if memory:
            talk.nodes(a_node(node, action=NodeAction.DRAIN_TO_SCHEDULABLE))
    return talk


def a_reserved_node(root: QueueSpec = TWO_LEAVES, /, memory: int = 60, **fields: Any) -> Conversation:
    """n1 is reserved for the ask `big`, and is used up to 90."""
    talk = a_talk(root, n1=90)
    talk.asks(an_ask("big", memory, **fields))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]
    return talk
