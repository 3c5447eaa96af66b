"""How long an application starts, how it is remembered when it has ended, and its id free again (SEMANTICS G6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core.language.commands import NewApplication, TerminationType
from schedulerd.core.language.facts.fact import (
    ApplicationAccepted,
    ApplicationForgotten,
    ApplicationRejected,
    ReleaseIgnored,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import SECOND_NS, LimitSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
    states,
)
from tests.unit.core.gang_builders import (
    a_full_gang,
    a_gang,
    asked_to_release,
    confirm,
    real,
)
from tests.unit.core.heard import updated

S = ApplicationState
T = TerminationType
TIMES = Timeouts()


# Starting


def test_starting_ends_when_a_second_allocation_comes_and_its_alarm_with_it() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(an_ask("k"))
    talk.schedule()
    talk.sleep(TIMES.starting_ns - 1)
    talk.asks(an_ask("l"))
    assert states(talk.schedule()) == [S.RUNNING]
    assert talk.scheduler.next_deadline_ns() is None


def test_one_that_was_completing_in_between_is_not_starting_again() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(an_ask("k"))
    talk.schedule()
    talk.release()
    assert states(talk.asks(an_ask("l"))) == [S.RUNNING]
    assert states(talk.schedule() + talk.sleep(2 * TIMES.starting_ns)) == []


@pytest.mark.parametrize(
    "limits", [{"max_applications": 1}, {"limits": (LimitSpec(("*",), max_applications=1),)}], ids=["queue", "user"]
)
def test_one_that_was_completing_in_between_needs_no_free_place_but_takes_one(limits: dict[str, Any]) -> None:
    """Only who starts waits for a place, and there are more than may run until two have ended."""
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a", **limits)))
    talk.apps(an_app("second"), an_app("third"))
    talk.asks(an_ask("k"))
    talk.schedule()
    talk.release()
    talk.asks(an_ask("k", app="second"))
    assert placed(talk.schedule()) == [("second", "k", "n1")]
    talk.asks(an_ask("again"), an_ask("k", app="third"))
    assert placed(talk.schedule()) == [("app", "again", "n1")]
    assert talk.queue().running_applications == 2
    talk.release(application_id="second")
    assert placed(talk.schedule()) == []
    talk.release()
    assert placed(talk.schedule()) == [("third", "k", "n1")]


def test_a_whole_gang_starts_and_counts_as_running_after_a_while_without_any_swap() -> None:
    talk = a_full_gang()
    assert talk.app("gang").state == S.STARTING
    assert states(talk.sleep(TIMES.starting_ns), "gang") == [S.RUNNING]
    assert len(talk.app("gang").allocations) == 2


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_an_application_that_is_not_for_state_aware_leaves_is_starting_for_no_time(value: str) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.apps(an_app("job", tags={"application.stateaware.disable": value}))
    talk.asks(an_ask("k", app="job"))
    assert states(talk.schedule(), "job") == [S.STARTING]
    assert states(talk.sleep(0), "job") == [S.RUNNING]


# What is remembered, and ids that are free again


def completed(talk: Conversation) -> None:
    talk.apps(an_app("job"))
    talk.asks(an_ask("k", app="job"))
    talk.schedule()
    talk.release(application_id="job")
    talk.sleep(TIMES.completing_ns)


def failed(talk: Conversation) -> None:
    talk.apps(a_gang("job", 30, gang_style="Hard", execution_timeout_ms=1_000))
    talk.asks(a_placeholder("k", count=2, app="job"))
    talk.schedule()
    talk.sleep(SECOND_NS)
    talk.release(application_id="job", termination=T.TIMEOUT)


def rejected(talk: Conversation) -> None:
    talk.apps(an_app("job", "root.nowhere"))


ENDS: list[Callable[[Conversation], None]] = [completed, failed, rejected]


@pytest.mark.parametrize("end", ENDS)
def test_it_is_remembered_for_its_time_then_expired_and_forgotten(end: Callable[[Conversation], None]) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    end(talk)
    [remembered] = talk.view().terminated
    assert remembered.state.lower() == end.__name__
    assert talk.sleep(TIMES.retention_ns - 1) == []
    facts = talk.sleep(1)
    assert updated(facts) == [("job", "Expired", talk.now_ns, "expireApplication")]
    assert only(ApplicationForgotten, facts).state is S.EXPIRED
    assert (talk.view().terminated, talk.scheduler.next_deadline_ns()) == ([], None)


@pytest.mark.parametrize("end", ENDS)
def test_its_id_is_free_and_the_next_of_that_id_outlives_its_memory(end: Callable[[Conversation], None]) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    end(talk)
    assert only(ApplicationAccepted, talk.apps(an_app("job"))).application_id == "job"
    talk.asks(an_ask("k", app="job", count=2))
    assert states(talk.schedule(), "job") == [S.STARTING, S.RUNNING]
    assert states(talk.sleep(TIMES.retention_ns), "job") == [S.EXPIRED], "the one before"
    assert (talk.app("job").state, len(talk.app("job").allocations)) == (S.RUNNING, 2)
    assert talk.view().terminated == []


@pytest.mark.parametrize("state", [S.NEW, S.ACCEPTED, S.STARTING, S.COMPLETING, S.FAILING, S.RESUMING])
def test_an_id_is_not_free_before(state: ApplicationState) -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    submitted = an_app("job")
    if state in (S.FAILING, S.RESUMING):
        submitted = a_gang("job", 30, gang_style="Hard" if state is S.FAILING else "Soft")
    talk.apps(submitted)
    _bring_to(talk, submitted, state)
    assert talk.app("job").state == state
    refused = only(ApplicationRejected, talk.apps(an_app("job")))
    assert f"in use by an application in state {state}" in refused.reason
    assert talk.app("job").state == state
    assert talk.view().terminated == []


def _bring_to(talk: Conversation, submitted: NewApplication, state: ApplicationState) -> None:
    if submitted.gang_style:
        talk.asks(a_placeholder("p", count=3, app="job"))
        talk.schedule()
        talk.sleep(TIMES.placeholder_ns)
    elif state is not S.NEW:
        talk.asks(an_ask("k", app="job"))
        if state is not S.ACCEPTED:
            talk.schedule()
        if state is S.COMPLETING:
            talk.release(application_id="job")


def two_of_one_id(end: str) -> tuple[Conversation, list[ReleaseRequested]]:
    """A gang whose releases were asked for is gone, and a new one of the same id and keys has its placeholders."""
    talk = a_full_gang(2, gang_style="Hard")
    talk.asks(real())
    requests = of(ReleaseRequested, talk.schedule())
    requests += of(ReleaseRequested, talk.sleep(TIMES.placeholder_ns))
    assert asked_to_release(requests) == [("p", "PLACEHOLDER_REPLACED"), ("p", "TIMEOUT")]
    if end == "removed":
        talk.remove("gang")
    else:
        for request in requests:
            confirm(talk, request)
        talk.release(application_id="gang")
        talk.sleep(TIMES.completing_ns)
    talk.apps(a_gang())
    talk.asks(a_placeholder("p", count=2, app="gang"))
    assert len(placed(talk.schedule())) == 2
    return talk, requests


@pytest.mark.parametrize("end", ["removed", "completed"])
def test_a_late_confirmation_does_not_touch_the_next_application_of_that_id(end: str) -> None:
    talk, requests = two_of_one_id(end)
    for request in requests:
        for termination in (request.termination, T.STOPPED_BY_RM):
            facts = confirm(talk, request, termination=termination)
            assert only(ReleaseIgnored, facts).uuid == request.uuid
            assert len(facts) == 1
    assert (talk.app("gang").state, talk.node().allocated) == (S.STARTING, {"memory": 20})


@pytest.mark.parametrize("key", ["p", ""], ids=["of the key", "of the whole application"])
def test_a_late_confirmation_of_a_swap_without_uuid_takes_nothing_of_the_next_application(key: str) -> None:
    talk, requests = two_of_one_id("removed")
    facts = confirm(talk, requests[0], uuid="", allocation_key=key)
    assert len(of(ReleaseIgnored, facts)) == len(facts) == 2
    assert talk.node().allocated == {"memory": 20}
