"""Every cell of the application's table, legal and illegal, and the error of an illegal move."""

from __future__ import annotations

from itertools import product

import pytest

from schedulerd.core.fsm import IllegalMove, is_legal, move
from schedulerd.core.lifecycles import APPLICATION, ApplicationState, ApplicationTrigger
from tests.unit.core.application_table import TABLE

ILLEGAL = [cell for cell in product(ApplicationState, ApplicationTrigger) if cell not in TABLE]


@pytest.mark.parametrize(("state", "trigger"), TABLE)
def test_legal_move(state: ApplicationState, trigger: ApplicationTrigger) -> None:
    assert is_legal(APPLICATION, state, trigger)
    assert move(APPLICATION, state, trigger) is TABLE[state, trigger]


@pytest.mark.parametrize(("state", "trigger"), ILLEGAL)
def test_illegal_move(state: ApplicationState, trigger: ApplicationTrigger) -> None:
    assert not is_legal(APPLICATION, state, trigger)
    with pytest.raises(IllegalMove) as caught:
        move(APPLICATION, state, trigger)
    assert f"{trigger} in state {state}" in str(caught.value)
    assert all(legal in str(caught.value) for at, legal in TABLE if at is state)


def test_the_error_says_so_where_nothing_is_legal() -> None:
    with pytest.raises(IllegalMove, match="legal there: nothing"):
        move(APPLICATION, ApplicationState.EXPIRED, ApplicationTrigger.RUN)
