"""Gangs that declare their task groups, where the RM is told of held slots and asked about them."""

from __future__ import annotations

import json
from typing import Any

from schedulerd.core.language.commands import ConnectCallbacks, NewAsk
from schedulerd.core.language.facts.fact import Allocated, Fact, Released
from schedulerd.core.language.facts.predicates import PredicateWanted, SlotHeld
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingState
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.observe.explain_sentences import reason_clause
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import a_node, an_app, an_ask, of
from tests.unit.core.explain.explained import explained_app, story

RM_ID = AnsweringRM().rm_id
GROUP = {"name": "w", "min": 2, "resources": {"memory": 10}}
HOLDS = ConnectCallbacks(RM_ID, predicates=True, holds=True)


def a_talk(says: Refuses, nodes: int, *groups: dict[str, Any], connect: ConnectCallbacks = HOLDS) -> AnsweringRM:
    talk = AnsweringRM(says)
    talk.begin()
    talk.step(connect)
    talk.nodes(*(a_node(f"n{number}", {"memory": 10}) for number in range(nodes)))
    talk.apps(an_app("gang", "root.a", tags={TASK_GROUPS_TAG: json.dumps(groups)}))
    return talk


def member(key: str) -> NewAsk:
    return an_ask(key, 10, 1, "gang", task_group="w")


def asked(facts: list[Fact]) -> set[tuple[str, str]]:
    return {(one.allocation_key, one.node_id) for one in of(PredicateWanted, facts) if one.slot_of}


def placed(facts: list[Fact], *, slot: bool = False) -> set[tuple[str, str]]:
    return {(one.allocation_key, one.node_id) for one in of(Allocated, facts) if one.slot is slot}


def state(talk: AnsweringRM) -> GangState | None:
    gang = talk.model().applications["gang"].gang
    assert gang is not None
    return gang.state


def test_the_rm_is_asked_about_each_slot_and_not_again_about_its_member() -> None:
    talk = a_talk(Refuses(("slot of a", "n0")), 3, {"name": "w", "min": 2})
    talk.asks(member("a"), member("b"))
    facts = talk.schedule()
    assert {key for key, _ in asked(facts)} == {"slot of a", "slot of b"}
    assert [one for one in of(PredicateWanted, facts) if not one.slot_of] == []
    held = placed(facts, slot=True)
    assert placed(facts) == {(key.removeprefix("slot of "), node) for key, node in held}
    assert ("a", "n0") not in placed(facts)
    assert state(talk) is GangState.COMPLETE


def test_no_member_is_allocated_while_the_rm_refuses_all_nodes_for_one_of_them() -> None:
    talk = a_talk(Refuses(*(("slot of a", f"n{number}") for number in range(2))), 2, {"name": "w", "min": 2})
    talk.asks(member("a"), member("b"))
    facts = talk.schedule()
    assert placed(facts) == set()
    assert {key for key, _ in placed(facts, slot=True)} == {"slot of b"}
    talk.nodes(a_node("n2", {"memory": 10}))
    assert {key for key, _ in placed(talk.schedule())} == {"a", "b"}


def test_after_a_while_slots_are_held_one_by_one_where_there_is_room() -> None:
    talk = a_talk(Refuses(), 0, {"name": "w", "min": 3})
    talk.nodes(a_node("n", {"memory": 30}))
    talk.apps(an_app("other", "root.a"))
    talk.asks(an_ask("x", 10, 1, "other"))
    talk.schedule()
    talk.asks(member("a"), member("b"), member("c"))
    assert asked(talk.schedule()) == set()
    facts = talk.sleep(3 * SECOND_NS) + talk.schedule()
    assert len(placed(facts, slot=True)) == 2


def test_the_rm_is_not_asked_before_there_is_room_for_all() -> None:
    talk = a_talk(Refuses(), 1, {"name": "w", "min": 2})
    talk.asks(member("a"), member("b"))
    assert asked(talk.schedule()) == set()
    talk.nodes(a_node("n1", {"memory": 10}))
    assert len(asked(talk.schedule())) == 2


def test_slots_for_any_member_are_asked_about_with_the_tags_of_their_group() -> None:
    group = {"name": "w", "min": 2, "resources": {"memory": 10}}
    talk = a_talk(Refuses(), 2, {**group, "tags": {"schedulerd.io/predicates": "none"}})
    assert asked(facts := talk.schedule()) == set()
    assert {key for key, _ in placed(facts, slot=True)} == {"slots of w"}
    talk = a_talk(Refuses(("slots of w", "n1")), 3, group)
    facts = talk.schedule()
    assert {node for _, node in placed(facts, slot=True)} == {"n0", "n2"}


def test_a_slot_for_any_member_is_held_where_the_selector_of_its_group_allows() -> None:
    selector = {"schedulerd.io/node-selector": "zone in (b)", "schedulerd.io/predicates": "none"}
    talk = a_talk(Refuses(), 1, {"name": "w", "min": 1, "resources": {"memory": 10}, "tags": selector})
    assert placed(talk.schedule(), slot=True) == set()
    talk.nodes(a_node("b", {"memory": 10}, attributes={"zone": "b"}))
    assert placed(talk.schedule(), slot=True) == {("slots of w", "b")}


def test_an_rm_that_is_told_of_no_holds_is_asked_about_members_only() -> None:
    talk = a_talk(Refuses(), 2, {"name": "w", "min": 2}, connect=ConnectCallbacks(RM_ID, predicates=True))
    talk.asks(member("a"), member("b"))
    facts = talk.schedule()
    assert asked(facts) == set()
    assert {one.allocation_key for one in of(PredicateWanted, facts)} == {"a", "b"}


def test_an_rm_that_connects_is_told_what_is_held_and_is_asked_about_all_of_it() -> None:
    group = {"name": "w", "min": 2, "resources": {"memory": 10}}
    talk = a_talk(Refuses(), 2, group, connect=ConnectCallbacks(RM_ID, predicates=True))
    held = {one.uuid for one in of(Allocated, talk.schedule()) if one.slot}
    assert len(held) == 2
    facts = talk.step(HOLDS)
    assert {one.uuid for one in of(SlotHeld, facts)} == held
    facts += talk.schedule()
    assert held <= {one.uuid for one in of(Released, facts)} or asked(facts) == set()


def test_all_members_are_told_that_the_rm_refuses_all_nodes_for_one_of_them() -> None:
    refuses = Refuses(*(("slot of a", f"n{number}") for number in range(2)))
    wants = ConnectCallbacks(RM_ID, predicates=True, holds=True, pending_reasons=True)
    talk = a_talk(refuses, 2, {"name": "w", "min": 2}, connect=wants)
    talk.asks(member("a"), member("b"), member("c"))
    facts = talk.schedule() + talk.sleep(3 * SECOND_NS)
    told = {one.allocation_key: one for one in of(PendingReasonChanged, facts)}
    assert set(told) == set("abc")
    assert {(one.state, one.scheduling_state, one.with_room, one.needed) for one in told.values()} == {
        ("predicate_failed", SchedulingState.FAILED, 1, 2)
    }
    [reason] = explained_app(talk, "gang").reasons
    assert reason_clause(reason, talk.now_ns) == (
        "gang: 1 of 2 have room; the next needs 10 memory, and its resource manager refuses every node that has it. "
        "Given up in 15 min"
    )
    assert story(talk, "b", "gang")[0].startswith("Gang: 1 of 2 have room; the next needs 10 memory, and its")


def test_a_gang_that_is_declared_before_the_rm_is_told_of_holds_is_asked_about() -> None:
    talk = AnsweringRM(Refuses(("slots of w", "n0")))
    talk.begin()
    talk.apps(an_app("gang", "root.a", tags={TASK_GROUPS_TAG: json.dumps([GROUP])}))
    talk.step(HOLDS)
    talk.nodes(*(a_node(f"n{number}", {"memory": 10}) for number in range(3)))
    facts = talk.schedule()
    assert asked(facts) >= {("slots of w", "n1"), ("slots of w", "n2")}
    assert placed(facts, slot=True) == {("slots of w", "n1"), ("slots of w", "n2")}
