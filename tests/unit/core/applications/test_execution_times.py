"""Applications and allocations that may only run for so long (SEMANTICS E2, E3)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.applications.handlers.execution_times import EXECUTION_TIMEOUT
from schedulerd.core.language.commands import StopCause, TerminationType
from schedulerd.core.language.facts.fact import (
    ApplicationChanged,
    AskWithdrawn,
    Released,
    ReleaseRequested,
    WithdrawCause,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MILLISECOND_NS, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
    states,
)

S = ApplicationState
T = TerminationType
TIMES = Timeouts(starting_ns=500 * MILLISECOND_NS, completing_ns=400 * MILLISECOND_NS)
LIMIT_NS = 1_000 * MILLISECOND_NS


def a_talk(memory: int = 100, **fields: Any) -> Conversation:
    """A node, and an application `job` that may run for one second."""
    talk = a_conversation(a_node("n1", {"memory": memory}), timeouts=TIMES)
    talk.apps(an_app("job", execution_timeout_ms=1_000, **fields))
    return talk


def confirm(talk: Conversation, request: ReleaseRequested) -> Any:
    return talk.release(application_id=request.application_id, uuid=request.uuid, termination=request.termination)


# allocations


def test_an_allocation_is_released_when_its_time_is_over_and_frees_nothing_before_the_rm_confirms() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), timeouts=TIMES)
    talk.asks(an_ask("short", execution_timeout_ms=1_000), an_ask("long"))
    talk.schedule()
    assert of(ReleaseRequested, talk.sleep(LIMIT_NS - 1)) == []
    request = only(ReleaseRequested, talk.sleep(1))
    assert (request.allocation_key, request.termination) == ("short", T.TIMEOUT)
    assert "1000 ms" in request.message
    assert talk.node().allocated == {"memory": 20}
    released = only(Released, confirm(talk, request))
    assert (released.termination, released.confirm) == (T.TIMEOUT, False)
    assert talk.node().allocated == {"memory": 10}
    assert talk.app().state == S.RUNNING


def test_the_time_runs_from_the_placement_and_for_each_allocation_of_an_ask_on_its_own() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}), timeouts=TIMES)
    talk.asks(an_ask("k", count=2, execution_timeout_ms=1_000))
    talk.schedule()
    talk.sleep(300 * MILLISECOND_NS)
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.schedule()
    assert only(ReleaseRequested, talk.sleep(700 * MILLISECOND_NS)).node_id == "n1"
    assert only(ReleaseRequested, talk.sleep(300 * MILLISECOND_NS)).node_id == "n2"


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_zero_or_less_never_expires(timeout_ms: int) -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), timeouts=TIMES)
    talk.apps(an_app("job", execution_timeout_ms=timeout_ms))
    talk.asks(an_ask("k", app="job", execution_timeout_ms=timeout_ms), an_ask("l", app="job"))
    talk.schedule()
    assert talk.scheduler.next_deadline_ns() is None


@pytest.mark.parametrize("termination", [T.STOPPED_BY_RM, T.TIMEOUT])
def test_an_allocation_that_ends_before_has_no_alarm_left(termination: TerminationType) -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), timeouts=TIMES)
    talk.asks(an_ask("k", execution_timeout_ms=1_000), an_ask("l", count=2))
    talk.schedule()
    talk.release(allocation_key="k", termination=termination)
    assert of(ReleaseRequested, talk.sleep(2 * LIMIT_NS)) == []


def test_an_ended_allocation_is_asked_for_once_however_late_the_rm_confirms() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), timeouts=TIMES)
    talk.asks(an_ask("k", execution_timeout_ms=1_000))
    talk.schedule()
    request = only(ReleaseRequested, talk.sleep(LIMIT_NS))
    assert of(ReleaseRequested, talk.sleep(10 * LIMIT_NS)) == []
    assert states(confirm(talk, request)) == [S.COMPLETING]


def test_a_placeholder_that_is_being_replaced_is_not_released_for_its_time_as_well() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), timeouts=TIMES)
    talk.asks(an_ask("p", execution_timeout_ms=1_000, task_group="group", placeholder=True))
    talk.schedule()
    talk.asks(an_ask("r", execution_timeout_ms=3_000, task_group="group"))
    request = only(ReleaseRequested, talk.schedule())
    assert of(ReleaseRequested, talk.sleep(LIMIT_NS)) == []
    assert placed(confirm(talk, request)) == [("app", "r", "n1")]
    assert only(ReleaseRequested, talk.sleep(3 * LIMIT_NS)).allocation_key == "r"


def test_what_was_taken_over_with_its_node_has_no_execution_timeout() -> None:
    talk = a_conversation(timeouts=TIMES)
    talk.asks(an_ask("k", execution_timeout_ms=1_000))
    talk.nodes(a_node("n1", {"memory": 20}, an_existing("e1", "k")))
    assert of(ReleaseRequested, talk.sleep(2 * LIMIT_NS)) == []


# applications


def test_an_application_fails_when_its_time_is_over_and_everything_of_it_ends_with_timeout() -> None:
    talk = a_talk(memory=20)
    talk.asks(an_ask("k", app="job", count=3))
    talk.schedule()
    assert states(talk.sleep(LIMIT_NS - 1), "job") == []
    facts = talk.sleep(1)
    assert states(facts, "job") == [S.FAILING]
    said = of(ApplicationChanged, facts)[-1].cause
    assert (
        said == f"{EXECUTION_TIMEOUT}: application job reached its execution timeout of {LIMIT_NS // MILLISECOND_NS} ms"
    )
    withdrawn = only(AskWithdrawn, facts)
    assert (withdrawn.count, withdrawn.cause, withdrawn.termination) == (1, WithdrawCause.TIMEOUT, T.TIMEOUT)
    requests = of(ReleaseRequested, facts)
    assert [one.termination for one in requests] == [T.TIMEOUT] * 2
    assert talk.queue().allocated == {"memory": 20}
    assert states(confirm(talk, requests[0]), "job") == []
    assert states(confirm(talk, requests[1]), "job") == [S.FAILED]
    assert (talk.queue().allocated, talk.queue().pending) == ({}, {})


def test_the_state_says_when_the_time_is_over() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", app="job"), a_placeholder("p", app="job"), a_placeholder("large", 10_000, app="job"))
    assert (talk.app("job").execution_deadline_ns, talk.app("job").gang_deadline_ns) == (None, None)
    talk.schedule()
    assert talk.app("job").gang_deadline_ns == talk.now_ns + TIMES.placeholder_ns
    talk.release_asks(application_id="job", allocation_key="large")
    talk.schedule()
    assert talk.app("job").execution_deadline_ns == talk.now_ns + LIMIT_NS


def test_the_time_of_an_application_starts_with_its_first_allocation() -> None:
    talk = a_talk(memory=5)
    talk.asks(an_ask("k", app="job"))
    talk.schedule()
    talk.sleep(5 * LIMIT_NS)
    assert talk.app("job").state == S.ACCEPTED
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.schedule()
    assert states(talk.sleep(LIMIT_NS), "job") == [S.RUNNING, S.FAILING]


def test_an_application_that_ends_before_has_no_alarm_left() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", app="job"))
    talk.schedule()
    talk.release(application_id="job", allocation_key="k")
    assert states(talk.sleep(450 * MILLISECOND_NS), "job") == [S.COMPLETED]
    assert of(ReleaseRequested, talk.sleep(10 * LIMIT_NS)) == []


def test_one_that_only_waits_for_its_end_is_completed_when_its_time_is_over() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", app="job"))
    talk.schedule()
    talk.sleep(LIMIT_NS - 1)
    talk.release(application_id="job", allocation_key="k")
    assert states(talk.sleep(1), "job") == [S.COMPLETED]


def test_idle_time_counts_for_one_that_runs_again() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", app="job"))
    talk.schedule()
    talk.release(application_id="job", allocation_key="k")
    talk.sleep(300 * MILLISECOND_NS)
    talk.asks(an_ask("l", app="job"))
    talk.schedule()
    assert states(talk.sleep(700 * MILLISECOND_NS), "job") == [S.FAILING]


def test_one_that_runs_without_having_been_starting_has_its_time_too() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 500, app="job"))
    talk.release_asks(application_id="job")
    talk.sleep(300 * MILLISECOND_NS)
    assert states(talk.asks(an_ask("l", app="job")), "job") == [S.RUNNING]
    talk.schedule()
    assert states(talk.sleep(LIMIT_NS - 1), "job") == []
    assert states(talk.sleep(1), "job") == [S.FAILING]


def test_with_a_placeholder_ask_the_timeout_is_not_for_the_run() -> None:
    talk = a_talk(placeholder_ask=Resources(memory=10))
    talk.asks(an_ask("k", app="job"))
    talk.schedule()
    assert states(talk.sleep(10 * LIMIT_NS), "job") == [S.RUNNING]


def test_a_swap_in_flight_when_the_time_is_over_gives_the_ask_nothing() -> None:
    talk = a_talk()
    talk.asks(a_placeholder("p", count=2, app="job"), an_ask("r", app="job", task_group="other"))
    talk.schedule()
    talk.asks(an_ask("s", app="job", task_group="group"))
    swap = only(ReleaseRequested, talk.schedule())
    facts = talk.sleep(LIMIT_NS)
    assert {one.allocation_key for one in of(AskWithdrawn, facts)} == {"s"}
    assert len(of(ReleaseRequested, facts)) == 2
    assert placed(confirm(talk, swap)) == []
    for request in of(ReleaseRequested, facts):
        last = confirm(talk, request)
    assert states(last, "job") == [S.FAILED]


@pytest.mark.parametrize("end", ["removed", "stopped", "registered anew"])
def test_no_alarm_outlives_its_application(end: str) -> None:
    talk = a_talk()
    talk.asks(an_ask("k", app="job", execution_timeout_ms=5_000))
    talk.schedule()
    match end:
        case "removed":
            talk.remove("job")
        case "stopped":
            talk.stop(StopCause.UNREGISTERED)
        case _:
            talk.register()
            talk.connect()
    assert of(ReleaseRequested, talk.sleep(10 * LIMIT_NS)) == []
