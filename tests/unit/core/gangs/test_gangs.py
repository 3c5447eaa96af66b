"""Placeholders that run out of time (gang design, Cleanup; SEMANTICS G5, G6)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.gangs import sentences as gang_words
from schedulerd.core.gangs.sentences import GANG_TIMEOUT
from schedulerd.core.language.commands import TerminationType
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
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
    states,
)

S = ApplicationState
T = TerminationType
TIMES = Timeouts()
GANG_NS = 1_000 * MILLISECOND_NS


def a_gang(style: str = "Soft", room: int = 20, **fields: Any) -> Conversation:
    """An application `gang` that wants three placeholders of 10; two are placed unless there is more room."""
    named: dict[str, Any] = {
        "execution_timeout_ms": 1_000,
        "placeholder_ask": Resources(memory=30),
        "gang_style": style,
        **fields,
    }
    talk = a_conversation(a_node("n1", {"memory": room}))
    talk.apps(an_app("gang", **named))
    talk.asks(a_placeholder("p", count=3, app="gang"))
    talk.schedule()
    return talk


def test_placeholders_change_no_state_and_are_counted_apart() -> None:
    talk = a_gang(room=20)
    gang = talk.app("gang")
    assert gang.state == S.ACCEPTED
    assert (gang.allocated, gang.placeholder_allocated) == ({}, {"memory": 20})
    assert {one.placeholder for one in gang.allocations} == {True}


def test_a_placeholder_without_a_task_group_is_an_ordinary_ask() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.asks(an_ask("k", placeholder=True))
    assert states(talk.schedule()) == [S.STARTING]
    assert talk.app().allocated == {"memory": 10}


@pytest.mark.parametrize(
    ("fields", "timeout_ns"),
    [
        ({}, GANG_NS),
        ({"execution_timeout_ms": 0}, TIMES.placeholder_ns),
        ({"execution_timeout_ms": -5}, TIMES.placeholder_ns),
        ({"placeholder_ask": Resources()}, TIMES.placeholder_ns),
    ],
    ids=["as it says", "default", "negative is default", "without placeholderAsk it is another timeout"],
)
def test_the_time_starts_with_the_first_placeholder(fields: dict[str, Any], timeout_ns: int) -> None:
    talk = a_gang(room=5, **fields)
    assert talk.model().applications["gang"].gang_alarm is None
    talk.now_ns += 77
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.schedule()
    alarm = talk.model().applications["gang"].gang_alarm
    assert alarm is not None
    assert alarm.deadline_ns == talk.now_ns + timeout_ns
    talk.now_ns += 1
    talk.nodes(a_node("n3", {"memory": 10}))
    assert len(placed(talk.schedule())) == 1
    alarm = talk.model().applications["gang"].gang_alarm
    assert alarm is not None
    assert alarm.deadline_ns == talk.now_ns - 1 + timeout_ns
    talk.nodes(a_node("n4", {"memory": 10}))
    talk.schedule()
    assert talk.model().applications["gang"].gang_alarm is None, "the gang is complete"


@pytest.mark.parametrize("style", ["Hard", "hard ", "HARD"])
def test_a_hard_gang_fails_when_its_placeholders_are_gone(style: str) -> None:
    talk = a_gang(style)
    facts = talk.sleep(GANG_NS)
    assert states(facts, "gang") == [S.FAILING]
    withdrawn = only(AskWithdrawn, facts)
    assert (withdrawn.count, withdrawn.cause, withdrawn.termination) == (1, WithdrawCause.TIMEOUT, T.TIMEOUT)
    assert [one.termination for one in of(ReleaseRequested, facts)] == [T.TIMEOUT, T.TIMEOUT]
    assert talk.node().allocated == {"memory": 20}, "nothing is freed before the RM confirms"
    assert states(talk.release(application_id="gang", uuid="uuid-1", termination=T.TIMEOUT), "gang") == []
    facts = talk.release(application_id="gang", uuid="uuid-2", termination=T.TIMEOUT)
    assert states(facts, "gang") == [S.FAILED]
    assert only(Released, facts).confirm is False
    assert talk.view().terminated[0].state_log[-2][2].startswith(GANG_TIMEOUT)


def gave_up(talk: Conversation, after_ns: int = GANG_NS) -> str:
    """The message of the application that is told when its time is over."""
    [changed] = [one for one in of(ApplicationChanged, talk.sleep(after_ns)) if one.application_id == "gang"]
    return changed.cause


def test_a_gang_that_is_given_up_says_which_group_lacks_how_many_and_for_want_of_what() -> None:
    assert gave_up(a_gang("Hard")) == (
        "ResourceReservationTimeout: after 1 s task group group has 2 of 3 placeholders: "
        "the next one needs 10 memory: no node has room: 1 node is considered, 1 has too little memory"
    )


def test_it_names_the_quota_if_that_is_short() -> None:
    talk = a_conversation(a_node("n1", {"memory": 90}), root=a_root(a_queue_spec("a", max={"memory": 25})))
    talk.apps(an_app("gang"))
    talk.asks(a_placeholder("p", count=3, app="gang"))
    talk.schedule()
    assert gave_up(talk, TIMES.placeholder_ns) == (
        "ResourceReservationTimeout: after 900 s task group group has 2 of 3 placeholders: "
        "the next one needs 10 memory: queue root.a would be above its quota: 20 of 25 memory used, 10 more asked"
    )


def test_it_says_if_less_was_asked_for_than_announced() -> None:
    talk = a_conversation(a_node("n1", {"memory": 90}))
    talk.apps(an_app("gang", execution_timeout_ms=1_000, placeholder_ask=Resources(memory=40, vcore=1)))
    talk.asks(a_placeholder("p", count=3, app="gang"))
    talk.schedule()
    assert gave_up(talk) == (
        "ResourceReservationTimeout: after 1 s all placeholders that were asked for are placed, "
        "but they are less than placeholderAsk: 30 of 40 memory, 0 of 1m cpu"
    )


def test_it_names_the_first_task_groups_and_counts_the_others() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(an_app("gang", execution_timeout_ms=1_000, placeholder_ask=Resources(memory=200)))
    talk.asks(*(a_placeholder(f"p{number}", app="gang", task_group=f"g{number}") for number in range(6)))
    talk.schedule()
    text = gave_up(talk)
    assert [f"task group g{number} has 0 of 1" in text for number in range(1, 6)] == [True] * 3 + [False] * 2
    assert text.endswith("; and 2 more task groups lack placeholders")


def test_it_looks_at_no_more_nodes_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_words, "NODES_LOOKED_AT_MAX", 1)
    talk = a_gang("Hard")
    talk.nodes(a_node("n2", {"memory": 5}))
    assert gave_up(talk).endswith("no node has room: 2 nodes are considered, 1 has too little memory (of 1 checked)")


@pytest.mark.parametrize("style", ["Soft", "", "nonsense"])
def test_any_other_gang_goes_on_without_placeholders(style: str) -> None:
    talk = a_gang(style)
    talk.asks(an_ask("real", 20, app="gang"))
    assert states(talk.sleep(GANG_NS), "gang") == [S.RESUMING]
    assert placed(talk.schedule()) == []
    facts = talk.release(application_id="gang", termination=T.TIMEOUT)
    assert states(facts, "gang") == [S.ACCEPTED]
    assert placed(talk.schedule()) == [("gang", "real", "n1")]
    assert talk.scheduler.next_deadline_ns() == talk.now_ns + TIMES.starting_ns


def test_asks_of_a_failing_application_are_kept_but_not_placed() -> None:
    talk = a_gang("Hard")
    talk.asks(an_ask("late", 10, app="gang"))
    talk.sleep(GANG_NS)
    talk.nodes(a_node("n2", {"memory": 50}))
    assert placed(talk.schedule()) == []
    facts = talk.release(application_id="gang", termination=T.TIMEOUT)
    assert states(facts, "gang") == [S.FAILED]
    withdrawn = only(AskWithdrawn, facts)
    assert (withdrawn.allocation_key, withdrawn.cause) == ("late", WithdrawCause.APPLICATION_ENDED)


def test_an_application_that_runs_loses_only_what_it_did_not_use() -> None:
    talk = a_gang("Hard", room=60, placeholder_ask=Resources(memory=60))
    talk.asks(an_ask("real", 10, 2, app="gang"))
    talk.schedule()
    facts = talk.sleep(GANG_NS)
    assert states(facts, "gang") == []
    assert len(of(ReleaseRequested, facts)) == 3
    talk.release(application_id="gang", allocation_key="p", termination=T.TIMEOUT)
    assert talk.app("gang").state == S.RUNNING
    assert [one.allocation_key for one in talk.app("gang").allocations] == ["real", "real"]


def test_a_placeholder_ask_of_which_nothing_was_placed_leaves_nothing_behind() -> None:
    talk = a_gang("Hard")
    talk.asks(a_placeholder("q", memory=15, app="gang"))
    talk.sleep(GANG_NS)
    assert set(talk.model().applications["gang"].asks) == {"p"}


def test_the_timer_ends_with_the_last_placeholder() -> None:
    talk = a_gang(room=60)
    talk.asks(an_ask("real", 10, 2, app="gang"))
    talk.schedule()
    talk.release(application_id="gang", allocation_key="p")
    assert talk.scheduler.next_deadline_ns() is None
    assert talk.sleep(10 * GANG_NS) == []


def test_a_completing_application_gives_its_placeholders_back_before_it_ends() -> None:
    talk = a_gang(room=60, execution_timeout_ms=0)
    talk.asks(an_ask("real", app="gang"))
    talk.schedule()
    assert states(talk.release(application_id="gang", allocation_key="real"), "gang") == [S.COMPLETING]
    facts = talk.sleep(TIMES.completing_ns)
    assert (states(facts, "gang"), len(of(ReleaseRequested, facts))) == ([], 3)
    assert states(talk.release(application_id="gang", termination=T.TIMEOUT), "gang") == [S.COMPLETED]
    assert talk.node().allocated == {}
