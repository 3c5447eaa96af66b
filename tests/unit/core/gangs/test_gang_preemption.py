"""Preemption for a gang that gathers: victims for all of its slots, or none."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.facts.preemption import PreemptionRefused
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.specs import SECOND_NS, WithinQueue
from tests.loops import each_row
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
)
from tests.unit.core.constraint_builders import HOST, IS_WEB, WEB, together
from tests.unit.core.gangs.test_declared_gangs import declares, held, member, state_of_gang, told


def a_crowd(*nodes: tuple[int, tuple[int, ...]], guaranteed: int = 100, others: int = 0) -> Conversation:
    """Nodes of so much memory, each with running allocations `n1-0`, `n1-1`, .. of these sizes in queue b; queue a is
    guaranteed this much, and b `others`."""
    queues = [a_queue_spec("a", guaranteed={"memory": guaranteed}), a_queue_spec("b", guaranteed={"memory": others})]
    talk = a_conversation(root=a_root(*queues))
    talk.apps(an_app("other", "root.b"))
    for number, (memory, sizes) in enumerate(nodes, 1):
        name = f"n{number}"
        running = [
            an_existing(f"u-{name}-{at}", f"{name}-{at}", "other", size, priority=0) for at, size in enumerate(sizes)
        ]
        talk.nodes(a_node(name, {"memory": memory}, *running))
    return talk


def preempted(facts: list[Fact]) -> list[str]:
    return sorted(one.allocation_key for one in of(ReleaseRequested, facts))


def let_go(talk: Conversation, facts: list[Fact]) -> None:
    for one in of(ReleaseRequested, facts):
        talk.release(application_id=one.application_id, uuid=one.uuid, termination=one.termination)


def asked(talk: Conversation, *sizes: int, priority: int = 0) -> list[Fact]:
    """A gang with a member of each size is asked for, and waits until it may preempt."""
    talk.apps(declares({"name": "w", "min": len(sizes)}))
    talk.asks(*[member(f"m{at}", size, allow_preempt_other=True, priority=priority) for at, size in enumerate(sizes)])
    return talk.schedule() + talk.sleep(31 * SECOND_NS) + talk.schedule()


def test_victims_are_chosen_for_all_slots_and_the_gang_gets_their_room() -> None:
    talk = a_crowd((20, (10, 10)), (10, (10,)))
    facts = asked(talk, 10, 10, 10)
    assert preempted(facts) == ["n1-0", "n1-1", "n2-0"]
    assert {one.termination for one in of(ReleaseRequested, facts)} == {TerminationType.PREEMPTED_BY_SCHEDULER}
    let_go(talk, facts)
    after = talk.schedule()
    assert (held(after), told(after)) == (3, ["m0", "m1", "m2"])


def test_nothing_is_preempted_if_there_is_not_room_for_all() -> None:
    talk = a_crowd((20, (10, 10)), (10, (10,)), others=10)
    facts = asked(talk, 10, 10, 10)
    assert preempted(facts) == []
    assert "on no node would" in only(PreemptionRefused, facts).reason


def test_nothing_is_preempted_if_the_queue_is_not_guaranteed_the_whole() -> None:
    assert preempted(asked(a_crowd((20, (10, 10)), (10, (10,)), guaranteed=25), 10, 10, 10)) == []


def test_free_room_is_used_first() -> None:
    talk = a_crowd((20, (10,)), (10, (10,)), (10, (10,)))
    assert len(preempted(asked(talk, 10, 10))) == 1


def test_a_victim_that_a_later_one_makes_needless_is_left_out() -> None:
    """The cheapest room for one slot is that of the small one; the second slot needs the large one, which frees enough
    for both."""
    talk = a_crowd((10, (10,)), (24, (24,)))
    assert preempted(asked(talk, 10, 10)) == ["n2-0"]


def test_what_is_free_and_what_is_made_free_are_held_together() -> None:
    talk = a_crowd((20, (10,)), (10, (10,)), (10, (10,)))
    facts = asked(talk, 10, 10)
    let_go(talk, facts)
    assert told(talk.schedule()) == ["m0", "m1"]


def test_a_gang_preempts_by_priority_in_its_own_leaf() -> None:
    leaf = a_queue_spec("a", preemption_within_queue=WithinQueue.PRIORITY)
    talk = a_conversation(root=a_root(leaf))
    running = [an_existing(f"u{at}", f"x{at}", priority=0) for at in range(2)]
    talk.nodes(a_node("n1", {"memory": 30}, *running))
    facts = asked(talk, 10, 10, 10, priority=5)
    assert preempted(facts) == ["x0", "x1"]
    let_go(talk, facts)
    assert told(talk.schedule()) == ["m0", "m1", "m2"]


def test_a_gang_with_a_member_that_may_not_preempt_does_not() -> None:
    talk = a_crowd((10, (10,)), (10, (10,)))
    talk.apps(declares({"name": "w", "min": 2}))
    talk.asks(member("a", allow_preempt_other=True), member("b"))
    assert preempted(talk.schedule() + talk.sleep(31 * SECOND_NS) + talk.schedule()) == []


@each_row(("members", "victims"), [(2, ["n1-1", "n2-0"]), (3, [])])
def test_members_that_exclude_each_other_get_victims_on_as_many_nodes_or_none(members: int, victims: list[str]) -> None:
    talk = a_crowd((20, (10, 10)), (10, (10,)))
    talk.apps(declares({"name": "w", "min": members}))
    alone: dict[str, Any] = {"tags": WEB, "constraint": together(HOST, IS_WEB, most=1)}
    talk.asks(*[member(f"m{at}", 10, allow_preempt_other=True, **alone) for at in range(members)])
    facts = talk.schedule() + talk.sleep(31 * SECOND_NS) + talk.schedule()
    assert preempted(facts) == victims
    let_go(talk, facts)
    assert len(told(talk.schedule())) == len(victims)
    assert not talk.scheduler.wants_cycle()


def test_members_above_min_are_preempted_first_and_the_newest_of_them_first() -> None:
    queues = [a_queue_spec("a"), a_queue_spec("b"), a_queue_spec("c", guaranteed={"memory": 20})]
    talk = a_conversation(root=a_root(*queues))
    talk.apps(an_app("other", "root.b"), an_app("asker", "root.c"), declares({"name": "w", "min": 2}))
    running = [an_existing(f"u{at}", f"m{at}", "gang", task_group="w", priority=5) for at in range(4)]
    talk.nodes(a_node("n1", {"memory": 50}, an_existing("x", "x", "other"), *running))
    for key, victims in (("k1", ["m3"]), ("k2", ["m2"])):
        talk.asks(an_ask(key, 10, 1, "asker", priority=9, allow_preempt_other=True))
        talk.schedule()
        facts = talk.sleep(31 * SECOND_NS) + talk.schedule()
        assert preempted(facts) == victims
        let_go(talk, facts)
        talk.schedule()


def test_members_that_the_gang_needs_are_ordinary_victims() -> None:
    queues = [a_queue_spec("a"), a_queue_spec("b"), a_queue_spec("c", guaranteed={"memory": 20})]
    talk = a_conversation(root=a_root(*queues))
    talk.apps(an_app("other", "root.b"), an_app("asker", "root.c"), declares({"name": "w", "min": 4}))
    running = [an_existing(f"u{at}", f"m{at}", "gang", task_group="w", priority=5) for at in range(4)]
    talk.nodes(a_node("n1", {"memory": 50}, an_existing("x", "x", "other"), *running))
    talk.asks(an_ask("k1", 10, 1, "asker", priority=9, allow_preempt_other=True))
    talk.schedule()
    assert preempted(talk.sleep(31 * SECOND_NS) + talk.schedule()) == ["x"]


def test_a_complete_gang_gathers_again_if_a_slot_is_preempted_before_a_member_was_allocated() -> None:
    queues = [a_queue_spec("a"), a_queue_spec("c", guaranteed={"memory": 10})]
    talk = a_conversation(a_node("n1", {"memory": 20}), root=a_root(*queues))
    talk.apps(an_app("asker", "root.c"), declares({"name": "w", "min": 2, "resources": {"memory": 10}}))
    assert (held(talk.schedule()), state_of_gang(talk)) == (2, GangState.COMPLETE)
    talk.asks(an_ask("k", 10, 1, "asker", allow_preempt_other=True))
    talk.schedule()
    assert told(talk.sleep(31 * SECOND_NS) + talk.schedule()) == ["k"], "nobody has to confirm the end of a slot"
    assert state_of_gang(talk) is GangState.GATHERING
    talk.asks(member("a"), member("b"))
    assert told(talk.schedule()) == []
    talk.nodes(a_node("n2", {"memory": 10}))
    assert told(talk.schedule()) == ["a", "b"]


def test_slots_of_known_size_may_preempt_once_a_member_that_is_asked_for_may() -> None:
    talk = a_crowd((20, (10, 10)), (10, (10,)))
    talk.apps(declares({"name": "w", "min": 1}, {"name": "v", "min": 2, "resources": {"memory": 10}}))
    assert preempted(talk.schedule() + talk.sleep(60 * SECOND_NS) + talk.schedule()) == []
    talk.asks(member("a", allow_preempt_other=True))
    facts = talk.schedule() + talk.sleep(31 * SECOND_NS) + talk.schedule()
    assert len(preempted(facts)) == 3
    let_go(talk, facts)
    assert told(talk.schedule()) == ["a"]
