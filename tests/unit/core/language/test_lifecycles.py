"""What the application's table as a whole has to be, whatever its cells say."""

from __future__ import annotations

from schedulerd.core.language.lifecycles import (
    APPLICATION,
    GANG,
    TERMINAL_STATES,
    ApplicationState,
    ApplicationTrigger,
    GangState,
    GangTrigger,
)
from schedulerd.core.state.actions.application_states import TIMED_STATES

S = ApplicationState
T = ApplicationTrigger


def test_every_state_has_a_row() -> None:
    assert set(APPLICATION) == set(ApplicationState)


def test_every_state_can_be_reached_from_new() -> None:
    reached: set[ApplicationState] = set()
    ahead = [S.NEW]
    while ahead:
        state = ahead.pop()
        if state not in reached:
            reached.add(state)
            ahead.extend(APPLICATION[state].values())
    assert reached == set(ApplicationState)


def test_a_terminal_state_only_leads_to_another_terminal_one() -> None:
    for state in TERMINAL_STATES:
        assert set(APPLICATION[state].values()) <= TERMINAL_STATES


def test_every_terminal_state_but_the_last_ends_by_itself() -> None:
    assert {state for state in TERMINAL_STATES if APPLICATION[state]} == TERMINAL_STATES - {S.EXPIRED}
    assert all(TIMED_STATES[state] == ("retention_ns", T.EXPIRE) for state in TERMINAL_STATES - {S.EXPIRED, S.REJECTED})


def test_what_a_timer_does_is_legal_in_its_state() -> None:
    assert all(trigger in APPLICATION[state] for state, (_, trigger) in TIMED_STATES.items())


def test_failing_cannot_start_from_completing_or_resuming() -> None:
    assert T.FAIL not in APPLICATION[S.COMPLETING]
    assert T.FAIL not in APPLICATION[S.RESUMING]


def test_a_completing_application_can_run_again() -> None:
    assert APPLICATION[S.COMPLETING][T.RUN] is S.RUNNING


def test_states_are_spelled_as_on_the_wire() -> None:
    assert [state.value for state in S] == [
        "New",
        "Accepted",
        "Starting",
        "Running",
        "Completing",
        "Completed",
        "Failing",
        "Failed",
        "Rejected",
        "Resuming",
        "Expired",
    ]


def test_every_state_of_a_gang_has_a_row_and_can_be_reached() -> None:
    assert set(GANG) == set(GangState)
    reached: set[GangState] = set()
    ahead = [GangState.FORMING]
    while ahead:
        state = ahead.pop()
        if state not in reached:
            reached.add(state)
            ahead.extend(GANG[state].values())
    assert reached == set(GangState)
    assert {trigger for row in GANG.values() for trigger in row} == set(GangTrigger)
