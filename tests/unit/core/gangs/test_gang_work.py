"""What a gang without placeholders costs, counted and not timed, and how its work is divided among steps."""

from __future__ import annotations

from unittest.mock import patch

from schedulerd.core.language.commands import NodeAction, RunCycle
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.facts.gangs import GangCompleted
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.state.actions import slot_room
from schedulerd.core.state.model import gang as gang_model
from schedulerd.core.state.nodes import gang_plan
from tests.loops import each_row
from tests.unit.core.builders import Conversation, a_conversation, a_node, an_app, an_ask, of, only
from tests.unit.core.gangs.test_declared_gangs import declares, held, in_racks, member, racks, state_of_gang, told


def cost(full: int, pending: int, members: int = 8) -> int:
    """Visits of domains and nodes for the second gang that requires a rack, beside so many full nodes and asks that
    wait for room."""
    talk = racks(*[("a", 80)] * 4, *[("b", 100)] * 4, *[(f"full{at % 40}", 20) for at in range(full)])
    talk.apps(an_app())
    on = [one for one in talk.model().nodes.values() if one.attributes["r"].startswith("full")]
    tags = [{"yunikorn.apache.org/requiredNode": one.node_id} for one in on]
    talk.asks(*[an_ask(f"x{at}", 20, tags=one) for at, one in enumerate(tags)])
    talk.asks(*[an_ask(f"y{at}", 1_000) for at in range(pending)])
    talk.schedule()
    for name in ("first", "gang"):
        before = talk.model().retry_timers.budget.visits
        declared = declares({"name": "w", "min": members, "topology": {"required": "rack"}})
        declared.application_id = name
        talk.apps(declared)
        talk.asks(*[an_ask(f"m{at}", 10, app=name, task_group="w") for at in range(members)])
        assert len(told(talk.schedule())) == members
    assert in_racks(talk) == ["a"] * members
    return talk.model().retry_timers.budget.visits - before


def test_a_gang_costs_the_same_beside_full_nodes_and_pending_asks() -> None:
    once = cost(full=40, pending=10)
    assert cost(full=400, pending=10) == once
    assert cost(full=40, pending=300) == once


def test_a_gang_costs_as_much_for_each_member_if_it_is_larger() -> None:
    assert cost(full=40, pending=10, members=16) <= 2 * cost(full=40, pending=10, members=8)


def test_members_that_are_all_there_need_no_slots() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(member("a"), member("b"), member("c"))
    facts = talk.schedule()
    assert (told(facts), held(facts), state_of_gang(talk)) == (["a", "b", "c"], 0, GangState.COMPLETE)
    assert only(GangCompleted, facts).placeholders == 3


@each_row("most", [1, 2, 3, 100])
def test_a_large_gang_is_complete_before_its_members_are_allocated_slice_by_slice(most: int) -> None:
    talk = racks(*[("a", 20)] * 5, *[("b", 20)] * 4)
    with patch.object(gang_model, "TOGETHER_MAX", 4):
        talk.apps(declares({"name": "w", "min": 9, "topology": {"required": "rack"}}))
        talk.asks(*[member(f"m{at}") for at in range(9)])
        steps: list[list[Fact]] = []
        while talk.scheduler.wants_cycle():
            steps.append(talk.step(RunCycle(most)))
            assert len(told(steps[-1])) <= most
    slots, members = [held(one) for one in steps], [len(told(one)) for one in steps]
    assert (sum(slots), sum(members)) == (9, 9)
    first = next(at for at, count in enumerate(members) if count)
    assert not any(slots[first + 1 :]), "no member before all slots have room"
    assert in_racks(talk) == ["a"] * 9


def test_a_large_gang_holds_nothing_while_it_cannot_have_room() -> None:
    talk = racks(("a", 40), ("b", 40))
    with patch.object(gang_model, "TOGETHER_MAX", 4):
        talk.apps(declares({"name": "w", "min": 6, "topology": {"required": "rack"}}))
        talk.asks(*[member(f"m{at}") for at in range(6)])
        facts = talk.schedule()
        assert (held(facts), told(facts)) == (0, [])
        talk.nodes(a_node("more", {"memory": 20}, attributes={"r": "b"}))
        assert len(told(talk.schedule())) == 6
    assert in_racks(talk) == ["b"] * 6


def test_a_large_gang_follows_members_that_leave_while_it_holds_slots() -> None:
    talk = a_conversation(a_node("n1", {"memory": 60}))
    with patch.object(gang_model, "TOGETHER_MAX", 2):
        talk.apps(declares({"name": "w", "min": 4}))
        talk.asks(*[member(f"m{at}") for at in range(4)], member("large", 50))
        talk.step(RunCycle(3))
        talk.release_asks(application_id="gang", allocation_key="m3")
        talk.schedule()
        assert (state_of_gang(talk), talk.model().allocations) != (GangState.COMPLETE, {})
        talk.nodes(a_node("n2", {"memory": 50}))
        assert sorted(told(talk.schedule())) == ["large", "m0", "m1", "m2"]


def planned() -> Conversation:
    """A gang of three for which nodes were found in one step, and that is allocated in the next one."""
    talk = a_conversation(*[a_node(f"n{at}", {"memory": 10}) for at in range(4)])
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(member("a"), member("b"), member("c"))
    facts = talk.cycle()
    assert of(Allocated, facts) == []
    assert talk.scheduler.wants_cycle()
    return talk


def test_a_plan_of_many_members_is_carried_out_in_the_next_step() -> None:
    with patch.object(slot_room, "PLANNED_AND_MADE_MAX", 2):
        assert told(planned().cycle()) == ["a", "b", "c"]


def test_a_gang_of_300_is_planned_in_one_step_and_allocated_in_the_next() -> None:
    talk = a_conversation(a_node("n", {"memory": 3_000}))
    talk.apps(declares({"name": "w", "min": 300}))
    talk.asks(member("m", count=300))
    assert [len(told(talk.cycle(1_000))) for _ in range(2)] == [0, 300]


def test_a_plan_that_does_not_hold_any_longer_is_made_anew() -> None:
    with patch.object(slot_room, "PLANNED_AND_MADE_MAX", 2):
        talk = planned()
        talk.nodes(a_node("n0", action=NodeAction.DRAIN_NODE))
        assert told(talk.schedule()) == ["a", "b", "c"]
        talk = planned()
        talk.nodes(a_node("n0", action=NodeAction.DRAIN_NODE), a_node("n1", action=NodeAction.DRAIN_NODE))
        assert told(talk.schedule()) == []


def test_a_large_gang_is_held_in_as_many_calls_as_it_takes() -> None:
    with patch.object(gang_model, "TOGETHER_MAX", 2), patch.object(slot_room, "HELD_AT_ONCE", 2):
        talk = a_conversation(*[a_node(f"n{at}", {"memory": 10}) for at in range(5)])
        talk.apps(declares({"name": "w", "min": 5}))
        talk.asks(*[member(f"m{at}") for at in range(5)])
        held = [len(of(Allocated, talk.cycle(placements_max=1))) for _ in range(4)]
        assert max(held) == 2
        talk.schedule()
        assert len(talk.model().allocations) == 5


def test_a_plan_is_not_carried_out_for_other_members() -> None:
    with patch.object(slot_room, "PLANNED_AND_MADE_MAX", 2):
        talk = planned()
        talk.release_asks(application_id="gang", allocation_key="b")
        assert told(talk.schedule()) == []
        talk.asks(member("d", 20))
        assert told(talk.schedule()) == []


def test_nodes_are_counted_in_slices() -> None:
    talk = racks(*[("a", 10)] * 7, *[("b", 10)] * 2)
    talk.apps(declares({"name": "w", "min": 7, "topology": {"required": "rack"}}))
    talk.asks(*[member(f"m{at}") for at in range(7)])
    with patch.object(gang_plan, "COUNTED_MAX", 2):
        assert [len(told(talk.cycle())) for _ in range(5)] == [0, 0, 0, 0, 7]


def test_a_gang_of_more_sizes_than_indexes_are_kept_is_counted_at_once() -> None:
    """Otherwise each index would be dropped before the last one is counted."""
    talk = racks(*[("a", 1_000)] * 4)
    talk.apps(declares({"name": "w", "min": 40, "topology": {"required": "rack"}}))
    talk.asks(*[member(f"m{at}", 10 + at) for at in range(40)])
    with patch.object(gang_plan, "COUNTED_MAX", 1):
        assert len(told(talk.cycle())) == 40
