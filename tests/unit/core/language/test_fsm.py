"""Every cell of every life cycle table, legal and illegal, and the error of an illegal move."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from schedulerd.core.language.fsm import IllegalMove, is_legal, move
from schedulerd.core.language.lifecycles import (
    APPLICATION,
    NODE,
    RESOURCE_MANAGER,
    ApplicationState,
    ApplicationTrigger,
    NodeState,
    NodeTrigger,
    ResourceManagerState,
    ResourceManagerTrigger,
)
from tests.loops import each_row
from tests.unit.core.application_table import TABLE
from tests.unit.core.life_tables import NODE_TABLE, RESOURCE_MANAGER_TABLE

Table = Mapping[Any, Mapping[Any, Any]]
Expected = Mapping[tuple[Any, Any], Any]

LIVES: tuple[tuple[Table, Expected, type[StrEnum], type[StrEnum]], ...] = (
    (APPLICATION, TABLE, ApplicationState, ApplicationTrigger),
    (NODE, NODE_TABLE, NodeState, NodeTrigger),
    (RESOURCE_MANAGER, RESOURCE_MANAGER_TABLE, ResourceManagerState, ResourceManagerTrigger),
)
LEGAL = [(table, *cell, state) for table, expected, _, _ in LIVES for cell, state in expected.items()]
ILLEGAL = [
    (table, expected, *cell)
    for table, expected, states, triggers in LIVES
    for cell in product(states, triggers)
    if cell not in expected
]


@each_row(("table", "state", "trigger", "to"), LEGAL, ids=lambda one: str(one)[:20])
def test_legal_move(table: Table, state: StrEnum, trigger: StrEnum, to: StrEnum) -> None:
    assert is_legal(table, state, trigger)
    assert move(table, state, trigger) is to


@each_row(("table", "expected", "state", "trigger"), ILLEGAL, ids=lambda one: str(one)[:20])
def test_illegal_move(table: Table, expected: Expected, state: StrEnum, trigger: StrEnum) -> None:
    assert not is_legal(table, state, trigger)
    with pytest.raises(IllegalMove) as caught:
        move(table, state, trigger)
    assert f"{trigger} in state {state}" in str(caught.value)
    assert all(legal in str(caught.value) for at, legal in expected if at is state)


@pytest.mark.parametrize(
    ("table", "states"), [(table, states) for table, _, states, _ in LIVES], ids=["app", "node", "rm"]
)
def test_every_state_has_a_row(table: Table, states: type[StrEnum]) -> None:
    assert set(table) == set(states)


def test_the_error_says_so_where_nothing_is_legal() -> None:
    with pytest.raises(IllegalMove, match="legal there: nothing"):
        move(APPLICATION, ApplicationState.EXPIRED, ApplicationTrigger.RUN)
