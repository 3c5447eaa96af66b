"""Gangs that declare their task groups and bring no placeholders (tag `schedulerd.io/task-groups`)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from schedulerd.core.language.checks import shown
from schedulerd.core.language.commands import AskRelease, ConnectCallbacks, NewAsk, UpdateAllocations
from schedulerd.core.language.facts.fact import Allocated, ApplicationRejected, AskRejected, Fact
from schedulerd.core.language.facts.gangs import GangStateChanged
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingStateChanged
from schedulerd.core.language.lifecycles import ApplicationState, GangState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.core.state.actions import slots
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG
from tests.loops import each_row
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_scheduler,
    an_app,
    an_ask,
    of,
    only,
    states,
)


def declares(*groups: dict[str, Any], **fields: Any) -> Any:
    """An application `gang` with these task groups."""
    return an_app("gang", "root.a", tags={TASK_GROUPS_TAG: json.dumps(groups)}, **fields)


def member(key: str, memory: int = 10, count: int = 1, **fields: Any) -> NewAsk:
    fields.setdefault("task_group", "w")
    return an_ask(key, memory, count, "gang", **fields)


def told(facts: list[Fact]) -> list[str]:
    """Keys of the allocations of which the RM is told."""
    return [one.allocation_key for one in of(Allocated, facts) if not one.slot]


def state_of_gang(talk: Conversation) -> GangState | None:
    gang = talk.model().applications["gang"].gang
    assert gang is not None
    return gang.state


def held(facts: list[Fact]) -> int:
    return sum(one.slot for one in of(Allocated, facts))


def test_members_are_allocated_together_once_all_have_room() -> None:
    talk = a_conversation(a_node("n1", {"memory": 25}))
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(member("a"), member("b"))
    assert told(talk.schedule()) == []
    talk.asks(member("c"))
    assert told(talk.schedule()) == [], "two of three have room"
    talk.nodes(a_node("n2", {"memory": 10}))
    assert told(talk.schedule()) == ["a", "b", "c"]


def test_slots_of_known_size_hold_room_before_members_are_asked_for() -> None:
    talk = a_conversation(a_node("n1", {"memory": 40}))
    talk.apps(declares({"name": "w", "min": 3, "resources": {"memory": 10}}))
    assert held(talk.schedule()) == 3
    talk.asks(an_ask("x", 10, 4))
    assert told(talk.schedule()) == ["x"]
    talk.asks(member("a"), member("b"), member("c"), member("d"))
    assert told(talk.schedule()) == ["a", "b", "c"]


def test_a_gang_that_has_begun_is_not_gathered_again() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(declares({"name": "w", "min": 3, "resources": {"memory": 10}, "begun": True}))
    talk.asks(member("a"))
    assert told(talk.schedule()) == ["a"]


def test_with_placeholders_of_the_resource_manager_nothing_else_is_held() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(declares({"name": "w", "min": 2, "resources": {"memory": 10}}))
    assert held(talk.schedule()) == 2
    talk.asks(a_placeholder("p", 10, 1, "gang", task_group="w"))
    assert told(talk.schedule()) == ["p"]
    assert talk.model().applications["gang"].placeholders == 1


def a_gang_out_of_time(style: str) -> tuple[Conversation, list[Fact]]:
    """A gang of three that held two slots for its whole time of a minute, with three members asked for."""
    talk = a_conversation(a_node("n1", {"memory": 20}), a_node("n2", {"memory": 10}))
    talk.asks(an_ask("x", 10, 3))
    ends = [one.uuid for one in of(Allocated, talk.schedule())][:2]
    talk.apps(declares({"name": "w", "min": 3}, gang_style=style, execution_timeout_ms=60_000))
    talk.asks(member("a"), member("b"), member("c"))
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    for uuid in ends:
        talk.release(uuid=uuid)
    facts = talk.schedule()
    assert (held(facts), told(facts)) == (2, [])
    return talk, talk.sleep(60 * SECOND_NS) + talk.schedule()


def test_a_soft_gang_out_of_time_has_ordinary_members() -> None:
    _, facts = a_gang_out_of_time("Soft")
    assert told(facts) == ["a", "b"]


def test_a_hard_gang_out_of_time_fails() -> None:
    talk, facts = a_gang_out_of_time("Hard")
    assert (told(facts), states(facts, "gang")[-1]) == ([], ApplicationState.FAILED)
    assert not [one for one in talk.model().allocations.values() if one.spec.slot]


def test_a_gang_that_is_requeued_lets_others_go_before_and_gathers_again() -> None:
    talk, facts = a_gang_out_of_time("Requeue")
    assert told(facts) == []
    talk.asks(an_ask("y", 10, 2))
    assert told(talk.schedule()) == ["y", "y"]
    for one in list(talk.model().allocations.values()):
        talk.release(uuid=one.uuid)
    assert told(talk.schedule()) == []
    talk.sleep(60 * SECOND_NS)
    assert told(talk.schedule()) == ["a", "b", "c"]


def test_members_above_the_max_of_their_task_group_wait() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.apps(declares({"name": "w", "min": 2, "max": 3, "resources": {"memory": 10}}))
    talk.asks(member("many", count=5))
    facts = talk.schedule()
    assert told(facts) == ["many"] * 3
    talk.release(application_id="gang", uuid=next(one.uuid for one in of(Allocated, facts) if not one.slot))
    assert told(talk.schedule()) == ["many"]


RACKS = (("rack", "r"),)


def racks(*free: tuple[str, int]) -> Conversation:
    """A partition with the level `rack`, and a node with so much memory for each of these, in its rack."""
    talk = Conversation(a_scheduler())
    talk.register(replace(a_partition_spec(), topology=RACKS))
    talk.connect()
    nodes = [a_node(f"n{at}", {"memory": memory}, attributes={"r": rack}) for at, (rack, memory) in enumerate(free)]
    talk.nodes(*nodes)
    return talk


def in_racks(talk: Conversation) -> list[str]:
    """The racks of the gang's members."""
    return sorted(one.node.attributes["r"] for one in talk.model().applications["gang"].allocations.values())


def test_a_required_topology_takes_the_domain_that_has_least_left() -> None:
    talk = racks(("a", 20), ("b", 20), ("b", 10), ("c", 20), ("c", 20), ("a", 9))
    talk.apps(declares({"name": "w", "min": 3, "topology": {"required": "rack"}}))
    talk.asks(member("x"), member("y"), member("z"))
    assert told(talk.schedule()) == ["x", "y", "z"]
    assert in_racks(talk) == ["b", "b", "b"]


def test_later_members_of_a_required_topology_stay_in_its_domain() -> None:
    talk = racks(("a", 30), ("b", 100))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "r"}}))
    talk.asks(member("x"), member("y"))
    talk.schedule()
    talk.asks(member("z"), member("late"))
    assert told(talk.schedule()) == ["z"]
    assert in_racks(talk) == ["a", "a", "a"]


def test_no_domain_has_room_for_a_required_topology() -> None:
    talk = racks(("a", 20), ("b", 20))
    talk.apps(declares({"name": "w", "min": 3, "topology": {"required": "rack"}}))
    talk.asks(member("x"), member("y"), member("z"))
    assert (told(talk.schedule()), talk.sleep(10 * SECOND_NS) and [], told(talk.schedule())) == ([], [], [])
    talk.nodes(a_node("n9", {"memory": 10}, attributes={"r": "b"}))
    assert told(talk.schedule()) == ["x", "y", "z"]
    assert in_racks(talk) == ["b", "b", "b"]


def test_a_preferred_topology_is_one_domain_if_there_is_one_with_room() -> None:
    talk = racks(("a", 20), ("b", 30), ("c", 10))
    talk.apps(declares({"name": "w", "min": 3, "topology": {"preferred": "rack"}}))
    talk.asks(member("x"), member("y"), member("z"))
    talk.schedule()
    assert in_racks(talk) == ["b", "b", "b"]


def test_a_preferred_topology_does_without() -> None:
    talk = racks(("a", 20), ("b", 20))
    talk.apps(declares({"name": "w", "min": 4, "topology": {"preferred": "rack"}}))
    talk.asks(*[member(key) for key in "wxyz"])
    talk.schedule()
    assert in_racks(talk) == ["a", "a", "b", "b"]


def test_a_level_that_the_partition_does_not_have_is_told() -> None:
    facts = racks().apps(declares({"name": "w", "min": 1, "topology": {"required": "zone"}}))
    assert only(ApplicationRejected, facts).reason == (
        "tags[schedulerd.io/task-groups] names the topology level 'zone'; levels of the partition: rack"
    )


@each_row(
    ("text", "why"),
    [
        ("x", "the text must be JSON; Expecting value at character 0"),
        ("[]", "must be a JSON list of 1 to 100 task groups"),
        ('[{"name": "w"}]', "task group 0 must have min, a whole number from 1 to 100000"),
        ('[{"name": "w", "min": 0}]', "task group 0 must have as min a whole number from 1 to 100000"),
        ('[{"name": "w", "min": 2, "max": 1}]', "task group 0 has max 1; it must be at least its min 2"),
        ('[{"name": "w", "min": 1}, {"name": "w", "min": 1}]', "the names of task groups must differ"),
        ('[{"name": "", "min": 1}]', "task group 0 must have a name of 1 to 1024 characters"),
        (
            '[{"name": "w", "min": 1, "resources": {"memory": -1}}]',
            "resources of task group 0['memory'] is -1; it must be 0 or more",
        ),
        (
            '[{"name": "w", "min": 1, "topology": {}}]',
            "topology of task group 0 must have either required or preferred, with the name of a level",
        ),
        (
            '[{"name": "w", "min": 1, "hostPorts": [0]}]',
            "hostPorts of task group 0 must be whole numbers from 1 to 65535",
        ),
        (
            '[{"name": "w", "min": 1, "hostPorts": 80}]',
            "hostPorts of task group 0 must be a list of at most 100 ports",
        ),
        (
            '[{"name": "w", "min": 10000}, {"name": "x", "min": 1}]',
            "the task groups need 10001 members together; at most 10000 are allowed",
        ),
        (
            '[{"name": "w", "min": 1, "priority": 2147483648}]',
            "task group 0 must have as priority a whole number of 32 bits",
        ),
        ('[{"name": "w", "min": 1, "begun": 1}]', "task group 0 must have true or false as begun"),
        (
            '[{"name": "w", "min": 1, "resources": {"memory": true}}]',
            "resources of task group 0 must have a whole number for 'memory'",
        ),
        ('[{"name": "w", "min": 1, "tags": {"a": 1}}]', "tags of task group 0 must have texts"),
        (
            '[{"name": "w", "min": 1, "tags": {"schedulerd.io/victims": "all"}}]',
            "task group 0: tags[schedulerd.io/victims] is 'all'; it must be 'lower-priority', or not be there",
        ),
        (
            '[{"name": "w", "min": 1, "size": 1}]',
            (
                "task group 0 must have no other key than 'allowPreemptOther', 'allowPreemptSelf', "
                "'begun', 'hostPorts', 'max', 'min', 'name', 'priority', 'resources', "
                "'tags', 'topology'"
            ),
        ),
    ],
)
def test_task_groups_that_cannot_be_read_reject_the_application(text: str, why: str) -> None:
    facts = a_conversation().apps(an_app("gang", "root.a", tags={TASK_GROUPS_TAG: text}))
    assert only(ApplicationRejected, facts).reason == f"tags[{TASK_GROUPS_TAG}] is {shown(text)}: {why}"


def test_a_node_selector_of_a_task_group_that_cannot_be_read_rejects_the_application() -> None:
    facts = a_conversation().apps(declares({"name": "w", "min": 1, "tags": {NODE_SELECTOR_TAG: "disk in ssd"}}))
    reason = only(ApplicationRejected, facts).reason
    assert reason.startswith(f"tags[{TASK_GROUPS_TAG}], {NODE_SELECTOR_TAG}: ")


def test_slots_follow_members_that_change() -> None:
    talk = a_conversation(a_node("n1", {"memory": 25}))
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(member("a", count=3))
    assert told(talk.schedule()) == []
    talk.asks(member("a", count=1))
    assert (told(talk.schedule()), state_of_gang(talk)) == ([], GangState.FORMING)
    talk.asks(member("b"), member("c", 40))
    talk.nodes(a_node("n2", {"memory": 35}))
    assert (told(talk.schedule()), state_of_gang(talk)) == ([], GangState.GATHERING)
    talk.asks(member("c", 30))
    assert told(talk.schedule()) == ["a", "b", "c"]


def test_many_members_that_leave_at_once_cost_one_look_at_the_slots() -> None:
    talk = a_conversation(a_node("n1", {"memory": 25}))
    talk.apps(declares({"name": "w", "min": 2}))
    talk.asks(*[member(f"m{at}", 20) for at in range(50)])
    talk.schedule()
    with patch.object(slots, "review", wraps=slots.review) as review:
        talk.step(
            UpdateAllocations(
                talk.rm_id, ask_releases=[AskRelease("gang", allocation_key=f"m{at}") for at in range(40)]
            )
        )
    assert review.call_count == 1


def test_a_slot_lives_as_long_as_its_gang_and_not_as_a_member_may_run() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.asks(an_ask("x"))
    uuid = only(Allocated, talk.schedule()).uuid
    talk.apps(declares({"name": "w", "min": 2}))
    talk.asks(*[member(key, execution_timeout_ms=1_000) for key in "ab"])
    talk.schedule()
    talk.sleep(5 * SECOND_NS)
    assert held(talk.schedule()) == 1
    talk.sleep(60 * SECOND_NS)
    talk.release(uuid=uuid)
    assert told(talk.schedule()) == ["a", "b"]


def test_no_ask_may_have_the_key_of_a_slot() -> None:
    talk = a_conversation()
    talk.apps(declares({"name": "w", "min": 2}))
    (rejected,) = of(AskRejected, talk.asks(member("slot of a")))
    assert rejected.reason == (
        "allocationKey is 'slot of a'; in an application that declares its task groups no key begins with 'slot of ' "
        "or 'slots of '"
    )


def test_an_application_whose_gang_is_requeued_does_not_complete() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.asks(an_ask("x", 10))
    uuid = only(Allocated, talk.schedule()).uuid
    talk.nodes(a_node("n2", {"memory": 10}))
    group = {"name": "w", "min": 2, "resources": {"memory": 10}}
    talk.apps(declares(group, gang_style="Requeue", execution_timeout_ms=60_000))
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    assert held(talk.schedule()) == 1
    talk.sleep(70 * SECOND_NS)
    assert state_of_gang(talk) is GangState.FORMING
    talk.release(uuid=uuid)
    talk.sleep(60 * SECOND_NS)
    assert held(talk.schedule()) == 2


def test_an_application_whose_members_are_withdrawn_while_its_gang_is_requeued_ends() -> None:
    talk, _ = a_gang_out_of_time("Requeue")
    talk.step(UpdateAllocations(talk.rm_id, ask_releases=[AskRelease("gang")]))
    facts = talk.sleep(60 * SECOND_NS)
    assert states(facts, "gang") == [ApplicationState.COMPLETING]


def test_sizes_are_packed_in_a_domain_as_anywhere() -> None:
    talk = racks(("a", 20), ("a", 10))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(member("small", 10), member("large", 20))
    assert told(talk.schedule()) == ["small", "large"]


def test_a_gang_that_was_bound_to_a_full_domain_takes_another_one_that_becomes_free() -> None:
    talk = racks(("a", 20), ("b", 20))
    talk.apps(an_app())
    talk.asks(an_ask("x", 20), an_ask("y", 20))
    there = {one.node_id: one.uuid for one in of(Allocated, talk.schedule())}
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(member("a"), member("b"))
    talk.schedule()
    talk.sleep(5 * SECOND_NS)
    talk.schedule()
    talk.sleep(5 * SECOND_NS)
    talk.schedule()
    talk.release(uuid=there["n1"])
    assert told(talk.schedule()) == ["a", "b"]
    assert in_racks(talk) == ["b", "b"]


def test_a_required_level_that_a_new_queue_file_does_not_have_holds_the_gang_back() -> None:
    talk = racks(("a", 20), ("b", 20))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.model().spec = replace(talk.model().spec, topology=())
    talk.asks(member("x"), member("y"))
    assert told(talk.schedule()) == []
    talk.sleep(10 * SECOND_NS)
    assert told(talk.schedule()) == []


def test_nothing_is_remembered_of_a_gang_that_is_removed() -> None:
    talk = racks(("a", 20))
    talk.apps(an_app())
    talk.asks(an_ask("x", 20))
    talk.schedule()
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(member("a"), member("b"))
    talk.schedule()
    talk.sleep(5 * SECOND_NS)
    talk.schedule()
    assert talk.model().bound_gangs
    talk.remove("gang")
    assert not talk.model().bound_gangs


def test_a_gang_that_is_requeued_is_forgotten_when_its_resource_manager_registers_again() -> None:
    talk, _ = a_gang_out_of_time("Requeue")
    talk.register(a_partition_spec())
    assert of(GangStateChanged, talk.sleep(120 * SECOND_NS)) == []


def test_no_scheduling_state_is_told_of_a_slot() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.step(ConnectCallbacks(talk.rm_id, scheduling_states=True, pending_reasons=True))
    talk.apps(declares({"name": "w", "min": 2, "resources": {"memory": 10}}))
    facts = talk.schedule() + talk.sleep(30 * SECOND_NS) + talk.schedule()
    facts += talk.asks(member("a")) + talk.schedule() + talk.sleep(30 * SECOND_NS)
    names = {one.allocation_key for one in of(SchedulingStateChanged, facts)}
    names |= {one.allocation_key for one in of(PendingReasonChanged, facts)}
    assert names == {"a"}
