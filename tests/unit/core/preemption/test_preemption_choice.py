"""Which victims are chosen, and on which node: priorities, quotas, nodes, gangs and predicates."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.specs import PriorityPolicy, Timeouts
from schedulerd.core.preemption.rules.search import Search
from schedulerd.core.state.plans.plan import PlannedPreemption
from tests.loops import each_row
from tests.unit.core.builders import (
    a_node,
    an_app,
    an_ask,
)
from tests.unit.core.decisions import (
    NO_NODE,
    NO_VICTIMS,
    QUOTA,
    a_talk,
    chosen,
    decide,
    leaf,
    memory,
    parent,
    planned,
    run,
)

# priorities


@pytest.mark.parametrize(("priority", "is_preempted"), [(4, False), (5, True), (6, True)])
def test_a_victim_does_not_rank_above_the_ask(priority: int, is_preempted: bool) -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v", priority=5)
    found = decide(talk, priority=priority)
    assert (found is NO_NODE) is not is_preempted


@each_row(
    ("entitled", "victims", "is_preempted"),
    [
        ({"priority_offset": 5}, {}, True),
        ({"priority_offset": 4}, {}, False),
        ({"priority_offset": 5}, {"priority_offset": 1}, False),
        ({}, {"priority_offset": -5}, True),
        ({"priority_offset": 3, "priority_policy": PriorityPolicy.FENCE}, {}, False),
        ({"priority_offset": 5, "priority_policy": PriorityPolicy.FENCE}, {}, True),
        ({}, {"priority_policy": PriorityPolicy.FENCE}, True),
        ({}, {"priority_policy": PriorityPolicy.FENCE, "priority_offset": 1}, False),
    ],
)
def test_offsets_and_priority_fences_count(
    entitled: dict[str, Any], victims: dict[str, Any], is_preempted: bool
) -> None:
    talk = a_talk(leaf("c", 10, **entitled), leaf("v", **victims), capacity=memory(10))
    run(talk, "root.v", "v", priority=5)
    assert (decide(talk, priority=0) is NO_NODE) is not is_preempted


def test_offsets_above_where_the_ways_meet_do_not() -> None:
    talk = a_talk(
        parent("p", leaf("c", 10, priority_offset=1), leaf("s"), priority_offset=-100),
        parent("q", leaf("v"), priority_offset=-200),
        capacity=memory(20),
    )
    run(talk, "root.p.s", "s", priority=2)
    run(talk, "root.q.v", "v", priority=99)
    assert chosen(decide(talk, "root.p.c", priority=0)) == {"v"}
    talk.release(application_id="root.q.v", allocation_key="v")
    run(talk, "root.q.v", "higher", priority=102)
    assert decide(talk, "root.p.c", priority=0, app="again") is NO_NODE


# quotas


def test_nothing_is_preempted_for_an_ask_above_its_own_quota() -> None:
    talk = a_talk(leaf("c", 5, max={"memory": 9}), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    assert decide(talk) is QUOTA


def test_below_a_max_that_siblings_use_up_some_of_them_are_preempted_on_any_node() -> None:
    talk = a_talk(parent("p", leaf("c", 10), leaf("s"), max={"memory": 20}), leaf("v"), capacity=memory(100))
    run(talk, "root.p.s", "s1")
    run(talk, "root.p.s", "s2")
    run(talk, "root.v", "v")
    decision = decide(talk, "root.p.c")
    assert chosen(decision) == {"s2"}


def test_nothing_outside_a_max_that_is_reached_is_preempted() -> None:
    talk = a_talk(
        parent("p", leaf("c", 10), leaf("s", 20), max={"memory": 20}, guaranteed=20), leaf("v"), capacity=memory(30)
    )
    run(talk, "root.p.s", "s", 20)
    run(talk, "root.v", "v")
    assert decide(talk, "root.p.c") is NO_VICTIMS


# nodes


def test_all_victims_run_on_the_node_that_it_gets() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v1")
    talk.nodes(a_node("n2", memory(10)))
    run(talk, "root.v", "v2")
    assert decide(talk, amount=20) is NO_NODE


def test_it_gets_the_node_with_the_lowest_cost() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(30))
    run(talk, "root.v", "large", 30)
    talk.nodes(a_node("n2", memory(30)))
    run(talk, "root.v", "small1", 15)
    run(talk, "root.v", "small2", 15)
    talk.nodes(a_node("n3", memory(30)))
    run(talk, "root.v", "spared", 30, allow_preempt_self=False)
    assert chosen(decide(talk)) == {"small2"}


def test_a_lower_rank_on_another_node_costs_less() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "high", priority=0)
    talk.nodes(a_node("n2", memory(20)))
    run(talk, "root.v", "low", 20, priority=-1)
    assert chosen(decide(talk)) == {"low"}


def test_of_equal_nodes_the_first_in_order() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(20))
    run(talk, "root.v", "v1", 20)
    talk.nodes(a_node("n0", memory(20)))
    run(talk, "root.v", "v0", 20)
    assert chosen(decide(talk)) == {"v0"}


def test_a_node_with_an_aging_reservation_costs_nothing() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), leaf("o"), capacity=memory(20))
    run(talk, "root.v", "v1")
    run(talk, "root.v", "v2")
    talk.apps(an_app("other", "root.o"))
    talk.asks(an_ask("big", 20, app="other"))
    talk.schedule()
    talk.sleep(Timeouts().reservation_delay_ns)
    talk.schedule()
    talk.release(application_id="root.v", allocation_key="v1")
    assert chosen(decide(talk)) == set()


@pytest.mark.parametrize(
    "change",
    [
        a_node("n1", action=NodeAction.DRAIN_NODE),
        a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"}),
        a_node("n1", memory(9), action=NodeAction.UPDATE),
    ],
)
def test_a_node_that_takes_nothing_or_could_never_hold_it_is_left_alone(change: Any) -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    talk.nodes(change)
    assert decide(talk) is NO_NODE


# the resource manager has a say


def test_a_node_it_would_not_have_even_then_is_left_for_another() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "first")
    talk.nodes(a_node("n2", memory(10)))
    run(talk, "root.v", "second")
    best = decide(talk)
    assert isinstance(best, PlannedPreemption)
    application = talk.model().applications["claimer"]
    group = application.groups[best.ask.group_key]
    search = Search(talk.model(), application, group, best.ask, barred={best.node: "tainted"})
    assert search.run(10**9)
    other = planned(search)
    assert other is not None
    assert {best.node.node_id, other.node.node_id} == {"n1", "n2"}
    barred = Search(talk.model(), application, group, best.ask, barred={best.node: "tainted", other.node: "tainted"})
    assert barred.run(10**9)
    assert (planned(barred), barred.refusal) == (None, NO_NODE)


@pytest.mark.parametrize(("index", "ending"), [(0, ["k1"]), (1, ["k1", "k2"])])
def test_fewer_victims_are_preempted_if_that_is_enough(index: int, ending: list[str]) -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(20))
    for key in ("k1", "k2"):
        run(talk, "root.v", key)
    node = talk.model().nodes["n1"]
    first, second = node.allocations.values()
    decision = PlannedPreemption(first.application, first.ask, node, (first, second), "")
    assert [one.key for one in decision.up_to(index)] == ending


def test_all_victims_are_preempted_if_fewer_would_not_make_room() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(20))
    for key in ("k1", "k2"):
        run(talk, "root.v", key)
    best = decide(talk, amount=20)
    assert isinstance(best, PlannedPreemption)
    assert len(best.up_to(0)) == 2
