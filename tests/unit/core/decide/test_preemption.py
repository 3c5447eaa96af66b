"""Who has a right to whose room: guarantees, maxima, fences, priorities, and which node is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from schedulerd.core.commands import NodeAction
from schedulerd.core.decide.preemption import Decision, Search
from schedulerd.core.preemption_facts import PreemptionRefusal
from schedulerd.core.resources import Resources
from schedulerd.core.specs import PreemptionPolicy, PriorityPolicy, QueueSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    placed,
)
from tests.unit.core.claims import a_claim, a_daemon

NOT_ENTITLED = PreemptionRefusal.NOT_ENTITLED
QUOTA = PreemptionRefusal.QUOTA
NO_VICTIMS = PreemptionRefusal.NO_VICTIMS
NO_NODE = PreemptionRefusal.NO_NODE


def memory(amount: int) -> dict[str, int]:
    return {"memory": amount}


def leaf(name: str, guaranteed: int = 0, **fields: Any) -> QueueSpec:
    return a_queue_spec(name, guaranteed=memory(guaranteed) if guaranteed else None, **fields)


def parent(name: str, *children: QueueSpec, guaranteed: int = 0, **fields: Any) -> QueueSpec:
    return a_queue_spec(name, *children, guaranteed=memory(guaranteed) if guaranteed else None, **fields)


def a_talk(*queues: QueueSpec, capacity: Mapping[str, int] | None = None) -> Conversation:
    """These queues, and n1."""
    return a_conversation(a_node("n1", dict(capacity or memory(100))), root=a_root(*queues))


def run(talk: Conversation, queue: str, key: str, amount: int | Mapping[str, int] = 10, **fields: Any) -> None:
    """Something runs in the queue, in an application called like the queue unless told otherwise."""
    app = fields.pop("app", queue)
    if app not in talk.model().applications:
        talk.apps(an_app(app, queue))
    resources = Resources(memory(amount) if isinstance(amount, int) else amount)
    talk.asks(an_ask(key, app=app, resources=resources, **fields))
    assert [entry[:2] for entry in placed(talk.schedule())] == [(app, key)]


def decide(
    talk: Conversation, queue: str = "root.c", amount: int | Mapping[str, int] = 10, **fields: Any
) -> Decision | PreemptionRefusal | None:
    """What is decided for one that asks for so much in the queue, and why not if that is nothing."""
    app = fields.pop("app", "claimer")
    if app not in talk.model().applications:
        talk.apps(an_app(app, queue))
    resources = Resources(memory(amount) if isinstance(amount, int) else amount)
    talk.asks(a_claim("c", app=app, resources=resources, **fields))
    assert placed(talk.schedule()) == []
    application = talk.model().applications[app]
    ask = application.asks["c"]
    search = Search(application, application.groups[ask.band], ask)
    assert search.run(10**9)
    return search.decision() or search.refusal


def chosen(decision: Decision | PreemptionRefusal | None) -> set[str]:
    assert isinstance(decision, Decision), decision
    return {one.key for one in decision.victims}


# the right: guarantees on the way of the ask


def test_a_queue_has_a_right_to_what_it_is_guaranteed() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity=memory(20))
    run(talk, "root.v", "v1")
    run(talk, "root.v", "v2")
    decision = decide(talk)
    assert chosen(decision) == {"v2"}
    assert isinstance(decision, Decision)
    assert decision.why == "root.c uses memory 0 of the 10 that it is guaranteed"
    assert (decision.ask.key, decision.node.node_id, decision.application.application_id) == ("c", "n1", "claimer")
    assert all(one.releasing is None for one in decision.victims)


@pytest.mark.parametrize("guaranteed", [0, 9])
def test_and_to_no_more(guaranteed: int) -> None:
    talk = a_talk(leaf("c", guaranteed), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    assert decide(talk) is NOT_ENTITLED


def test_what_it_uses_counts() -> None:
    talk = a_talk(leaf("c", 15), leaf("v"), capacity=memory(20))
    run(talk, "root.c", "own")
    run(talk, "root.v", "v")
    assert decide(talk) is NOT_ENTITLED


def test_what_was_claimed_counts() -> None:
    talk = a_talk(leaf("c", 15), leaf("v"), capacity=memory(20))
    run(talk, "root.v", "v1")
    run(talk, "root.v", "v2")
    talk.apps(an_app("daemons", "root.c"))
    talk.asks(a_daemon("d"))
    talk.schedule()
    assert decide(talk) is NOT_ENTITLED


def test_what_is_leaving_it_does_not_count() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), leaf("d"), capacity=memory(30))
    run(talk, "root.v", "v1")
    run(talk, "root.v", "v2")
    run(talk, "root.c", "own")
    talk.apps(an_app("daemons", "root.d"))
    talk.asks(a_daemon("d"))
    talk.schedule()
    assert [one.key for one in talk.model().allocations.values() if one.releasing is not None] == ["own"]
    assert chosen(decide(talk)) == {"v2"}


def test_a_parent_may_have_the_right_for_its_leaf() -> None:
    talk = a_talk(parent("p", leaf("c"), leaf("s"), guaranteed=10), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    decision = decide(talk, "root.p.c")
    assert chosen(decision) == {"v"}
    assert isinstance(decision, Decision)
    assert decision.why == "root.p uses memory 0 of the 10 that it is guaranteed"


def test_but_not_against_its_other_children() -> None:
    talk = a_talk(parent("p", leaf("c"), leaf("s"), guaranteed=20), leaf("v"), capacity=memory(10))
    run(talk, "root.p.s", "s")
    assert decide(talk, "root.p.c") is NO_VICTIMS


def test_all_that_guarantee_it_have_to_stay_within() -> None:
    talk = a_talk(parent("p", leaf("c", 10), leaf("s"), guaranteed=10), leaf("v"), capacity=memory(20))
    run(talk, "root.p.s", "s")
    run(talk, "root.v", "v")
    assert chosen(decide(talk, "root.p.c")) == {"s"}


def test_a_parent_above_its_guarantee_leaves_the_right_against_siblings() -> None:
    talk = a_talk(parent("p", leaf("c", 10), leaf("s"), guaranteed=10), leaf("v"), capacity=memory(30))
    run(talk, "root.p.s", "s1")
    run(talk, "root.p.s", "s2")
    run(talk, "root.v", "v")
    assert chosen(decide(talk, "root.p.c")) == {"s2"}


def test_the_queue_that_holds_both_has_no_say() -> None:
    talk = a_talk(parent("p", leaf("c", 10), leaf("s"), guaranteed=10), capacity=memory(20))
    run(talk, "root.p.s", "s", 20)
    assert chosen(decide(talk, "root.p.c")) == {"s"}


def test_its_own_leaf_gives_nothing() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(10))
    run(talk, "root.c", "own")
    assert decide(talk) is NO_VICTIMS


# resource by resource


def test_what_the_node_lacks_has_to_be_guaranteed_and_the_rest_does_not_matter() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity={"memory": 10, "vcore": 10})
    run(talk, "root.v", "v")
    assert chosen(decide(talk, amount={"memory": 10, "vcore": 10})) == {"v"}


def test_a_right_to_one_resource_is_none_to_another() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity={"memory": 20, "vcore": 10})
    run(talk, "root.v", "v", {"memory": 10, "vcore": 10})
    assert decide(talk, amount={"memory": 10, "vcore": 10}) is NO_NODE


def test_not_even_if_the_same_victim_would_free_both() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity={"memory": 10, "vcore": 10})
    run(talk, "root.v", "v", {"memory": 10, "vcore": 10})
    assert decide(talk, amount={"memory": 10, "vcore": 10}) is NO_NODE


def test_a_guarantee_of_something_else_is_no_right() -> None:
    talk = a_talk(a_queue_spec("c", guaranteed={"vcore": 10}), leaf("v"), capacity={"memory": 10, "vcore": 10})
    run(talk, "root.v", "v")
    assert decide(talk) is NOT_ENTITLED


# the victims: their queues keep their guarantees


def test_a_queue_keeps_what_it_is_guaranteed() -> None:
    talk = a_talk(leaf("c", 30), leaf("v", 15), capacity=memory(30))
    for key in ("v1", "v2", "v3"):
        run(talk, "root.v", key)
    assert chosen(decide(talk)) == {"v3"}
    assert decide(talk, amount=20, app="greedy") is NO_NODE


def test_so_does_every_queue_on_its_way() -> None:
    talk = a_talk(leaf("c", 30), parent("p", leaf("v"), guaranteed=15), capacity=memory(20))
    run(talk, "root.p.v", "v1")
    run(talk, "root.p.v", "v2")
    assert decide(talk, amount=10) is NO_NODE


def test_and_in_every_resource_that_the_victim_uses() -> None:
    talk = a_talk(leaf("c", 10), a_queue_spec("v", guaranteed={"vcore": 5}), capacity={"memory": 20, "vcore": 10})
    run(talk, "root.v", "both", {"memory": 10, "vcore": 5})
    run(talk, "root.v", "memory", {"memory": 10})
    assert chosen(decide(talk)) == {"memory"}
    assert decide(talk, amount=20, app="greedy") is NOT_ENTITLED


def test_what_is_leaving_the_queue_already_is_not_its_own_any_longer() -> None:
    talk = a_talk(leaf("c", 30), leaf("v", 10), leaf("d"), capacity=memory(20))
    run(talk, "root.v", "v1")
    run(talk, "root.v", "v2")
    talk.apps(an_app("daemons", "root.d"))
    talk.asks(a_daemon("d"))
    talk.schedule()
    assert decide(talk) is NO_NODE


def test_two_leaves_share_what_their_parent_can_spare() -> None:
    talk = a_talk(leaf("c", 30), parent("p", leaf("v"), leaf("w"), guaranteed=10), capacity=memory(20))
    run(talk, "root.p.v", "v")
    run(talk, "root.p.w", "w")
    assert len(chosen(decide(talk))) == 1
    assert decide(talk, amount=20, app="greedy") is NO_NODE


def test_a_queue_that_does_not_want_it_gives_nothing() -> None:
    talk = a_talk(leaf("c", 10), leaf("v", preemption_policy=PreemptionPolicy.DISABLED), capacity=memory(10))
    run(talk, "root.v", "v")
    assert decide(talk) is NO_VICTIMS


def test_what_requires_its_node_and_what_is_leaving_stays() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), leaf("d"), capacity=memory(20))
    run(talk, "root.v", "v1", tags={"yunikorn.apache.org/requiredNode": "n1"})
    run(talk, "root.v", "v2")
    assert chosen(decide(talk)) == {"v2"}
    assert decide(talk, amount=20, app="greedy") is NO_NODE


# fences


def test_nothing_beyond_a_fence_ends() -> None:
    fence = PreemptionPolicy.FENCE
    talk = a_talk(
        parent("p", leaf("c", 20), leaf("s"), guaranteed=40, preemption_policy=fence), leaf("v"), capacity=memory(20)
    )
    run(talk, "root.v", "v", 20)
    assert decide(talk, "root.p.c") is NO_VICTIMS


def test_within_it_others_do() -> None:
    fence = PreemptionPolicy.FENCE
    talk = a_talk(
        parent("p", leaf("c", 20), leaf("s"), guaranteed=40, preemption_policy=fence), leaf("v"), capacity=memory(20)
    )
    run(talk, "root.p.s", "s")
    run(talk, "root.v", "v")
    assert chosen(decide(talk, "root.p.c")) == {"s"}


def test_a_fenced_leaf_ends_nothing_at_all() -> None:
    talk = a_talk(leaf("c", 20, preemption_policy=PreemptionPolicy.FENCE), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    assert decide(talk) is NOT_ENTITLED


def test_a_fence_does_not_protect_what_is_inside() -> None:
    fence = PreemptionPolicy.FENCE
    talk = a_talk(leaf("c", 20), parent("p", leaf("v"), preemption_policy=fence), capacity=memory(10))
    run(talk, "root.p.v", "v")
    assert chosen(decide(talk)) == {"v"}


# priorities


@pytest.mark.parametrize(("priority", "ends"), [(4, False), (5, True), (6, True)])
def test_a_victim_does_not_rank_above_the_ask(priority: int, ends: bool) -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v", priority=5)
    found = decide(talk, priority=priority)
    assert (found is NO_NODE) is not ends


@pytest.mark.parametrize(
    ("claims", "victims", "ends"),
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
def test_offsets_and_priority_fences_count(claims: dict[str, Any], victims: dict[str, Any], ends: bool) -> None:
    talk = a_talk(leaf("c", 10, **claims), leaf("v", **victims), capacity=memory(10))
    run(talk, "root.v", "v", priority=5)
    assert (decide(talk, priority=0) is NO_NODE) is not ends


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


def test_an_ask_above_its_own_quota_has_nobody_ended() -> None:
    talk = a_talk(leaf("c", 5, max={"memory": 9}), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    assert decide(talk) is QUOTA


def test_a_max_that_siblings_use_up_makes_some_of_them_end_on_whatever_node() -> None:
    talk = a_talk(parent("p", leaf("c", 10), leaf("s"), max={"memory": 20}), leaf("v"), capacity=memory(100))
    run(talk, "root.p.s", "s1")
    run(talk, "root.p.s", "s2")
    run(talk, "root.v", "v")
    decision = decide(talk, "root.p.c")
    assert chosen(decision) == {"s2"}


def test_nobody_outside_a_max_that_is_reached_ends() -> None:
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


def test_it_gets_the_node_where_the_least_harm_is_done() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(30))
    run(talk, "root.v", "large", 30)
    talk.nodes(a_node("n2", memory(30)))
    run(talk, "root.v", "small1", 15)
    run(talk, "root.v", "small2", 15)
    talk.nodes(a_node("n3", memory(30)))
    run(talk, "root.v", "spared", 30, allow_preempt_self=False)
    assert chosen(decide(talk)) == {"small2"}


def test_a_lower_rank_on_another_node_is_less_harm() -> None:
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


def test_a_node_with_room_that_is_kept_for_an_ordinary_ask_costs_nothing() -> None:
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
    assert isinstance(best, Decision)
    application = talk.model().applications["claimer"]
    group = application.groups[best.ask.band]
    search = Search(application, group, best.ask, barred={best.node: "tainted"})
    assert search.run(10**9)
    other = search.decision()
    assert other is not None
    assert {best.node.node_id, other.node.node_id} == {"n1", "n2"}
    barred = Search(application, group, best.ask, barred={best.node: "tainted", other.node: "tainted"})
    assert barred.run(10**9)
    assert (barred.decision(), barred.refusal) == (None, NO_NODE)


@pytest.mark.parametrize(("index", "ending"), [(0, ["k1"]), (1, ["k1", "k2"])])
def test_fewer_victims_end_if_that_is_enough(index: int, ending: list[str]) -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(20))
    for key in ("k1", "k2"):
        run(talk, "root.v", key)
    node = talk.model().nodes["n1"]
    first, second = node.allocations.values()
    decision = Decision(first.application, first.ask, node, (first, second), "")
    assert [one.key for one in decision.up_to(index)] == ending


def test_all_victims_end_if_fewer_would_not_make_room() -> None:
    talk = a_talk(leaf("c", 20), leaf("v"), capacity=memory(20))
    for key in ("k1", "k2"):
        run(talk, "root.v", key)
    best = decide(talk, amount=20)
    assert isinstance(best, Decision)
    assert len(best.up_to(0)) == 2
