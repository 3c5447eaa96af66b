"""Who has a right to whose room: guarantees, maxima, fences, priorities, and which node is best."""

from __future__ import annotations

import pytest

from schedulerd.core.language.specs import PreemptionPolicy
from schedulerd.core.state.plans.plan import PlannedPreemption
from tests.loops import each_row
from tests.unit.core.builders import (
    a_queue_spec,
    an_app,
)
from tests.unit.core.decisions import (
    NO_NODE,
    NO_VICTIMS,
    NOT_ENTITLED,
    a_talk,
    chosen,
    decide,
    leaf,
    memory,
    parent,
    run,
)
from tests.unit.core.preemption_builders import a_daemon

# the right: guarantees on the way of the ask


def test_a_queue_has_a_right_to_what_it_is_guaranteed() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity=memory(20))
    run(talk, "root.v", "v1")
    run(talk, "root.v", "v2")
    decision = decide(talk)
    assert chosen(decision) == {"v2"}
    assert isinstance(decision, PlannedPreemption)
    assert decision.why == "queue root.c is below its guarantee (0 of 10 memory)"
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


def test_what_was_reserved_counts() -> None:
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
    assert isinstance(decision, PlannedPreemption)
    assert decision.why == "queue root.p is below its guarantee (0 of 10 memory)"


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


def test_what_the_node_does_not_lack_needs_no_guarantee() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity={"memory": 10, "vcore": 10})
    run(talk, "root.v", "v")
    assert chosen(decide(talk, amount={"memory": 10, "vcore": 10})) == {"v"}


def test_a_right_to_one_resource_is_none_to_another() -> None:
    talk = a_talk(leaf("c", 10), leaf("v"), capacity={"memory": 20, "vcore": 10})
    run(talk, "root.v", "v", {"memory": 10, "vcore": 10})
    assert decide(talk, amount={"memory": 10, "vcore": 10}) is NO_NODE


@each_row("guaranteed", [{"gpu": 4}, {"gpu": 4, "vcore": 0}, {"gpu": 4, "vcore": 16}])
@each_row("of_parent", [{}, {"gpu": 4}, {"gpu": 4, "vcore": 16}])
def test_what_the_guarantee_does_not_name_is_taken_along_with_what_it_names(
    guaranteed: dict[str, int], of_parent: dict[str, int]
) -> None:
    c = a_queue_spec("p", a_queue_spec("c", guaranteed=guaranteed), guaranteed=of_parent)
    talk = a_talk(c, leaf("v"), capacity={"gpu": 4, "vcore": 16})
    for number in range(4):
        run(talk, "root.v", f"v{number}", {"gpu": 1, "vcore": 4})
    decision = decide(talk, "root.p.c", amount={"gpu": 2, "vcore": 8})
    assert chosen(decision) == {"v2", "v3"}
    assert isinstance(decision, PlannedPreemption)
    assert decision.why.endswith(" is below its guarantee (0 of 4 gpu)")


def test_one_that_frees_only_what_is_not_named_may_be_taken_beside() -> None:
    talk = a_talk(a_queue_spec("c", guaranteed={"gpu": 4}), leaf("v"), leaf("w"), capacity={"gpu": 4, "vcore": 16})
    run(talk, "root.v", "gpus", {"gpu": 4})
    run(talk, "root.w", "cores", {"vcore": 16})
    assert chosen(decide(talk, amount={"gpu": 4, "vcore": 16})) == {"gpus", "cores"}


def test_an_ask_that_goes_beyond_a_resource_that_the_guarantee_names_has_no_right_whatever_is_short() -> None:
    talk = a_talk(a_queue_spec("c", guaranteed={"gpu": 4, "vcore": 4}), leaf("v"), capacity={"gpu": 4, "vcore": 100})
    run(talk, "root.v", "v", {"gpu": 4})
    assert decide(talk, amount={"gpu": 1, "vcore": 5}) is NOT_ENTITLED


def test_a_guarantee_of_something_else_is_no_right() -> None:
    talk = a_talk(a_queue_spec("c", guaranteed={"vcore": 10}), leaf("v"), capacity={"memory": 10, "vcore": 10})
    run(talk, "root.v", "v")
    assert decide(talk) is NOT_ENTITLED


# the victims: their queues keep their guarantees


def test_a_queue_retains_what_it_is_guaranteed() -> None:
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


def test_what_its_queue_could_ask_back_is_no_victim_whatever_the_ask_is_short_of() -> None:
    talk = a_talk(leaf("c", 10), a_queue_spec("v", guaranteed={"vcore": 5}), capacity={"memory": 20, "vcore": 10})
    run(talk, "root.v", "both", {"memory": 10, "vcore": 5})
    run(talk, "root.v", "memory", {"memory": 10})
    assert chosen(decide(talk)) == {"memory"}
    assert decide(talk, amount=20, app="greedy") is NOT_ENTITLED


def test_nor_are_so_many_that_one_of_them_could_be_asked_back() -> None:
    """15 memory of 12 guaranteed: without one of them the queue is at 10, and a second could be asked back."""
    talk = a_talk(
        a_queue_spec("c", guaranteed={"vcore": 9}), a_queue_spec("v", guaranteed={"memory": 12}),
        capacity={"memory": 15, "vcore": 9},
    )  # fmt: skip
    for key in ("v1", "v2", "v3"):
        run(talk, "root.v", key, {"memory": 5, "vcore": 3})
    assert chosen(decide(talk, amount={"vcore": 3})) == {"v3"}
    assert decide(talk, amount={"vcore": 6}, app="greedy") is NO_NODE


def test_a_queue_that_hogs_cores_does_not_hide_behind_its_guarantee_of_memory() -> None:
    hog = a_queue_spec("v", guaranteed={"memory": 50, "vcore": 2})
    talk = a_talk(a_queue_spec("c", guaranteed={"vcore": 5}), hog, capacity={"memory": 50, "vcore": 10})
    for key in ("v1", "v2"):
        run(talk, "root.v", key, {"memory": 5, "vcore": 5})
    assert chosen(decide(talk, amount={"vcore": 5})) == {"v2"}


def test_but_it_retains_its_guarantee_of_what_the_ask_is_short_of() -> None:
    hog = a_queue_spec("v", guaranteed={"memory": 50, "vcore": 2})
    talk = a_talk(a_queue_spec("c", guaranteed={"vcore": 5, "memory": 5}), hog, capacity={"memory": 10, "vcore": 10})
    for key in ("v1", "v2"):
        run(talk, "root.v", key, {"memory": 5, "vcore": 5})
    assert decide(talk, amount={"vcore": 5, "memory": 5}) is NO_NODE


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


def test_nothing_beyond_a_fence_is_preempted() -> None:
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


def test_an_ask_in_a_fenced_leaf_preempts_nothing_at_all() -> None:
    talk = a_talk(leaf("c", 20, preemption_policy=PreemptionPolicy.FENCE), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "v")
    assert decide(talk) is NOT_ENTITLED


def test_a_fence_does_not_protect_what_is_inside() -> None:
    fence = PreemptionPolicy.FENCE
    talk = a_talk(leaf("c", 20), parent("p", leaf("v"), preemption_policy=fence), capacity=memory(10))
    run(talk, "root.p.v", "v")
    assert chosen(decide(talk)) == {"v"}
