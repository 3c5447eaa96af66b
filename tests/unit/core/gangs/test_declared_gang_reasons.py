"""Why members of a gang that declares its task groups wait: what the resource manager and people are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedulerd.core.language.commands import AskRelease, ConnectCallbacks, UpdateAllocations
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.facts.scheduling_states import (
    PendingReasonChanged,
    SchedulingState,
    SchedulingStateChanged,
)
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.pending.rules.states import PendingState, StateCount
from schedulerd.observe.explain_sentences import application_summary
from tests.unit.core.builders import RM, Conversation, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask, of
from tests.unit.core.explain.explained import explained, explained_app, explained_queue, story
from tests.unit.core.gangs.test_declared_gangs import declares, member, racks

S, P = SchedulingState, PendingState


def listening(talk: Conversation, *, states: bool = False) -> Conversation:
    """The RM wants pending reasons, or scheduling states."""
    talk.step(ConnectCallbacks(RM, scheduling_states=states, pending_reasons=not states))
    return talk


def play(talk: Conversation, seconds: int = 2) -> list[PendingReasonChanged]:
    """The reasons that are told during cycles and some time."""
    return of(PendingReasonChanged, talk.schedule() + talk.sleep(seconds * SECOND_NS) + talk.schedule())


def brief(facts: Sequence[Fact]) -> dict[str, tuple[object, ...]]:
    """The last reason of each ask: state, scheduling state, gang state, members with room, needed and asked for."""
    return {
        one.allocation_key: (
            one.state,
            one.scheduling_state,
            one.gang_state,
            one.with_room,
            one.needed,
            one.members_asked,
        )
        for one in of(PendingReasonChanged, facts)
    }


def three(talk: Conversation, *groups: dict[str, Any], **fields: Any) -> Conversation:
    """A gang of three with members a, b and c, and d, which it can do without."""
    talk.apps(declares(*(groups or ({"name": "w", "min": 3},)), **fields))
    talk.asks(*map(member, "abcd"))
    return talk


def test_members_of_a_gang_that_is_forming_are_told_how_many_are_asked_for() -> None:
    talk = listening(a_conversation(a_node("n1", {"memory": 100})))
    talk.apps(declares({"name": "w", "min": 3}, {"name": "driver", "min": 1}))
    talk.asks(member("a"), member("b"))
    told = play(talk)
    assert brief(told) == dict.fromkeys("ab", (P.AWAITING_GANG, S.SKIPPED, "forming", 0, 4, 2))
    assert told[0].task_group == "w"
    assert story(talk, "a", "gang")[0] == "Gang: 2 of 4 members are asked for; task group w needs 1 more."


def test_a_gang_that_lost_members_says_when_it_is_given_up() -> None:
    talk = a_conversation(a_node("n1", {"memory": 25}))
    talk.apps(declares({"name": "w", "min": 3}, execution_timeout_ms=120_000))
    talk.asks(*map(member, "abc"))
    talk.schedule()
    talk.step(UpdateAllocations(RM, ask_releases=[AskRelease("gang", allocation_key="c")]))
    talk.sleep(60 * SECOND_NS)
    assert story(talk, "a", "gang")[0] == (
        "Gang: 2 of 3 members are asked for; task group w needs 1 more. Given up in 60 s."
    )


def test_all_members_are_told_that_nodes_lack_room_for_the_gang() -> None:
    talk = three(listening(a_conversation(a_node("n1", {"memory": 25}))))
    told = play(talk)
    assert brief(told) == dict.fromkeys("abcd", (P.UNSCHEDULABLE, S.FAILED, "gathering", 2, 3, 3))
    assert told[0].task_group == "w"
    assert story(talk, "d", "gang")[0] == ("Gang: 2 of 3 have room; the next needs 10 memory, and no node has it left.")


def test_an_rm_that_is_told_scheduling_states_alone_sees_the_whole_gang_too() -> None:
    talk = listening(a_conversation(a_node("n1", {"memory": 25})), states=True)
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(member("a"))
    facts = talk.schedule() + talk.sleep(2 * SECOND_NS)
    assert [(one.allocation_key, one.state) for one in of(SchedulingStateChanged, facts)] == [("a", S.SKIPPED)]
    talk.asks(member("b"), member("c"))
    facts = talk.schedule() + talk.sleep(20 * SECOND_NS) + talk.schedule()
    told = {one.allocation_key: (one.state, one.reason) for one in of(SchedulingStateChanged, facts)}
    assert told == dict.fromkeys(
        "abc", (S.FAILED, "gang: 2 of 3 have room; the next needs 10 memory, and no node has it left")
    )


def test_a_gang_that_its_quota_cannot_hold_is_told_the_quota() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.asks(an_ask("x", 10))
    talk.schedule()
    three(listening(talk))
    told = play(talk)
    assert brief(told) == dict.fromkeys("abcd", (P.QUOTA_BLOCKED, S.SKIPPED, "gathering", 0, 3, 3))
    assert (told[0].rule, told[0].used, told[0].asked, told[0].max) == ("gang quota", 10, 30, 30)


def test_of_two_gangs_that_a_quota_lets_in_one_after_the_other_one_wants_nodes() -> None:
    talk = listening(a_conversation(a_node("n1", {"memory": 5}), root=a_root(a_queue_spec("a", max={"memory": 30}))))
    three(talk)
    talk.apps(an_app("later", "root.a", tags=declares({"name": "w", "min": 2}).tags))
    talk.asks(*[an_ask(key, 10, 1, "later", task_group="w") for key in "xy"])
    told = brief(play(talk))
    assert {key: one[1] for key, one in told.items()} == {
        **dict.fromkeys("abcd", S.FAILED),
        "x": S.SKIPPED,
        "y": S.SKIPPED,
    }


def test_a_held_slot_is_no_news_until_the_count_stays_the_same() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    talk.asks(an_ask("x", 10, 3))
    uuids = [one.uuid for one in of(Allocated, talk.schedule())]
    three(listening(talk))
    play(talk, 5)
    talk.release(uuid=uuids[0])
    assert play(talk, 5) == []
    talk.release(uuid=uuids[1])
    assert play(talk, 5) == []
    told = play(talk, 10)
    assert brief(told) == dict.fromkeys("abcd", (P.UNSCHEDULABLE, S.FAILED, "gathering", 2, 3, 3))
    assert play(talk, 60) == []


def test_a_domain_that_was_chosen_is_named() -> None:
    talk = racks(("r1", 20), ("r2", 5), ("r1", 5))
    talk.apps(an_app())
    talk.asks(an_ask("x", 10, 2))
    uuids = [one.uuid for one in of(Allocated, talk.schedule())]
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(member("a"), member("b"))
    talk.schedule()
    assert story(talk, "a", "gang")[0] == "Gang: 0 of 2 have room; no rack has room for all 2 of task group w together."
    talk.sleep(3 * SECOND_NS)
    talk.schedule()
    talk.release(uuid=uuids[0])
    talk.schedule()
    assert story(talk, "a", "gang")[0].startswith(
        "Gang: 1 of 2 have room; the next needs 10 memory in rack r1, where the nearest node, n0, has 0 memory free."
    )


def test_a_gang_whose_time_was_over_says_when_it_gathers_again() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}), a_node("n2", {"memory": 10}))
    talk.asks(an_ask("x", 10))
    talk.schedule()
    three(talk, {"name": "w", "min": 2}, gang_style="Requeue", execution_timeout_ms=30_000)
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    talk.schedule()
    listening(talk)
    play(talk, 30)
    told = play(talk, 20)
    assert brief(told)["a"][:3] == (P.AWAITING_GANG, S.SKIPPED, "forming")
    assert story(talk, "a", "gang")[0].startswith(
        "Gang: its time was over before all of it had room, and it gathers again in "
    )


def test_a_member_above_the_max_is_told_so() -> None:
    talk = listening(a_conversation(a_node("n1", {"memory": 100})))
    three(talk, {"name": "w", "min": 2, "max": 3})
    told = brief(play(talk))
    assert told["d"][:3] == (P.AWAITING_GANG, S.SKIPPED, "complete")
    assert story(talk, "d", "gang")[0] == "Gang: its task group has as many members as it may have."


def test_slots_are_nowhere_among_what_was_asked_for() -> None:
    talk = three(a_conversation(a_node("n1", {"memory": 25})))
    talk.asks(an_ask("x", 90))
    talk.schedule()
    count = StateCount(talk.model(), ResourceManagerState.RUNNING)
    count.advance(10)
    assert {state: number for state, number in count.counts.items() if number} == {P.UNSCHEDULABLE: 5}
    assert explained_queue(talk).pending == 5
    found = explained_app(talk, "gang")
    assert (found.pending, found.task_groups, found.next_ask and found.next_ask.allocation_key) == (4, [], "a")
    assert explained(talk, "a", "gang").pending == 1


def test_an_application_is_told_its_gang_and_its_task_groups() -> None:
    talk = three(a_conversation(a_node("n1", {"memory": 25})), {"name": "w", "min": 3, "max": 5})
    talk.schedule()
    assert application_summary(explained_app(talk, "gang"))[1:] == [
        "Its gang is gathering: 2 of 3 have room; the next needs 10 memory, and no node has it left.",
        "Task group w: 4 asked for, 0 held, 0 allocated; it needs 3, and has 5 at most.",
    ]
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.schedule()
    assert application_summary(explained_app(talk, "gang"))[1:] == [
        "Its gang is complete.",
        "Task group w: 1 asked for, 0 held, 3 allocated; it needs 3, and has 5 at most.",
    ]
    allocation = next(iter(talk.model().applications["gang"].allocations))
    talk.release(application_id="gang", uuid=allocation)
    talk.asks(member("e"))
    assert application_summary(explained_app(talk, "gang"))[1] == (
        "Its gang is short: task group w has 1 member less than it needs."
    )
