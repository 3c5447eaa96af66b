"""Gangs that declare their task groups and bring no placeholders (tag `schedulerd.io/task-groups`)."""

from __future__ import annotations

import json
from typing import Any

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from tests.unit.core.builders import a_conversation, a_node, an_app, an_ask, of


def declares(*groups: dict[str, Any], **fields: Any) -> Any:
    """An application `gang` with these task groups."""
    return an_app("gang", "root.a", tags={TASK_GROUPS_TAG: json.dumps(groups)}, **fields)


def member(key: str, memory: int = 10, count: int = 1, **fields: Any) -> NewAsk:
    fields.setdefault("task_group", "w")
    return an_ask(key, memory, count, "gang", **fields)


def told(facts: list[Fact]) -> list[str]:
    """Keys of the allocations of which the RM is told."""
    return [one.allocation_key for one in of(Allocated, facts) if not one.slot]


def held(facts: list[Fact]) -> int:
    return sum(one.slot for one in of(Allocated, facts))


def test_members_are_allocated_together_once_all_have_room() -> None:
    talk = a_conversation(a_node("n1", {"memory": 25}))
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(member("a"), member("b"))
    assert told(talk.schedule()) == []
    talk.asks(member("c"))
    assert told(talk.schedule()) == [], "two of three have room"
    talk.nodes(a_node("n2", {"memory": 10}))
    assert told(talk.schedule()) == ["a", "b", "c"]


def test_slots_of_known_size_hold_room_before_members_are_asked_for() -> None:
    talk = a_conversation(a_node("n1", {"memory": 40}))
    talk.apps(declares({"name": "w", "min": 3, "resources": {"memory": 10}}))
    assert held(talk.schedule()) == 3
    talk.asks(an_ask("x", 10, 4))
    assert told(talk.schedule()) == ["x"]
    talk.asks(member("a"), member("b"), member("c"), member("d"))
    assert told(talk.schedule()) == ["a", "b", "c"]
