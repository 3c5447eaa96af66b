"""Applications: added, rejected, moved through their states, removed (SI `ApplicationRequest`; SEMANTICS A, E, G6)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.applications.rules.queue_placement import FORCE_CREATE_TAG
from schedulerd.core.language import checks
from schedulerd.core.language.commands import ApplicationRemoval, TerminationType, UpdateApplications
from schedulerd.core.language.facts.fact import (
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationForgotten,
    ApplicationRejected,
    AskWithdrawn,
    ItemIgnored,
    RejectCode,
    Released,
    WithdrawCause,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import Acl, Timeouts
from schedulerd.core.state.actions import application_states
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    an_app,
    an_ask,
    of,
    only,
    states,
)

S = ApplicationState
TIMES = Timeouts()
ROOM = {"memory": 100}


@pytest.fixture
def talk() -> Conversation:
    return a_conversation(a_node("n1", ROOM))


def runs(talk: Conversation, count: int = 1) -> None:
    """The application runs with so many allocations, all of key k."""
    talk.asks(an_ask("k", count=count))
    talk.schedule()


# Adding


def test_an_accepted_application_is_new(talk: Conversation) -> None:
    facts = talk.apps(an_app("next", "a"))
    accepted, changed = only(ApplicationAccepted, facts), only(ApplicationChanged, facts)
    assert (accepted.application_id, accepted.queue, accepted.partition) == ("next", "root.a", "default")
    assert (changed.old_state, changed.state, changed.at_ns) == (None, S.NEW, talk.now_ns)


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"application_id": ""}, RejectCode.EMPTY_ID, "applicationID is empty"),
        ({"application_id": "x" * 2_000}, RejectCode.INVALID_FIELD, "(2000 characters)"),
        ({"application_id": "app"}, RejectCode.DUPLICATE_ID, "applicationID 'app' is in use by an application in"),
        ({"partition": "gpuu"}, RejectCode.UNKNOWN_PARTITION, "partitionName 'gpuu'"),
        ({"user": ""}, RejectCode.EMPTY_ID, "ugi.user is empty"),
        ({"queue": ""}, RejectCode.NOT_PLACED, "no queue is named; set one, such as root.a"),
        ({"queue": "root.nowhere"}, RejectCode.NOT_PLACED, "queue root.nowhere does not exist; leaf queues are root.a"),
        ({"queue": "root"}, RejectCode.NOT_PLACED, "queueName 'root': no placement rule takes"),
        (
            {"placeholder_ask": Resources(memory=-1)},
            RejectCode.INVALID_RESOURCES,
            "placeholderAsk['memory'] is -1; it must be 0 or more",
        ),
    ],
)
def test_a_rejection_names_field_and_value(
    talk: Conversation, fields: dict[str, Any], code: RejectCode, said: str
) -> None:
    named = {"application_id": "next", "queue": "root.a", **fields}
    facts = talk.apps(an_app(named.pop("application_id"), named.pop("queue"), **named), an_app("after"))
    rejected = only(ApplicationRejected, facts)
    assert rejected.code is code
    assert said in rejected.reason
    assert only(ApplicationAccepted, facts).application_id == "after", "the rest of the message is handled"


def test_a_user_without_the_right_to_submit_is_told_so() -> None:
    root = a_queue_spec("root", a_queue_spec("a", submit_acl=Acl(users=frozenset({"ann"}))))
    talk = a_conversation(root=root)
    rejected = only(ApplicationRejected, talk.apps(an_app("next", user="bob", groups=("dev",))))
    assert rejected.code is RejectCode.ACCESS_DENIED
    assert "user 'bob' with groups ['dev'] may not submit to root.a" in rejected.reason
    assert of(ApplicationAccepted, talk.apps(an_app("next", user="ann")))


def test_a_rejected_application_is_remembered_and_its_id_is_free(talk: Conversation) -> None:
    facts = talk.apps(an_app("next", "root.nowhere"))
    assert states(facts, "next") == [S.REJECTED]
    assert only(ApplicationChanged, facts).old_state is None
    [remembered] = talk.view().terminated
    assert "does not exist" in remembered.state_log[-1][2]
    assert of(ApplicationAccepted, talk.apps(an_app("next")))
    facts = talk.sleep(TIMES.retention_ns)
    assert states(facts, "next") == [S.EXPIRED]
    assert only(ApplicationForgotten, facts).state is S.EXPIRED
    assert talk.view().terminated == []


def test_only_so_many_terminated_applications_are_remembered(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_states, "REMEMBERED_MAX", 3)
    for number in range(5):
        talk.apps(an_app(f"bad-{number}", "root.nowhere"))
    assert [one.application_id for one in talk.view().terminated] == ["bad-2", "bad-3", "bad-4"]
    talk.sleep(TIMES.retention_ns)
    assert talk.scheduler.next_deadline_ns() is None


def test_an_application_that_has_to_be_taken_goes_to_the_recovery_queue(talk: Conversation) -> None:
    forced = {"tags": {FORCE_CREATE_TAG: "true"}}
    assert only(ApplicationAccepted, talk.apps(an_app("one", "root.nowhere", **forced))).queue == "root.@recovery@"
    assert only(ApplicationAccepted, talk.apps(an_app("two", "", **forced))).queue == "root.@recovery@"
    assert only(ApplicationAccepted, talk.apps(an_app("three", "root.a", **forced))).queue == "root.a"
    assert only(ApplicationRejected, talk.apps(an_app("four", "root.@recovery@"))).code is RejectCode.NOT_PLACED
    assert not talk.queue("root.@recovery@").managed


# States


def test_asks_and_allocations_move_it(talk: Conversation) -> None:
    assert states(talk.asks(an_ask("k1"), an_ask("k2"), an_ask("k3"))) == [S.ACCEPTED]
    assert states(talk.cycle(1)) == [S.STARTING]
    assert states(talk.cycle(1)) == [S.RUNNING]
    assert states(talk.cycle(1)) == []


def test_one_that_started_counts_as_running_after_a_while(talk: Conversation) -> None:
    runs(talk)
    assert states(talk.sleep(TIMES.starting_ns - 1)) == []
    assert states(talk.sleep(1)) == [S.RUNNING]
    assert talk.scheduler.next_deadline_ns() is None


@pytest.mark.parametrize("count", [1, 2], ids=["starting", "running"])
def test_without_asks_and_allocations_it_completes(talk: Conversation, count: int) -> None:
    runs(talk, count)
    assert states(talk.release()) == [S.COMPLETING]
    assert talk.scheduler.next_deadline_ns() == talk.now_ns + TIMES.completing_ns
    assert states(talk.sleep(TIMES.completing_ns)) == [S.COMPLETED]
    assert "app" not in talk.queue().applications
    [remembered] = talk.view().terminated
    assert [state for _, state, _ in remembered.state_log][-2:] == [S.COMPLETING, S.COMPLETED]
    assert of(ApplicationAccepted, talk.apps(an_app())), "its id is free"


def test_with_asks_or_allocations_it_goes_on(talk: Conversation) -> None:
    runs(talk)
    talk.asks(an_ask("more", memory=500))
    talk.schedule()
    assert states(talk.release(allocation_key="k")) == []
    assert states(talk.release_asks(allocation_key="more")) == [S.COMPLETING]


def test_one_that_had_only_asks_completes_too(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=500))
    assert states(talk.release_asks()) == [S.COMPLETING]


def test_a_new_ask_resumes_a_completing_one_and_no_late_alarm_ends_it(talk: Conversation) -> None:
    runs(talk)
    talk.release()
    talk.sleep(TIMES.completing_ns - 1)
    assert states(talk.asks(an_ask("again"))) == [S.RUNNING]
    assert states(talk.sleep(10 * TIMES.completing_ns)) == []
    assert len(talk.schedule()) > 0


def test_a_state_is_left_with_its_alarm(talk: Conversation) -> None:
    """A hundred jobs one after the other leave no timer behind."""
    for number in range(100):
        talk.asks(an_ask(f"k{number}"))
        talk.schedule()
        talk.release()
    assert len(talk.scheduler.cluster.alarms.live()) == 1
    assert len(talk.app().state_log) <= 100


# Removing


def test_removal_takes_the_asks_back_and_confirms_every_allocation(talk: Conversation) -> None:
    runs(talk, 2)
    talk.asks(an_ask("waits", memory=500))
    facts = talk.remove("app")
    withdrawn = only(AskWithdrawn, facts)
    assert (withdrawn.allocation_key, withdrawn.cause) == ("waits", WithdrawCause.APPLICATION_REMOVED)
    assert withdrawn.termination is TerminationType.STOPPED_BY_RM
    released = of(Released, facts)
    assert [(one.allocation_key, one.confirm) for one in released] == [("k", True)] * 2
    assert {one.termination for one in released} == {TerminationType.STOPPED_BY_RM}
    assert only(ApplicationForgotten, facts).application_id == "app"
    assert (talk.view().applications, talk.view().users) == ([], [])
    assert talk.node().allocated == {}
    assert talk.scheduler.next_deadline_ns() is None
    assert of(ApplicationAccepted, talk.apps(an_app())), "its id is free"


def test_removal_of_one_without_allocations_completes_it(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=500))
    facts = talk.remove("app")
    assert states(facts) == [S.COMPLETING, S.COMPLETED]
    assert only(ApplicationForgotten, facts).state is S.COMPLETED
    assert (talk.view().terminated, talk.scheduler.next_deadline_ns()) == ([], None)


def test_removal_of_a_new_one_leaves_nothing(talk: Conversation) -> None:
    assert only(ApplicationForgotten, talk.remove("app")).state is S.NEW
    assert (talk.view().applications, talk.view().terminated) == ([], [])


def test_removal_takes_placeholders_along(talk: Conversation) -> None:
    talk.asks(a_placeholder("p", 10, 2), an_ask("real", 10))
    talk.schedule()
    facts = talk.remove("app")
    assert sorted((one.allocation_key, one.placeholder) for one in of(Released, facts)) == [
        ("p", True),
        ("p", True),
        ("real", False),
    ]
    assert talk.scheduler.next_deadline_ns() is None


@pytest.mark.parametrize(
    ("item", "code", "said"),
    [
        (ApplicationRemoval("gone"), RejectCode.UNKNOWN_APPLICATION, "applicationID 'gone' is not a known application"),
        (ApplicationRemoval("app", "gpuu"), RejectCode.UNKNOWN_PARTITION, "partitionName 'gpuu'"),
        (ApplicationRemoval(""), RejectCode.UNKNOWN_APPLICATION, "applicationID ''"),
    ],
)
def test_removal_of_what_is_not_there_is_ignored(
    talk: Conversation, item: ApplicationRemoval, code: RejectCode, said: str
) -> None:
    ignored = only(ItemIgnored, talk.step(UpdateApplications(RM, remove=[item])))
    assert ignored.code is code
    assert said in ignored.reason
    assert talk.app().state == S.NEW


def test_one_message_may_add_and_remove(talk: Conversation) -> None:
    facts = talk.step(UpdateApplications(RM, new=[an_app("short")], remove=[ApplicationRemoval("short")]))
    assert only(ApplicationAccepted, facts).application_id == "short"
    assert only(ApplicationForgotten, facts).application_id == "short"


def test_what_is_longest_of_a_reason_stays_readable(talk: Conversation) -> None:
    rejected = only(ApplicationRejected, talk.apps(an_app("next", "root." + "q" * 5_000)))
    assert len(rejected.reason) < 400
    assert checks.shown("root." + "q" * 5_000) in rejected.reason
