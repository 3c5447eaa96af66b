"""What is known of constraints is broken by hand, and the invariants say where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedulerd.core.invariants.all import violations
from schedulerd.core.state.constraints import constraints
from schedulerd.core.state.constraints.constraints import Constraints
from tests.unit.core.builders import Conversation, a_conversation, a_node, an_ask
from tests.unit.core.constraint_builders import IS_WEB, WEB, on, one_of, together


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Conversation:
    """Two zones with a node each, one ask for each kind of constraint, and a wish that cannot be fulfilled.

    Whatever is searched for is searched for in a pool.
    """
    monkeypatch.setattr(constraints, "FEW_NODES", 0)
    monkeypatch.setattr(constraints, "WALKED_PART", 1_000)
    talk = a_conversation(*(a_node(f"n{zone}", {"memory": 100}, attributes={"zone": zone}) for zone in ("a", "b")))
    wish = together("zone", one_of("app", "db"), least=1, required=False)
    talk.asks(an_ask("w", tags=WEB, constraint=together("zone", IS_WEB, most=1)))
    talk.asks(an_ask("a", constraint=on(one_of("zone", "a", "b"))), an_ask("wish", constraint=wish))
    talk.schedule()
    assert talk.model().constraints.no_preferred_node
    return talk


def stale_pool(known: Constraints) -> None:
    for pool in known.pools.by_key.values():
        pool.members.clear()


def out_of_order(known: Constraints) -> None:
    for pool in known.pools.by_key.values():
        first = next(iter(pool.order))
        first.score += 1
        pool.note(first)


def deaf_pool(known: Constraints) -> None:
    known.pools.of_node.clear()


def wrong_group(known: Constraints) -> None:
    for scope in known.scopes.values():
        for node in scope.group_of:
            scope.group_of[node] = "elsewhere"


def empty_group(known: Constraints) -> None:
    for scope in known.scopes.values():
        scope.groups["nowhere"] = {}


def miscounted(known: Constraints) -> None:
    for affinity in known.affinities.values():
        affinity.counts["b"] = 7


def wrongly_closed(known: Constraints) -> None:
    for affinity in known.affinities.values():
        affinity.odd["b"] = None


def unheard_of(known: Constraints) -> None:
    for affinity in known.affinities.values():
        known.tagged.forget(affinity)


def forgotten_tag(known: Constraints) -> None:
    for allocations in known.tagged.allocations("app").values():
        assert isinstance(allocations, dict)
        allocations.clear()


def given_up(known: Constraints) -> None:
    (request_class,) = known.no_preferred_node
    wish = known.affinity(request_class)
    assert wish is not None
    wish.change("b", 1)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (stale_pool, "are not the members of its pool"),
        (deaf_pool, "that update the pool"),
        (out_of_order, "are not in node order"),
        (wrong_group, "are not what their attributes say"),
        (empty_group, "a group of nodes by zone is empty"),
        (miscounted, "counted {"),
        (wrongly_closed, "that differ are"),
        (unheard_of, "match it"),
        (forgotten_tag, "the allocations indexed by tag app are not those that have it"),
        (given_up, "prefers node nb, which has room, and is not retried for it"),
    ],
)
def test_what_is_wrong_is_named(talk: Conversation, spoil: Callable[[Constraints], None], said: str) -> None:
    assert violations(talk.scheduler) == []
    spoil(talk.model().constraints)
    found = violations(talk.scheduler)
    assert any(said in sentence for sentence in found), found
