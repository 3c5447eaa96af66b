"""Gangs that block each other on full nodes: the later one gives way (no gang deadlock)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType
from schedulerd.core.language.facts.fact import Allocated, AskAdded, AskRejected, ReleaseCause, ReleaseRequested
from schedulerd.core.language.facts.gangs import GangGaveWay
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
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
PATIENCE_NS = 10 * SECOND_NS
TIMES = Timeouts(gang_deadlock_timeout_ns=PATIENCE_NS)


def a_gang(
    talk: Conversation, name: str, size: int, memory: int = 10, *, allow_preempt_self: bool = True, **fields: Any
) -> None:
    fields.setdefault("placeholder_ask", Resources(memory=size * memory))
    talk.apps(an_app(name, **fields))
    talk.asks(a_placeholder(f"p-{name}", memory, size, name, allow_preempt_self=allow_preempt_self))


def two_halves(
    *gangs: str,
    size: int = 3,
    nodes: int = 2,
    each: int = 20,
    timeouts: Timeouts = TIMES,
    leaves: str = "abc",
    **fields: Any,
) -> Conversation:
    """Gangs of which each holds as many placeholders as the others, and all nodes are full with that."""
    names = gangs or ("first", "second")
    root = a_root(*(a_queue_spec(name) for name in "abc"))
    talk = a_conversation(root=root, timeouts=timeouts)
    for leaf, name in zip(leaves, names, strict=False):
        a_gang(talk, name, size, queue=f"root.{leaf}", **fields)
    for number in range(nodes):
        talk.nodes(a_node(f"n{number + 1}", {"memory": each}))
        talk.schedule()
    return talk


def confirm(talk: Conversation, *requests: ReleaseRequested, **fields: Any) -> list[Any]:
    facts = []
    for one in requests:
        facts += talk.release(
            application_id=one.application_id, uuid=one.uuid, **{"termination": one.termination, **fields}
        )
    return facts


def held(talk: Conversation, name: str) -> int:
    return len(talk.app(name).allocations)


def test_of_two_gangs_that_hold_half_each_the_later_one_is_released_and_both_are_complete_in_turn() -> None:
    talk = two_halves()
    assert (held(talk, "first"), held(talk, "second")) == (2, 2)
    assert of(ReleaseRequested, talk.sleep(PATIENCE_NS - 1)) == []
    facts = talk.sleep(1)
    gave_way = only(GangGaveWay, facts)
    assert (gave_way.application_id, gave_way.in_favour_of, gave_way.placeholders) == ("second", "first", 2)
    requests = of(ReleaseRequested, facts)
    assert {(one.application_id, one.termination) for one in requests} == {("second", T.TIMEOUT)}
    assert "first" in requests[0].message
    assert held(talk, "second") == 2
    again = of(AskAdded, confirm(talk, *requests))
    assert [(one.application_id, one.allocation_key, one.count) for one in again] == [("second", "p-second", 1)] * 2
    facts = talk.schedule()
    assert [(name, key) for name, key, _ in placed(facts)][:1] == [("first", "p-first")]
    assert states(facts, "first") == [S.STARTING]
    assert talk.app("second").state == S.ACCEPTED
    assert held(talk, "second") + sum(ask.pending for ask in talk.app("second").asks) == 3
    talk.remove("first")
    assert states(talk.schedule(), "second") == [S.STARTING]


def test_placeholders_that_are_opted_out_of_preemption_are_released_too_as_they_are_no_victims() -> None:
    talk = two_halves(allow_preempt_self=False)
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    assert [(one.application_id, one.cause) for one in requests] == [("second", ReleaseCause.GAVE_WAY)] * 2


def test_the_later_gang_waits_and_names_the_earlier_one_until_that_is_complete() -> None:
    talk = two_halves()
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    confirm(talk, requests[0])
    [ask] = talk.app("second").asks
    assert "first" in ask.waiting_for
    assert placed(talk.schedule()) == [("first", "p-first", requests[0].node_id)]
    confirm(talk, requests[1])
    assert placed(talk.schedule()) == [("second", "p-second", requests[1].node_id)]


def test_a_gang_that_came_in_between_waits_as_well_and_one_that_came_before_does_not() -> None:
    talk = two_halves()
    talk.sleep(PATIENCE_NS)
    a_gang(talk, "third", 1, memory=1)
    talk.nodes(a_node("n3", {"memory": 5}))
    assert placed(talk.schedule()) == []
    assert "first" in talk.app("third").asks[0].waiting_for
    talk.asks(an_ask("plain", 1, app="third"))
    talk.remove("first")
    assert [app for app, _, _ in placed(talk.schedule())].count("third") == 2


def test_no_gang_is_released_if_it_would_not_make_the_earlier_one_complete() -> None:
    talk = two_halves(size=5)
    assert of(ReleaseRequested, talk.sleep(PATIENCE_NS)) == []
    assert talk.model().priority_gang is None
    talk.nodes(a_node("n3", {"memory": 10}))
    assert [app for app, _, _ in placed(talk.schedule())] == ["first"]
    assert of(GangGaveWay, talk.sleep(PATIENCE_NS))


def test_the_latest_gang_is_released_first_and_no_more_gangs_than_needed() -> None:
    talk = two_halves("first", "second", "third", nodes=3)
    assert [held(talk, name) for name in ("first", "second", "third")] == [2, 2, 2]
    facts = talk.sleep(PATIENCE_NS)
    assert only(GangGaveWay, facts).application_id == "third"
    confirm(talk, *of(ReleaseRequested, facts))
    assert states(talk.schedule(), "first") == [S.STARTING]
    facts = talk.sleep(PATIENCE_NS)
    assert [one.in_favour_of for one in of(GangGaveWay, facts)] in ([], ["second"])


def test_a_complete_gang_is_not_released() -> None:
    talk = two_halves("first", nodes=1)
    a_gang(talk, "second", 2, queue="root.b")
    talk.nodes(a_node("n2", {"memory": 20}, action=NodeAction.CREATE_DRAIN))
    talk.release_asks(application_id="first", allocation_key="p-first")
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_TO_SCHEDULABLE))
    assert states(talk.schedule(), "second") == [S.STARTING]
    talk.asks(a_placeholder("more", app="first"))
    talk.schedule()
    assert of(ReleaseRequested, talk.sleep(PATIENCE_NS)) == []


def test_no_gang_is_released_for_one_whose_quota_is_short() -> None:
    root = a_root(a_queue_spec("a", max={"memory": 20}), a_queue_spec("b"))
    talk = a_conversation(a_node("n1", {"memory": 40}), root=root, timeouts=TIMES)
    a_gang(talk, "first", 3, queue="root.a", placeholder_ask=Resources(memory=20))
    a_gang(talk, "second", 3, queue="root.b")
    talk.schedule()
    assert (held(talk, "first"), held(talk, "second")) == (2, 2)
    assert of(GangGaveWay, talk.sleep(PATIENCE_NS)) == []


def test_the_deadlock_timeout_is_at_most_half_the_time_of_the_gang() -> None:
    talk = two_halves(execution_timeout_ms=4_000)
    assert of(GangGaveWay, talk.sleep(2 * SECOND_NS - 1)) == []
    assert of(GangGaveWay, talk.sleep(1))


def test_without_a_deadlock_timeout_no_gang_is_released_and_time_decides() -> None:
    talk = two_halves(timeouts=Timeouts(gang_deadlock_timeout_ns=0))
    facts = talk.sleep(TIMES.placeholder_ns)
    assert of(GangGaveWay, facts) == []
    assert states(facts, "first") == [S.RESUMING]


@pytest.mark.parametrize("termination", [T.STOPPED_BY_RM, T.PREEMPTED_BY_SCHEDULER])
def test_what_the_rm_ends_itself_is_not_asked_for_again(termination: TerminationType) -> None:
    talk = two_halves()
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    assert of(AskAdded, confirm(talk, *requests, termination=termination)) == []
    assert talk.app("second").pending == {"memory": 10}


def test_asks_taken_back_meanwhile_are_not_asked_for_again() -> None:
    talk = two_halves()
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    talk.release_asks(application_id="second", allocation_key="p-second")
    assert of(AskAdded, confirm(talk, *requests)) == []
    assert talk.app("second").pending == {}


def test_an_ask_with_several_allocations_keeps_its_amounts_while_they_are_released() -> None:
    """Other amounts would resize an allocation, and for that there must be one (SEMANTICS I17)."""
    talk = two_halves()
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    assert len(of(AskRejected, talk.asks(a_placeholder("p-second", 5, 3, "second")))) == 1
    confirm(talk, *requests)
    assert talk.app("second").pending == {"memory": 30}


def test_an_ask_lowered_meanwhile_is_asked_for_only_as_often_as_wanted() -> None:
    talk = two_halves()
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    talk.asks(a_placeholder("p-second", 10, 1, "second"))
    confirm(talk, *requests)
    assert talk.app("second").pending == {"memory": 10}


@pytest.mark.parametrize("style", ["Hard", "Soft"])
def test_a_gang_whose_time_is_over_while_it_is_released_ends_as_any_other(style: str) -> None:
    talk = two_halves(gang_style=style)
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    facts = talk.sleep(TIMES.placeholder_ns)
    assert states(facts, "second") == [S.FAILING if style == "Hard" else S.RESUMING]
    facts = confirm(talk, *requests)
    assert of(AskAdded, facts) == []
    assert states(facts, "second") == [S.FAILED if style == "Hard" else S.ACCEPTED]
    assert talk.queue("root.b").pending == {}


def test_the_time_of_a_gang_that_gave_way_starts_anew_with_its_next_placeholder() -> None:
    talk = two_halves()
    confirm(talk, *of(ReleaseRequested, talk.sleep(PATIENCE_NS)))
    assert not talk.app("second").gang_started
    talk.schedule()
    assert states(talk.sleep(TIMES.placeholder_ns - 1), "second") == []
    assert states(talk.sleep(1), "second") == [S.RESUMING]


def test_while_an_rm_does_not_confirm_nothing_more_is_given_back() -> None:
    talk = two_halves("first", "second", "third", nodes=3)
    assert len(of(ReleaseRequested, talk.sleep(PATIENCE_NS))) == 2
    assert of(ReleaseRequested, talk.sleep(5 * PATIENCE_NS)) == []
    assert held(talk, "third") == 2


@pytest.mark.parametrize("end", ["removed", "asks released"])
def test_the_later_ones_go_on_when_the_earlier_gang_wants_no_more(end: str) -> None:
    talk = two_halves()
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    if end == "removed":
        talk.remove("first")
    else:
        talk.release_asks(application_id="first")
    confirm(talk, *requests)
    assert ("second", "p-second") in {(app, key) for app, key, _ in placed(talk.schedule())}


def test_no_gang_waits_any_longer_when_the_time_of_the_earlier_one_is_over() -> None:
    talk = two_halves()
    talk.sleep(PATIENCE_NS)
    a_gang(talk, "third", 1, memory=1)
    talk.nodes(a_node("n3", {"memory": 5}))
    assert placed(talk.schedule()) == []
    talk.sleep(TIMES.placeholder_ns - PATIENCE_NS)
    assert placed(talk.schedule()) == [("third", "p-third", "n3")]


@pytest.mark.parametrize("is_away", [False, True])
def test_the_earlier_gang_stays_first_while_the_room_is_on_its_way(is_away: bool) -> None:
    talk = two_halves(leaves="ba")
    confirm(talk, *of(ReleaseRequested, talk.sleep(PATIENCE_NS + SECOND_NS)))
    if is_away:
        talk.disconnect()
    talk.sleep(2 * PATIENCE_NS)
    if is_away:
        talk.connect()
    assert [app for app, _, _ in placed(talk.schedule())] == ["first", "second"]


def test_an_application_without_placeholders_does_not_wait_for_the_priority_gang() -> None:
    talk = two_halves()
    talk.sleep(PATIENCE_NS)
    talk.apps(an_app("plain"))
    talk.asks(an_ask("k", app="plain"))
    assert [talk.app(name).waits_for_gang_of for name in ("first", "second", "plain")] == ["", "first", ""]


def test_counts_say_what_became_of_the_placeholders() -> None:
    talk = two_halves()
    confirm(talk, *of(ReleaseRequested, talk.sleep(PATIENCE_NS)))
    [group] = talk.app("second").task_groups
    assert (group.wanted, group.placed, group.gave_back, group.timed_out, group.idle) == (3, 2, 2, 0, 0)
    talk.schedule()
    [group] = talk.app("second").task_groups
    assert (group.wanted, group.placed, group.idle) == (3, 3, 1)


def test_other_applications_do_not_wait_for_the_priority_gang() -> None:
    talk = two_halves()
    talk.asks(an_ask("k"))
    requests = of(ReleaseRequested, talk.sleep(PATIENCE_NS))
    assert {fact.application_id for fact in of(Allocated, talk.schedule())} == set()
    confirm(talk, requests[0])
    assert len(placed(talk.schedule())) == 1
