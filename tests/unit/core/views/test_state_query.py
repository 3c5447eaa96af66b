"""A bounded look shows some of everything and says what it leaves out, at a cost that does not grow with the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from schedulerd.core.views import view
from schedulerd.core.views.state_query import StateQuery
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    an_app,
    an_ask,
)


@pytest.fixture
def talk() -> Conversation:
    """Three nodes and four applications with two allocations each, and one more asked for twice that waits."""
    talk = a_conversation(*(a_node(f"n{number}", {"memory": 30}) for number in range(3)))
    talk.apps(*(an_app(f"app-{number}", user=f"user-{number % 2}") for number in range(4)))
    for number in range(4):
        talk.asks(an_ask("runs", count=2, app=f"app-{number}"))
    talk.schedule()
    for number in range(4):
        talk.asks(an_ask("waits", 20, count=2, app=f"app-{number}"))
    talk.schedule()
    return talk


def test_what_is_taken_and_what_is_left_out_is_everything() -> None:
    look = StateQuery(limit=5)
    assert look.take("pods", "abc", 3) == ["a", "b", "c"]
    assert look.take("pods", "defg", 4) == ["d", "e"]
    assert look.take("pods", "h", 1) == []
    assert look.take("nodes", "xy", 2) == ["x", "y"], "every kind has a limit of its own"
    assert look.left_out == {"pods": 3}


def test_without_a_limit_everything_is_taken() -> None:
    look = StateQuery()
    assert look.take("pods", range(10_000), 10_000) == list(range(10_000))
    assert look.left_out == {}


def test_a_bounded_query_shows_no_more_than_its_limit_of_each_kind(talk: Conversation) -> None:
    everything = view.resource_managers(talk.scheduler.cluster)
    for limit in range(1, 10):
        look = StateQuery(limit=limit)
        shown = view.resource_managers(talk.scheduler.cluster, look)
        (one,), (all_of_it,) = shown[0].partitions, everything[0].partitions
        for name in ("queues", "applications", "nodes", "users"):
            total = len(getattr(all_of_it, name))
            assert len(getattr(one, name)) == min(limit, total)
            assert look.left_out[name] == max(total - limit, 0)
        for owners in ("applications", "nodes"):
            allocations = sum(len(owner.allocations) for owner in getattr(one, owners))
            assert allocations <= limit
            known = {owner_id(owner): len(owner.allocations) for owner in getattr(all_of_it, owners)}
            there = sum(known[owner_id(owner)] for owner in getattr(one, owners))
            assert look.left_out[f"allocations of {owners}"] == there - allocations
        assert sum(len(app.asks) for app in one.applications) <= limit
        assert len(one.outstanding) <= limit
    assert shown == everything, "more room than there are things"
    assert not look.left_out


def owner_id(owner: Any) -> str:
    return str(getattr(owner, "application_id", "") or owner.node_id)


def test_why_an_ask_waits_is_said_of_the_nodes_looked_at(talk: Conversation) -> None:
    (manager,) = view.resource_managers(talk.scheduler.cluster, StateQuery(application_id="app-1", limit=2))
    (application,) = manager.partitions[0].applications
    assert [ask.waiting_for for ask in application.asks] == [
        "no node has room: 3 nodes are considered, 2 have too little memory (of 2 checked)"
    ]


@pytest.mark.parametrize(
    ("look", "applications", "nodes"),
    [
        (StateQuery(application_id="app-2"), ["app-2"], ["n0", "n1", "n2"]),
        (StateQuery(node_id="n1"), ["app", "app-0", "app-1", "app-2", "app-3"], ["n1"]),
        (StateQuery(application_id="nobody", node_id="nowhere"), [], []),
        (StateQuery(application_id="app-3", node_id="n2", limit=1), ["app-3"], ["n2"]),
    ],
)
def test_a_query_of_one_application_or_node(
    talk: Conversation, look: StateQuery, applications: list[str], nodes: list[str]
) -> None:
    (manager,) = view.resource_managers(talk.scheduler.cluster, look)
    (partition,) = manager.partitions
    assert [one.application_id for one in partition.applications] == applications
    assert [one.node_id for one in partition.nodes] == nodes


def test_a_query_of_one_resource_manager_or_partition(talk: Conversation) -> None:
    Conversation(talk.scheduler, "another").register()
    assert [one.rm_id for one in view.resource_managers(talk.scheduler.cluster, StateQuery(rm_id=RM))] == [RM]
    assert view.resource_managers(talk.scheduler.cluster, StateQuery(rm_id="nobody")) == []
    shown = view.resource_managers(talk.scheduler.cluster, StateQuery(partition="nowhere"))
    assert [(one.rm_id, one.partitions) for one in shown] == [("another", []), (RM, [])]


def things(value: Any) -> Iterator[Any]:
    """Every element of every list and mapping in a view."""
    if is_dataclass(value):
        for one in fields(value):
            yield from things(getattr(value, one.name))
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield one
            yield from things(one)


def test_ten_times_the_state_is_not_more_to_see() -> None:
    def seen(times: int) -> int:
        talk = a_conversation(*(a_node(f"n{number}", {"memory": 50}) for number in range(10 * times)))
        talk.apps(*(an_app(f"app-{number}", user=f"user-{number}") for number in range(10 * times)))
        for number in range(10 * times):
            talk.asks(an_ask("runs", count=5, app=f"app-{number}"), an_ask("waits", 60, app=f"app-{number}"))
        talk.schedule()
        return sum(1 for _ in things(view.resource_managers(talk.scheduler.cluster, StateQuery(limit=10))))

    assert seen(10) == seen(1)
