"""A node that is full, and daemons that may run nowhere else."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.specs import QueueSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
)

TIMES = Timeouts()


def the_root(*, most: int | None = None, **properties: Any) -> QueueSpec:
    """`a` for possible victims, with these properties; `b`, with that quota, for daemons."""
    quota = None if most is None else {"memory": most}
    return a_root(a_queue_spec("a", **properties), a_queue_spec("b", max=quota))


def a_talk(*keys: str, memory: int = 0, root: QueueSpec | None = None, **fields: Any) -> Conversation:
    """n1 with so much memory, or as much as allocations of 10 with these keys use; `fields` are those of their asks."""
    talk = a_conversation(a_node("n1", {"memory": memory or 10 * len(keys)}), root=root or the_root())
    talk.apps(an_app("daemons", "root.b"))
    for key in keys:
        talk.asks(an_ask(key, **fields))
        talk.schedule()
    return talk
