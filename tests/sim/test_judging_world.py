"""A few seeds of the worlds whose resource managers have a say; together they reach every situation."""

from __future__ import annotations

import pytest

from schedulerd.core.predicates.handlers import predicate_results
from schedulerd.core.state.actions import predicate_checks
from schedulerd.core.state.ledger import commit_room
from tests.loops import each_seed
from tests.sim.judging_world import (
    EXPECTED,
    JudgingContestedWorld,
    JudgingGangWorld,
    JudgingWorld,
)
from tests.sim.outcomes import Outcomes

WORLDS = (JudgingWorld, JudgingGangWorld, JudgingContestedWorld)
OUTCOMES = Outcomes(WORLDS, 400, (*range(1, 7), 8, 20))


@each_seed(OUTCOMES.seeds[:2], few=0, nightly=OUTCOMES.seeds[2:])
def test_nothing_goes_wrong(seed: int) -> None:
    assert OUTCOMES.problems(seed) == []


@pytest.mark.nightly
def test_every_situation_was_reached() -> None:
    assert OUTCOMES.never_seen(EXPECTED) == []


def _nothing(*_: object, **__: object) -> None:
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        pytest.param(commit_room, "note_check_room_free", _nothing, id="room that was held wakes nobody"),
        pytest.param(
            predicate_checks, "update_predicate_wait", _nothing, id="an ask on predicate check stays in its line"
        ),
        pytest.param(predicate_checks, "review", _nothing, id="results for asks that are gone are waited for"),
        pytest.param(predicate_results, "_may_be_placed", lambda _: True, id="a result is not judged again"),
        pytest.param(predicate_checks, "on_retry_due", _nothing, id="nobody is called back after a while"),
        pytest.param(predicate_checks, "forget_all", _nothing, id="a stream that is gone is waited for"),
        pytest.param(predicate_checks, "finish", _nothing, id="a call is never over"),
    ],
)
@pytest.mark.nightly
def test_broken_code_is_found(owner: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert OUTCOMES.is_found_now()
