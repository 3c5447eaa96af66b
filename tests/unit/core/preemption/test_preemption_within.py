"""Preemption by priority inside one leaf (`preemption.within-queue`)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.specs import SECOND_NS, PreemptionPolicy, WithinQueue
from schedulerd.core.state.plans.plan import PlannedPreemption
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_placeholder,
    an_app,
    placed,
)
from tests.unit.core.decisions import (
    NO_NODE,
    NO_VICTIMS,
    NOT_ENTITLED,
    QUOTA,
    a_talk,
    chosen,
    decide,
    leaf,
    memory,
    parent,
    run,
)
from tests.unit.core.preemption_builders import an_entitled_ask, confirm_releases, preempted, wait


def within(name: str = "c", guaranteed: int = 0, **fields: Any) -> Any:
    return leaf(name, guaranteed, preemption_within_queue=WithinQueue.PRIORITY, **fields)


def crowded(**fields: Any) -> Conversation:
    """A leaf with allocations of three priorities on a full node."""
    talk = a_talk(within(**fields), capacity=memory(30))
    for priority in (2, 0, 1):
        run(talk, "root.c", f"p{priority}", priority=priority)
    return talk


def test_by_itself_a_leaf_does_not() -> None:
    talk = a_talk(leaf("c"), capacity=memory(10))
    run(talk, "root.c", "low")
    assert decide(talk, priority=9) is NOT_ENTITLED


def test_the_lowest_priority_goes_first() -> None:
    decision = decide(crowded(), priority=2)
    assert chosen(decision) == {"p0"}
    assert isinstance(decision, PlannedPreemption)
    assert decision.why == "its priority 2 is above theirs in queue root.c (preemption.within-queue)"


def test_and_none_of_the_same_or_a_higher_priority() -> None:
    assert chosen(decide(crowded(), amount=20, priority=2)) == {"p0", "p1"}
    assert decide(crowded(), amount=30, priority=2) is NO_NODE
    assert decide(crowded(), priority=0) is NO_NODE


def test_nor_of_the_own_application_an_opted_out_or_an_exempt_one() -> None:
    talk = a_talk(within(), capacity=memory(10))
    run(talk, "root.c", "own", app="claimer")
    assert decide(talk, priority=9) is NO_NODE
    talk = a_talk(within(), capacity=memory(10))
    run(talk, "root.c", "low", allow_preempt_self=False)
    assert decide(talk, priority=9) is NO_NODE
    talk = a_talk(within(preemption_policy=PreemptionPolicy.DISABLED), capacity=memory(10))
    run(talk, "root.c", "low")
    assert decide(talk, priority=9) is NO_VICTIMS


def test_originators_go_last() -> None:
    talk = a_talk(within(), capacity=memory(20))
    run(talk, "root.c", "driver", originator=True)
    run(talk, "root.c", "executor", priority=1)
    assert chosen(decide(talk, priority=2)) == {"executor"}


def test_other_leaves_give_nothing_by_priority() -> None:
    talk = a_talk(within(), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    assert decide(talk, priority=9) is NO_NODE


def test_a_guarantee_of_the_leaf_counts_for_other_leaves_as_always() -> None:
    talk = a_talk(within(guaranteed=20), leaf("v"), capacity=memory(20))
    run(talk, "root.c", "low", priority=1)
    run(talk, "root.v", "v")
    assert chosen(decide(talk, priority=2)) == {"v"}


def test_a_fence_is_none_inside_the_leaf() -> None:
    talk = a_talk(within(preemption_policy=PreemptionPolicy.FENCE), capacity=memory(10))
    run(talk, "root.c", "low")
    assert chosen(decide(talk, priority=1)) == {"low"}


@pytest.mark.parametrize("level", ["leaf", "parent"])
def test_a_max_is_room_too(level: str) -> None:
    most = memory(10)
    c = within(max=most) if level == "leaf" else within()
    talk = a_talk(parent("p", c, max=most if level == "parent" else None), capacity=memory(100))
    run(talk, "root.p.c", "low")
    assert chosen(decide(talk, "root.p.c", priority=1)) == {"low"}


def test_without_it_a_full_leaf_keeps_the_ask_out_whatever_is_preempted() -> None:
    talk = a_talk(leaf("c", max=memory(10)), capacity=memory(100))
    run(talk, "root.c", "low")
    assert decide(talk, priority=1) is QUOTA


def test_it_gets_the_room_when_the_victim_is_gone_and_the_victim_does_not_come_back() -> None:
    talk = a_talk(within(max=memory(20)), capacity=memory(30))
    run(talk, "root.c", "low")
    run(talk, "root.c", "high", priority=5)
    talk.apps(an_app("claimer", "root.c"))
    talk.asks(an_entitled_ask("c", priority=3))
    assert preempted(wait(talk, 29 * SECOND_NS)) == []
    assert preempted(wait(talk, 2 * SECOND_NS)) == ["low"]
    confirm_releases(talk, "low")
    talk.asks(an_entitled_ask("low", app="root.c"))
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]
    assert preempted(wait(talk, 300 * SECOND_NS)) == []


def test_priority_is_no_right_to_room_that_is_about_to_be_free() -> None:
    talk = a_talk(within(), within("d"), capacity=memory(20))
    run(talk, "root.d", "leaving")
    run(talk, "root.c", "low")
    talk.apps(an_app("other", "root.d"))
    talk.asks(an_entitled_ask("soon", app="other", priority=5))
    assert preempted(wait(talk, 31 * SECOND_NS)) == ["leaving"]
    talk.release_asks(application_id="other", allocation_key="soon")
    assert decide(talk, priority=9) is NO_NODE


def test_what_is_refused_to_one_application_may_be_right_for_another() -> None:
    """The only victim is of the application that is tried first."""
    talk = a_talk(within(), capacity=memory(10))
    talk.apps(an_app("first", "root.c"), an_app("second", "root.c"))
    run(talk, "root.c", "low", app="first")
    talk.asks(an_entitled_ask("a", app="first", priority=5), an_entitled_ask("b", app="second", priority=5))
    assert preempted(wait(talk, 60 * SECOND_NS)) == ["low"]


def test_not_for_a_smaller_part_of_a_gang() -> None:
    talk = a_talk(within(), capacity=memory(20))
    run(talk, "root.c", "low1")
    run(talk, "root.c", "low2")
    talk.apps(an_app("gang", "root.c"))
    talk.asks(a_placeholder("m", 10, 2, "gang", priority=9, allow_preempt_other=True))
    assert preempted(wait(talk, 120 * SECOND_NS)) == []
    talk.nodes(a_node("n2", memory(10)))
    facts = talk.schedule()
    assert placed(facts) == [("gang", "m", "n2")]
    assert preempted(facts) == ["low2"]
