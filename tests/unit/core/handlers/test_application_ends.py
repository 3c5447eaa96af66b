"""How applications end: Starting, Completing and its clean-up, what is remembered, and ids that are free again
(gang design, Application completion; SEMANTICS G4, G6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedulerd.core.commands import NewApplication, TerminationType
from schedulerd.core.facts import (
    ApplicationAccepted,
    ApplicationForgotten,
    ApplicationRejected,
    Released,
    ReleaseIgnored,
    ReleaseRequested,
)
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.specs import MINUTE_NS, SECOND_NS, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    an_app,
    an_ask,
    of,
    only,
    placed,
    states,
)
from tests.unit.core.gangs import (
    a_full_gang,
    a_gang,
    a_held_place,
    a_swap,
    asked_to_release,
    confirm,
    real,
)
from tests.unit.core.heard import allocated, released, updated

S = ApplicationState
T = TerminationType
TIMES = Timeouts()


def a_completing_gang() -> Conversation:
    """Three placeholders, of which one was replaced; the real allocation has ended since."""
    talk = a_full_gang(3, memory=30)
    confirm(talk, a_swap(talk))
    assert states(talk.release(application_id="gang", allocation_key="r"), "gang") == [S.COMPLETING]
    return talk


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


# Going on without a gang


def resumed() -> Conversation:
    """A soft gang whose time is over and whose placeholder is gone; no real ask came yet."""
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(a_gang(gang_style="Soft"))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    request = only(ReleaseRequested, talk.sleep(TIMES.placeholder_ns))
    assert states(confirm(talk, request), "gang") == [S.ACCEPTED]
    return talk


def test_a_soft_gang_without_placeholders_has_a_while_for_its_real_asks_before_it_completes() -> None:
    talk = resumed()
    assert states(talk.sleep(TIMES.completing_ns - 1), "gang") == []
    assert states(talk.sleep(1), "gang") == [S.COMPLETING]
    assert states(talk.sleep(TIMES.completing_ns), "gang") == [S.COMPLETED]


@pytest.mark.parametrize(("memory", "after"), [(10, [S.STARTING, S.RUNNING]), (500, [])], ids=["placed", "pending"])
def test_real_asks_that_come_in_that_while_keep_it_going(memory: int, after: list[ApplicationState]) -> None:
    talk = resumed()
    talk.sleep(TIMES.completing_ns - 1)
    talk.asks(real(memory=memory))
    facts = talk.schedule() + talk.sleep(10 * TIMES.starting_ns)
    assert states(facts, "gang") == after
    facts = talk.release_asks(application_id="gang") + talk.release(application_id="gang")
    assert states(facts, "gang") == [S.COMPLETING]


# Completing


def test_pending_placeholders_are_activity() -> None:
    """Placeholder asks are considered pending resource asks; placeholders are not considered active allocations."""
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(a_gang(memory=50))
    talk.asks(real(task_group=""))
    talk.schedule()
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    assert states(talk.release(application_id="gang", allocation_key="r"), "gang") == []
    assert states(talk.schedule(), "gang") == []
    assert talk.app("gang").state == S.STARTING


def test_a_swap_moves_no_application_into_completing_on_its_way() -> None:
    talk = a_full_gang(1)
    assert states(confirm(talk, a_swap(talk)), "gang") == [S.RUNNING]
    later = a_full_gang(2)
    confirm(later, a_swap(later))
    request = a_swap(later, real("s"))
    assert states(later.release(application_id="gang", allocation_key="r"), "gang") == []
    assert states(confirm(later, request), "gang") == [S.RUNNING]


def test_a_parked_ask_that_is_taken_back_as_the_last_completes_its_application() -> None:
    talk = a_full_gang(2)
    confirm(talk, a_swap(talk))
    request = a_swap(talk, real("s"))
    talk.release(application_id="gang", allocation_key="r")
    facts = talk.release_asks(application_id="gang", allocation_key="s")
    assert states(facts + confirm(talk, request), "gang") == [S.COMPLETING]


def test_new_asks_bring_it_back_to_running_and_take_the_placeholders_it_still_has() -> None:
    talk = a_completing_gang()
    talk.sleep(TIMES.completing_ns - 1)
    assert states(talk.asks(real("s", count=2)), "gang") == [S.RUNNING]
    facts = talk.schedule()
    assert asked_to_release(facts) == [("p", "PLACEHOLDER_REPLACED")] * 2
    assert of(ReleaseRequested, talk.sleep(TIMES.completing_ns)) == []
    for request in of(ReleaseRequested, facts):
        assert allocated(confirm(talk, request)) == [("s", "n1", False)]
    assert talk.app("gang").state == S.RUNNING
    assert talk.node().allocated == {"memory": 20}


def test_it_is_clean_before_it_is_completed() -> None:
    talk = a_completing_gang()
    facts = talk.sleep(TIMES.completing_ns)
    assert released(facts) == [("p", "TIMEOUT")] * 2
    assert (updated(facts), talk.node().allocated) == ([], {"memory": 20})
    first, second = of(ReleaseRequested, facts)
    talk.now_ns += 1
    assert states(confirm(talk, first), "gang") == []
    talk.now_ns += 1
    facts = confirm(talk, second)
    assert updated(facts) == [("gang", "Completed", talk.now_ns, "completeApplication")]
    assert released(facts) == []
    assert (talk.node().allocated, talk.queue().applications) == ({}, ["app"])
    [group] = talk.view().terminated[-1].task_groups
    assert (group.placed, group.replaced, group.idle) == (3, 1, 0)


def test_asks_that_come_while_leftovers_go_are_placed_and_the_leftovers_go_all_the_same() -> None:
    talk = a_completing_gang()
    first, second = of(ReleaseRequested, talk.sleep(TIMES.completing_ns))
    assert states(talk.asks(real("s")), "gang") == [S.RUNNING]
    assert placed(talk.schedule()) == [("gang", "s", "n1")]
    assert states(confirm(talk, first) + confirm(talk, second), "gang") == []
    assert talk.node().allocated == {"memory": 10}
    assert states(talk.release(application_id="gang", allocation_key="s"), "gang") == [S.COMPLETING]
    assert states(talk.sleep(TIMES.completing_ns), "gang") == [S.COMPLETED]


def test_leftovers_that_the_rm_stops_itself_change_no_time() -> None:
    talk = a_completing_gang()
    facts = talk.release(application_id="gang")
    assert released(facts) == [("p", "STOPPED_BY_RM")] * 2
    assert states(facts + talk.sleep(TIMES.completing_ns - 1), "gang") == []
    assert states(talk.sleep(1), "gang") == [S.COMPLETED]


@pytest.mark.parametrize("before", [True, False], ids=["before the clean-up", "after it"])
def test_the_gang_timer_of_a_completing_application_takes_its_placeholders_and_nothing_else(before: bool) -> None:
    timeouts = Timeouts(placeholder_ns=MINUTE_NS, completing_ns=(2 * MINUTE_NS if before else SECOND_NS))
    talk = a_full_gang(2, timeouts=timeouts)
    confirm(talk, a_swap(talk))
    talk.release(application_id="gang", allocation_key="r")
    facts = talk.sleep(MINUTE_NS)
    assert (states(facts, "gang"), asked_to_release(facts)) == ([], [("p", "TIMEOUT")])
    facts = confirm(talk, only(ReleaseRequested, facts))
    facts += talk.sleep(MINUTE_NS)
    assert states(facts, "gang") == [S.COMPLETED]


def test_without_confirmation_it_waits_and_can_be_removed() -> None:
    talk = a_completing_gang()
    requests = of(ReleaseRequested, talk.sleep(TIMES.completing_ns))
    assert states(talk.sleep(100 * TIMES.completing_ns), "gang") == []
    assert len(of(Released, talk.remove("gang"))) == 2
    assert talk.node().allocated == {}
    assert [only(ReleaseIgnored, confirm(talk, one)).uuid for one in requests] == [one.uuid for one in requests]


def test_a_placeholder_reported_while_the_leftovers_go_goes_too() -> None:
    talk = a_completing_gang()
    leftovers = of(ReleaseRequested, talk.sleep(TIMES.completing_ns))
    facts = talk.nodes(a_node("n2", {"memory": 30}, a_held_place()))
    request = only(ReleaseRequested, facts)
    assert (request.uuid, request.termination) == ("e1", T.TIMEOUT)
    for one in leftovers:
        assert states(confirm(talk, one), "gang") == []
    assert states(confirm(talk, request), "gang") == [S.COMPLETED]


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
