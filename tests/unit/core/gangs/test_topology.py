"""In which domains of the nodes' topology a gang runs (docs/topology.md)."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.commands import Expression, NodeAction, Operator, PlacementConstraint
from schedulerd.core.language.facts.fact import Allocated, ApplicationRejected
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import TOPOLOGY_PREFERRED_TAG, TOPOLOGY_REQUIRED_TAG
from tests.loops import each_row
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_partition_spec,
    a_scheduler,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
)
from tests.unit.core.constraint_builders import on, one_of
from tests.unit.core.gangs.test_declared_gangs import declares, member, told
from tests.unit.core.preemption_builders import wait

LEVELS = (("block", "b"), ("rack", "r"))


def blocks(*free: tuple[str, int]) -> Conversation:
    """A partition with two levels, and a node with so much memory for each of these. The rack `b1-r2` is in the block
    `b1`."""
    talk = Conversation(a_scheduler())
    talk.register(replace(a_partition_spec(), topology=LEVELS, topology_keys=("power",)))
    talk.connect()
    talk.nodes(
        *[
            a_node(f"n{at}", {"memory": memory}, attributes={"b": rack.partition("-")[0], "r": rack, "power": rack[-1]})
            for at, (rack, memory) in enumerate(free)
        ]
    )
    return talk


def where(talk: Conversation, task_group: str = "", gang: str = "gang") -> list[str]:
    """The racks of the members of a task group, or of all."""
    there = talk.model().applications[gang].allocations.values()
    return sorted(one.node.attributes["r"] for one in there if task_group in ("", one.spec.task_group))


def of_groups(talk: Conversation, **counts: int) -> list[str]:
    """Asks for so many members of each task group; returns those that are allocated."""
    talk.asks(*[member(f"{name}{at}", task_group=name) for name, count in counts.items() for at in range(count)])
    return told(talk.schedule())


def test_all_task_groups_are_in_one_domain_of_the_level_that_the_application_requires() -> None:
    talk = blocks(("b1-r1", 40), ("b1-r2", 10), ("b2-r1", 20), ("b2-r2", 30), ("b3-r1", 60))
    app = declares({"name": "v", "min": 2}, {"name": "w", "min": 3})
    app.tags[TOPOLOGY_REQUIRED_TAG] = "block"
    talk.apps(app)
    assert len(of_groups(talk, v=2, w=3)) == 5
    assert {one[:2] for one in where(talk)} == {"b1"}, "block 1 has room for five and no more"


def test_each_task_group_is_in_one_rack_of_the_one_block() -> None:
    talk = blocks(("b1-r1", 40), ("b1-r2", 10), ("b2-r1", 30), ("b2-r2", 30))
    app = declares(
        {"name": "v", "min": 2, "topology": {"required": "rack"}},
        {"name": "w", "min": 3, "topology": {"required": "rack"}},
    )
    app.tags[TOPOLOGY_REQUIRED_TAG] = "block"
    talk.apps(app)
    assert len(of_groups(talk, v=2, w=3)) == 5
    assert (where(talk, "v"), where(talk, "w")) == (["b2-r1"] * 2, ["b2-r2"] * 3), "block 1 leaves less, but not both"


def test_an_application_that_prefers_a_block_does_without() -> None:
    talk = blocks(("b1-r1", 30), ("b2-r1", 20))
    app = declares({"name": "v", "min": 2}, {"name": "w", "min": 2})
    app.tags[TOPOLOGY_PREFERRED_TAG] = "block"
    talk.apps(app)
    assert len(of_groups(talk, v=2, w=2)) == 4


def test_an_application_in_one_block_waits_while_none_has_room_for_all() -> None:
    talk = blocks(("b1-r1", 30), ("b2-r1", 30))
    app = declares({"name": "v", "min": 2}, {"name": "w", "min": 2})
    app.tags[TOPOLOGY_REQUIRED_TAG] = "block"
    talk.apps(app)
    assert of_groups(talk, v=2, w=2) == []
    talk.sleep(10 * SECOND_NS)
    assert told(talk.schedule()) == []
    talk.nodes(a_node("more", {"memory": 10}, attributes={"b": "b2", "r": "b2-r9"}))
    assert len(told(talk.schedule())) == 4
    assert {one[:2] for one in where(talk)} == {"b2"}


def test_a_preferred_level_means_as_few_domains_as_possible() -> None:
    talk = blocks(("b1-r1", 20), ("b1-r2", 30), ("b1-r3", 40), ("b1-r4", 10), ("b1-r5", 30))
    talk.apps(declares({"name": "w", "min": 8, "topology": {"preferred": "rack"}}))
    of_groups(talk, w=8)
    assert where(talk) == ["b1-r2"] * 3 + ["b1-r3"] * 4 + ["b1-r4"], "four, three, and where one leaves least"


def test_what_has_no_domain_takes_what_domains_do_not_have() -> None:
    talk = blocks(("b1-r1", 20))
    talk.nodes(a_node("bare", {"memory": 10}))
    talk.apps(declares({"name": "w", "min": 3, "topology": {"preferred": "rack"}}))
    assert len(of_groups(talk, w=3)) == 3


def test_a_gang_may_name_a_further_key_of_the_partition() -> None:
    talk = blocks(("b1-r1", 10), ("b2-r1", 10), ("b1-r2", 20))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "power"}}))
    of_groups(talk, w=2)
    assert where(talk) == ["b1-r1", "b2-r1"]


@each_row("tag", [TOPOLOGY_REQUIRED_TAG, TOPOLOGY_PREFERRED_TAG])
def test_a_level_of_the_whole_application_that_the_partition_does_not_have_is_told(tag: str) -> None:
    app = declares({"name": "w", "min": 1})
    app.tags[tag] = "zone"
    assert only(ApplicationRejected, blocks().apps(app)).reason == (
        f"tags[{tag}] names the topology level 'zone'; levels of the partition: block, rack, power"
    )


def test_the_member_that_replaces_a_lost_one_stays_in_the_domain() -> None:
    talk = blocks(("b1-r1", 20), ("b2-r1", 100))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    of_groups(talk, w=2)
    lost = next(iter(talk.model().applications["gang"].allocations))
    talk.release(application_id="gang", uuid=lost)
    talk.apps(an_app())
    talk.asks(an_ask("x", 10))
    assert told(talk.schedule()) == ["x"]
    taken = next(one for one in talk.model().allocations.values() if one.key == "x").node.attributes["r"]
    talk.asks(member("again"))
    assert told(talk.schedule()) == (["again"] if taken == "b2-r1" else [])
    assert set(where(talk)) == {"b1-r1"}


def test_members_above_min_grow_in_the_domain() -> None:
    talk = blocks(("b1-r1", 30), ("b2-r1", 100))
    talk.apps(declares({"name": "w", "min": 2, "max": 5, "topology": {"required": "rack"}}))
    assert len(of_groups(talk, w=5)) == 3
    assert set(where(talk)) == {"b1-r1"}
    talk.nodes(a_node("more", {"memory": 50}, attributes={"b": "b1", "r": "b1-r1"}))
    assert len(told(talk.schedule())) == 2
    assert set(where(talk)) == {"b1-r1"}


def recovered(**gang: str) -> Conversation:
    """A gang of two of which one member runs in `b1-r1`, after a registration."""
    talk = blocks(("b1-r2", 100), ("b2-r1", 100))
    talk.apps(declares({"name": "w", "min": 2, "begun": True, **({"topology": gang} if gang else {})}))
    running = an_existing("u1", "m1", "gang", task_group="w")
    talk.nodes(a_node("n9", {"memory": 20}, running, attributes={"b": "b1", "r": "b1-r1"}))
    return talk


@each_row(("level", "racks"), [("rack", {"b1-r1"}), ("block", {"b1-r1", "b1-r2"})])
def test_after_a_registration_the_domain_is_that_of_the_members(level: str, racks: set[str]) -> None:
    talk = recovered(required=level)
    talk.asks(member("m2"), member("m3"), member("m4"))
    talk.schedule()
    assert set(where(talk)) == racks


def test_asks_that_come_before_the_members_are_reported_stay_in_their_domain() -> None:
    talk = blocks(("b2-r1", 5))
    talk.apps(declares({"name": "w", "min": 2, "begun": True, "topology": {"required": "rack"}}))
    talk.asks(member("m2"))
    running = an_existing("u1", "m1", "gang", task_group="w")
    talk.nodes(
        a_node("n9", {"memory": 20}, running, attributes={"b": "b1", "r": "b1-r1"}),
        a_node("n8", {"memory": 90}, attributes={"b": "b1", "r": "b1-r2"}),
    )
    talk.schedule()
    assert where(talk) == ["b1-r1", "b1-r1"]


def test_a_gang_that_has_begun_and_lost_all_members_is_in_one_domain_again() -> None:
    talk = blocks(("b1-r1", 30), ("b1-r2", 30), ("b2-r1", 30))
    talk.apps(declares({"name": "w", "min": 3, "begun": True, "topology": {"required": "rack"}}))
    assert len(of_groups(talk, w=3)) == 3
    assert len(set(where(talk))) == 1


def test_the_value_of_an_attribute_may_be_any_text() -> None:
    talk = blocks()
    odd = "a, b=(c)"
    talk.nodes(*[a_node(f"n{at}", {"memory": 10}, attributes={"r": rack}) for at, rack in enumerate((odd, odd, "x"))])
    talk.apps(declares({"name": "w", "min": 2, "max": 3, "topology": {"required": "rack"}}))
    assert len(of_groups(talk, w=3)) == 2
    assert where(talk) == [odd, odd]


def test_the_example_of_the_documentation() -> None:
    """64 members and 8 racks, each with 80 of memory that stands for its GPUs."""
    used = {"r0": 80, "r1": 80, "r2": 80, "r3": 40, "r4": 12, "r5": 0, "r6": 30, "r7": 20}
    talk = Conversation(a_scheduler())
    talk.register(replace(a_partition_spec(), topology=(("rack", "r"),)))
    talk.connect()
    for rack, amount in used.items():
        sizes = [max(0, 8 - max(0, amount - 8 * at)) for at in range(10)]
        talk.nodes(*[a_node(f"{rack}-{at}", {"memory": size}, attributes={"r": rack}) for at, size in enumerate(sizes)])

    def racks_of(gang: str, **topology: str) -> dict[str, int]:
        talk.apps(replace(declares({"name": "w", "min": 64, "topology": topology}), application_id=gang))
        talk.asks(*[replace(member(f"{gang}-{at}", 1), application_id=gang) for at in range(64)])
        talk.schedule()
        racks = where(talk, gang=gang)
        return {rack: racks.count(rack) for rack in dict.fromkeys(racks)}

    assert racks_of("first", required="rack") == {"r4": 64}
    assert racks_of("second", required="rack") == {"r5": 64}
    assert racks_of("third", required="rack") == {}
    talk.remove("third")
    assert racks_of("preferring", preferred="rack") == {"r4": 4, "r7": 60}
    lost = next(iter(talk.model().applications["first"].allocations))
    talk.release(application_id="first", uuid=lost)
    talk.asks(replace(member("again", 1), application_id="first"))
    assert told(talk.schedule()) == ["again"]
    assert set(where(talk, gang="first")) == {"r4"}


def test_a_node_that_is_drained_or_changes_its_rack_counts_no_longer() -> None:
    talk = blocks(("b1-r1", 20), ("b2-r1", 20), ("b3-r1", 30))
    talk.apps(declares({"name": "w", "min": 3, "topology": {"required": "rack"}}))
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    assert of_groups(talk, w=3) == []
    talk.nodes(a_node("n1", {"memory": 20}, action=NodeAction.UPDATE, attributes={"b": "b1", "r": "b1-r1"}))
    assert len(told(talk.schedule())) == 3
    assert set(where(talk)) == {"b1-r1"}


def test_members_of_several_sizes_are_packed_in_one_domain() -> None:
    talk = blocks(("b1-r1", 30), ("b1-r1", 20), ("b2-r1", 25), ("b2-r1", 25))
    talk.apps(declares({"name": "w", "min": 3, "topology": {"required": "rack"}}))
    talk.asks(member("x", 20), member("y", 20), member("z", 10))
    facts = talk.schedule()
    assert [one.allocation_key for one in of(Allocated, facts)] == ["x", "y", "z"]
    assert where(talk) == ["b1-r1"] * 3, "in rack b2-r1 each size alone has room"


def test_where_the_node_order_leaves_no_room_for_the_last_size_a_domain_is_packed_tightly() -> None:
    talk = blocks(("b1-r1", 50), ("b1-r1", 25))
    talk.apps(declares({"name": "w", "min": 4, "topology": {"required": "rack"}}))
    talk.asks(*[member(key, size) for key, size in zip("wxyz", (25, 20, 20, 10), strict=True)])
    assert told(talk.schedule()) == ["w", "x", "y", "z"], "in order, w is on the larger node, and z has no room"


def test_nodes_that_members_may_not_use_are_no_room_of_their_domain() -> None:
    talk = blocks(("b1-r1", 20), ("b2-r1", 20), ("b1-r2", 10), ("b1-r2", 10))
    selector = PlacementConstraint((Expression("power", Operator.IN, ("2",)),))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(*[member(key, constraint=selector) for key in "ab"])
    assert told(talk.schedule()) == ["a", "b"]
    assert where(talk) == ["b1-r2", "b1-r2"]


def test_a_gang_that_is_formed_again_looks_in_all_domains() -> None:
    """It was bound to a rack, to hold its slots one by one there, and lost a member meanwhile."""
    talk = blocks(("b1-r1", 20), ("b2-r1", 20))
    talk.apps(an_app())
    talk.asks(an_ask("x", 20), an_ask("y", 20))
    there = {one.node_id: one.uuid for one in of(Allocated, talk.schedule())}
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(member("a"), member("b"))
    talk.schedule()
    talk.sleep(5 * SECOND_NS)
    talk.schedule()
    gang = talk.model().applications["gang"].gang
    assert gang is not None
    (bound,) = gang.domains.values()
    talk.release_asks(application_id="gang", allocation_key="b")
    talk.asks(member("c"))
    other = "n1" if bound.node[0].values == ("b1-r1",) else "n0"
    talk.release(uuid=there[other])
    assert told(talk.schedule()) == ["a", "c"]


def test_slots_are_as_old_as_the_gang_has_waited() -> None:
    talk = blocks(("b1-r1", 20))
    talk.apps(an_app())
    talk.asks(an_ask("x", 20))
    talk.schedule()
    talk.apps(declares({"name": "w", "min": 2}))
    talk.asks(member("a"), member("b"))
    talk.schedule()
    since_ns = talk.now_ns
    talk.sleep(5 * SECOND_NS)
    talk.schedule()
    slots = [one for one in talk.model().applications["gang"].asks.values() if one.spec.slot]
    assert [(one.spec.max_allocations, one.asked_at_ns) for one in slots] == [(1, since_ns)] * 2


def test_what_a_member_demands_of_nodes_holds_within_the_domain_as_well() -> None:
    talk = blocks(("b1-r1", 40), ("b1-r2", 50), ("b2-r1", 60))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(member("x", constraint=on(one_of("power", "1", "2"))), member("y"))
    talk.schedule()
    talk.asks(member("z", constraint=on(one_of("power", "1"))), member("never", constraint=on(one_of("power", "2"))))
    assert told(talk.schedule()) == ["z"]
    assert where(talk) == ["b1-r1"] * 3


def test_members_that_wait_with_demands_of_their_own_follow_their_gang_into_its_domain() -> None:
    talk = blocks(("b1-r1", 30), ("b2-r1", 40))
    talk.apps(declares({"name": "w", "min": 2, "topology": {"required": "rack"}}))
    talk.asks(
        *(member(key, memory, tags={"schedulerd.io/node-selector": "b"}) for key, memory in (("x", 10), ("y", 10)))
    )
    talk.asks(member("large", 50, tags={"schedulerd.io/node-selector": "b"}), member("plain", 50))
    assert (told(talk.schedule()), where(talk)) == (["x", "y"], ["b1-r1"] * 2)
    talk.nodes(a_node("other", {"memory": 100}, attributes={"b": "b2", "r": "b2-r1"}))
    assert told(talk.schedule()) == []
    talk.nodes(a_node("same", {"memory": 100}, attributes={"b": "b1", "r": "b1-r1"}))
    assert sorted(told(talk.schedule())) == ["large", "plain"]


def test_a_gang_of_one_block_that_is_held_one_by_one_is_held_in_one_block() -> None:
    talk = blocks(("b1-r1", 40), ("b2-r1", 40))
    talk.apps(an_app())
    talk.asks(an_ask("x", 20, 2))
    there = {one.node_id: one.uuid for one in of(Allocated, talk.schedule())}
    app = declares({"name": "v", "min": 2}, {"name": "w", "min": 2})
    app.tags[TOPOLOGY_REQUIRED_TAG] = "block"
    talk.apps(app)
    assert of_groups(talk, v=2, w=2) == []
    held = of(Allocated, wait(talk, 20 * SECOND_NS))
    assert [one.node_id for one in held] == ["n0", "n0"], "a half of its room, and none elsewhere"
    talk.release(uuid=there["n0"])
    assert sorted(told(wait(talk, SECOND_NS))) == ["v0", "v1", "w0", "w1"]
    assert where(talk) == ["b1-r1"] * 4
