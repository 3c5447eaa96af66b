"""What explains: it names object, reference and cause, is limited, cut, and changes nothing."""

from __future__ import annotations

from typing import get_args

import pytest

from schedulerd.core.language.facts import configuration as configuration_facts
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts import gangs as gang_facts
from schedulerd.core.language.facts import preemption as preemption_facts
from schedulerd.core.language.facts.fact import Fact, RejectCode
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.predicates import PredicateAnswered, PredicateOutcome
from schedulerd.core.language.facts.preemption import PreemptionRefusal
from schedulerd.core.language.facts.queues import QueueNameUnused, TagIgnored
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded, Reserved
from schedulerd.core.language.fsm import move
from schedulerd.core.language.lifecycles import GANG, ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.observe.event_changes import CHANGES
from schedulerd.observe.event_explanations import EXPLANATIONS
from schedulerd.observe.event_limits import EACH_NS
from schedulerd.observe.event_record import TEXT_LENGTH_MAX
from schedulerd.observe.event_recorder import WITHOUT_EVENT
from tests.instants import at
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, an_ask
from tests.unit.core.gang_builders import a_full_gang, real
from tests.unit.observe.event_talk import Listener, Said, recorded, said

RM, P, Q = "rm-1", "default", "root.a"
CODE = RejectCode.INVALID_FIELD
NOTHING = ("NONE", "DETAILS_NONE")

EXAMPLES: list[tuple[Fact, Said, str]] = [
    (facts.NodeRejected(RM, P, "n", CODE, "why"), ("NODE", "n", *NOTHING, ""), "why"),
    (facts.ApplicationRejected(RM, P, "app", CODE, "why"), ("APP", "app", "REMOVE", "APP_REJECT", ""), "why"),
    (
        facts.ApplicationRejected(RM, P, "app", RejectCode.DUPLICATE_ID, "why"),
        ("APP", "app", "NONE", "APP_REJECT", ""),
        "why",
    ),
    (facts.AskRejected(RM, P, "app", "k", CODE, "why"), ("REQUEST", "k", *NOTHING, "app"), "why"),
    (facts.ReleaseIgnored(RM, P, "app", "k", "u", "why"), ("REQUEST", "u", *NOTHING, "app"), "why"),
    (facts.ReleaseIgnored(RM, P, "app", "k", "", "why"), ("REQUEST", "k", *NOTHING, "app"), "why"),
    (facts.ReleaseIgnored(RM, P, "app", "", "", "why"), ("APP", "app", *NOTHING, ""), "why"),
    (facts.ItemIgnored(RM, P, "x", CODE, "why"), ("UNKNOWN_EVENTRECORD_TYPE", "x", *NOTHING, ""), "why"),
    (QueueNameUnused(RM, P, Q, "app", "why"), ("APP", "app", *NOTHING, ""), "why"),
    (TagIgnored(RM, P, Q, "app", "a.tag", "why"), ("APP", "app", *NOTHING, "a.tag"), "why"),
    (
        configuration_facts.ConfigurationRejected(RM, ("one", "two")),
        ("QUEUE", "root", *NOTHING, ""),
        "the new queue file is refused, nothing changed: one; two",
    ),
    (
        gang_facts.GangCompleted(RM, P, Q, "app", 3, 5),
        ("APP", "app", *NOTHING, ""),
        "all 3 placeholders are placed",
    ),
    (
        gang_facts.GangTimedOut(RM, P, Q, "app", ApplicationState.FAILING, 9, 7, 5, 4),
        ("APP", "app", *NOTHING, ""),
        "the gang timeout has expired: of 9 placeholders 7 were placed, 5 of them replaced, and 4 timed out",
    ),
    (
        gang_facts.GangGaveWay(RM, P, Q, "app", 2, "earlier"),
        ("APP", "app", *NOTHING, ""),
        (
            "the incomplete gang has to release its 2 placeholders, so that the earlier gang of application earlier "
            "can be complete"
        ),
    ),
    *[
        (
            gang_facts.GangStateChanged(RM, P, Q, "app", old, move(GANG, old, trigger), trigger.value, 3, 2),
            ("APP", "app", *NOTHING, ""),
            f"{trigger.value}; the gang needs 3 members, 2 are allocated",
        )
        for old, moves in GANG.items()
        for trigger in moves
    ],
    (
        gang_facts.GangBelowMin(RM, P, Q, "app", True, "why"),
        ("APP", "app", *NOTHING, ""),
        "why; its application fails",
    ),
    (
        gang_facts.SwapRefused(RM, P, Q, "app", "k", "group", 2, "why"),
        ("REQUEST", "k", *NOTHING, "app"),
        "why; it continues as an ordinary request, and 2 placeholders of task group group are to be released",
    ),
    (
        Reserved(RM, P, Q, "app", "k", "n", Resources(memory=1), True),
        ("REQUEST", "k", *NOTHING, "app"),
        "n is kept for it",
    ),
    (
        ReservationEnded(RM, P, Q, "app", "k", "n", True, ReservationEnd.NOT_NEEDED, 5),
        ("REQUEST", "k", *NOTHING, "app"),
        "n is no longer kept for it: not needed",
    ),
    (
        preemption_facts.Preempted(RM, P, Q, "app", "k", "n", ((Q, "u1"), (Q, "u2")), "why"),
        ("REQUEST", "k", *NOTHING, "app"),
        "2 allocations on node n are preempted for it: why",
    ),
    (
        preemption_facts.RoomMade(RM, P, Q, "app", "k", "n", 5),
        ("REQUEST", "k", *NOTHING, "app"),
        "the last allocation that had to leave node n for it is gone",
    ),
    (
        preemption_facts.PreemptionRefused(RM, P, Q, "app", "k", PreemptionRefusal.QUOTA, "why"),
        ("REQUEST", "k", *NOTHING, "app"),
        "why",
    ),
    (
        preemption_facts.QuotaPreempted(RM, P, Q, 2, "uses memory 40 of max 25"),
        ("QUEUE", Q, *NOTHING, ""),
        "uses memory 40 of max 25; 2 allocations are preempted",
    ),
    (
        PredicateAnswered(RM, P, "app", "k", "n", 1, PredicateOutcome.REFUSED, "node affinity", 5),
        ("REQUEST", "k", *NOTHING, "app"),
        "it may not run on node n: node affinity",
    ),
    (NodeRecommended(RM, P, "n", Resources(memory=5), "why"), ("NODE", "n", *NOTHING, ""), "why"),
]


@each_row(("fact", "wanted", "message"), EXAMPLES, ids=lambda one: type(one).__name__)
def test_it_names_object_reference_and_cause(fact: Fact, wanted: Said, message: str) -> None:
    (told,) = recorded(fact)
    assert (said(told), told.message, told.timestampNano) == (wanted, message, at(7).wall_ns)


@pytest.mark.parametrize("outcome", [PredicateOutcome.AGREED, PredicateOutcome.VOID])
def test_a_result_that_is_no_refusal_is_no_event(outcome: PredicateOutcome) -> None:
    assert recorded(PredicateAnswered(RM, P, "app", "k", "n", 1, outcome, "", 5)) == []


def test_every_fact_is_an_event_or_known_to_be_none() -> None:
    tables = [*CHANGES, *EXPLANATIONS, *WITHOUT_EVENT]
    assert len(tables) == len(set(tables))
    assert set(tables) == set(get_args(Fact))
    assert {type(fact) for fact, _, _ in EXAMPLES} == set(EXPLANATIONS)


def test_the_same_object_says_the_same_thing_once_in_a_while() -> None:
    listener = Listener()
    rejected = facts.AskRejected(RM, P, "app", "k", CODE, "why")
    others: list[Fact] = [
        facts.AskRejected(RM, P, "app", "k2", CODE, "why"),
        facts.AskRejected(RM, P, "app2", "k", CODE, "why"),
        facts.AskRejected("rm-2", P, "app", "k", CODE, "why"),
        facts.ReleaseIgnored(RM, P, "app", "k", "", "why"),
    ]
    listener.recorder.observe([rejected, rejected, *others, rejected], at(0))
    assert (listener.ring.next_id, listener.recorder.suppressed) == (5, 2)
    listener.recorder.observe([rejected], at(EACH_NS))
    assert (listener.ring.next_id, listener.recorder.suppressed) == (6, 2)


def test_what_changes_is_never_suppressed() -> None:
    listener = Listener()
    changed = facts.AskAdded(RM, P, Q, "app", "k", Resources(memory=1), 1, False)
    listener.recorder.observe([changed] * 3, at(0))
    assert (listener.ring.next_id, listener.recorder.suppressed) == (3, 0)


def test_what_any_client_may_send_is_cut() -> None:
    longest = "x" * TEXT_LENGTH_MAX
    long = f"{longest}x"
    listener = Listener()
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(an_ask())
    talk.schedule()
    listener.recorder.observe(talk.asks(an_ask(long)), at(0))
    listener.recorder.observe(talk.asks(an_ask(longest, -1)), at(0))
    listener.recorder.observe(talk.release(message=long), at(0))
    for message in listener.messages():
        assert len(message.objectID) <= TEXT_LENGTH_MAX
        assert len(message.message) <= TEXT_LENGTH_MAX
    objects = {message.objectID for message in listener.messages()}
    assert objects >= {longest, f"{longest[:-3]}..."}
    kept = [entry[5] for entry in listener.ring._slots if entry is not None]
    assert all(len(getattr(what, "message", "")) <= TEXT_LENGTH_MAX for what in kept)


def test_the_ring_keeps_no_tags_alive() -> None:
    listener = Listener()
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(an_ask(tags={"note": "long" * 1_000}))
    listener.recorder.observe(talk.schedule(), at(0))
    assert listener.ring.next_id > 3
    kept = [entry[5] for entry in listener.ring._slots if entry is not None]
    assert not any(hasattr(what, "tags") for what in kept)


def test_a_request_that_does_not_fit_in_its_placeholder_says_why_and_so_does_the_placeholder() -> None:
    listener = Listener()
    talk = a_full_gang(1)
    talk.asks(real("r", memory=11))
    listener.recorder.observe(talk.schedule(), at(0))
    told = {message.objectID: message.message for message in listener.messages() if message.referenceID == "gang"}
    why = "ask r of application gang does not fit: it asks for 11 memory, placeholder p has 10"
    assert told["p"] == why
    assert told["r"].startswith(f"{why}; it continues as an ordinary request")
