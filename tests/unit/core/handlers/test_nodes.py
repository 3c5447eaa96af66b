"""Nodes: every action, what is wrong with one, and the allocations they come with (SI `NodeInfo`; SEMANTICS D, G7)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.commands import ExistingAllocation, NodeAction, NodeUpdate, TerminationType, UpdateNodes
from schedulerd.core.facts import (
    Allocated,
    AskAdded,
    AskWithdrawn,
    ItemIgnored,
    NodeAccepted,
    NodeChanged,
    NodeRejected,
    RejectCode,
    Released,
    WithdrawCause,
)
from schedulerd.core.lifecycles import ApplicationState, NodeState
from schedulerd.core.resources import Resources
from schedulerd.core.specs import NodeOrder, Timeouts
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
    states,
)

S = ApplicationState
A = NodeAction
ROOM = {"memory": 100}


@pytest.fixture
def talk() -> Conversation:
    """A node with room for ten, and no patience for what comes too early."""
    return a_conversation(a_node("n1", ROOM), timeouts=Timeouts(early_message_ns=0))


def drain(talk: Conversation, node_id: str = "n1") -> list[Any]:
    return list(talk.nodes(a_node(node_id, action=A.DRAIN_NODE)))


# Registration


def test_a_node_is_registered_then_accepted(talk: Conversation) -> None:
    facts = talk.nodes(a_node("n2", {"memory": 5}, occupied={"memory": 2}, attributes={"zone": "z"}))
    assert [type(fact) for fact in facts] == [NodeChanged, NodeAccepted]
    changed = only(NodeChanged, facts)
    assert (changed.old_state, changed.state, changed.cause) == (None, NodeState.SCHEDULABLE, "registered")
    node = talk.node("n2")
    assert (node.capacity, node.occupied, node.available) == ({"memory": 5}, {"memory": 2}, {"memory": 3})
    assert node.attributes == {"zone": "z"}


@pytest.mark.parametrize(
    ("item", "code", "said"),
    [
        (a_node("", ROOM), RejectCode.EMPTY_ID, "nodeID is empty"),
        (a_node("x" * 1_025, ROOM), RejectCode.INVALID_FIELD, "(1025 characters)"),
        (a_node("n2", ROOM, partition="gpuu"), RejectCode.UNKNOWN_PARTITION, "partitionName 'gpuu'"),
        (a_node("n1", ROOM), RejectCode.DUPLICATE_ID, "nodeID 'n1' is registered already"),
        (a_node("n1", ROOM, action=A.CREATE_DRAIN), RejectCode.DUPLICATE_ID, "nodeID 'n1' is registered already"),
        (a_node("n1", ROOM, action=A.UNKNOWN), RejectCode.UNKNOWN_ACTION, "CREATE, UPDATE, DRAIN_NODE, DECOMISSION"),
        (a_node("n2", ROOM, action=A.UPDATE), RejectCode.UNKNOWN_NODE, "'n2' is not registered; UPDATE needs a node"),
        (a_node("n2", action=A.DRAIN_NODE), RejectCode.UNKNOWN_NODE, "'n2' is not registered"),
        (a_node("n2", action=A.DECOMISSION), RejectCode.UNKNOWN_NODE, "'n2' is not registered"),
        (a_node("n2", {"memory": -1}), RejectCode.INVALID_RESOURCES, "schedulableResource['memory'] is -1"),
        (
            a_node("n1", ROOM, occupied={"memory": -1}, action=A.UPDATE),
            RejectCode.INVALID_RESOURCES,
            "occupiedResource['memory'] is -1; it must be 0 or more",
        ),
        (
            a_node("n2", {f"r{number}": 1 for number in range(65)}),
            RejectCode.INVALID_RESOURCES,
            "schedulableResource has 65 resources; at most 64 are allowed",
        ),
        (a_node("n2", {"": 1}), RejectCode.INVALID_RESOURCES, "names the resource ''"),
    ],
)
def test_a_rejection_names_field_and_value(talk: Conversation, item: NodeUpdate, code: RejectCode, said: str) -> None:
    before = talk.node()
    facts = talk.nodes(item, a_node("good", ROOM))
    rejected = only(NodeRejected, facts)
    assert rejected.code is code
    assert said in rejected.reason
    assert talk.node() == before
    assert only(NodeAccepted, facts).node_id == "good", "the rest of the message is handled"


def test_one_id_in_two_partitions_is_two_nodes() -> None:
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec(), a_partition_spec(name="gpu"))
    facts = talk.nodes(a_node("n1", ROOM), a_node("n1", ROOM, partition="gpu"), a_node("n1", ROOM, partition="gpu"))
    assert [one.partition for one in of(NodeAccepted, facts)] == ["default", "gpu"]
    assert only(NodeRejected, facts).partition == "gpu"


def test_a_new_node_wakes_what_fits_there() -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}))
    talk.asks(an_ask("small", 10), an_ask("large", 500))
    talk.schedule()
    talk.nodes(a_node("n2", ROOM))
    assert placed(talk.schedule()) == [("app", "small", "n2")]


@pytest.mark.parametrize(
    ("order", "nodes"), [(NodeOrder.FAIR, ["a", "b", "a", "b"]), (NodeOrder.BINPACKING, ["a", "a", "a", "a"])]
)
def test_nodes_are_filled_as_configured(order: NodeOrder, nodes: list[str]) -> None:
    talk = a_conversation(a_node("a", ROOM), a_node("b", ROOM), node_order=order)
    talk.asks(an_ask("k", count=4))
    assert [node for _, _, node in placed(talk.schedule())] == nodes


# Changes


def test_an_update_changes_what_it_carries_and_nothing_else(talk: Conversation) -> None:
    talk.nodes(a_node("n1", {"memory": 80}, attributes={"zone": "z"}, action=A.UPDATE))
    talk.nodes(a_node("n1", occupied={"memory": 30}, action=A.UPDATE))
    node = talk.node()
    assert (node.capacity, node.occupied, node.available) == ({"memory": 80}, {"memory": 30}, {"memory": 50})
    assert node.attributes == {"zone": "z"}


def test_a_node_that_grows_wakes_what_waits_for_it(talk: Conversation) -> None:
    talk.asks(an_ask("large", 150))
    assert placed(talk.schedule()) == []
    talk.nodes(a_node("n1", {"memory": 200}, action=A.UPDATE))
    assert placed(talk.schedule()) == [("app", "large", "n1")]


def test_a_node_that_shrinks_below_its_use_takes_nothing_until_it_has_room_again(talk: Conversation) -> None:
    talk.asks(an_ask("k", 40, 2))
    talk.schedule()
    talk.nodes(a_node("n1", {"memory": 70}, action=A.UPDATE))
    assert talk.node().available == {"memory": -10}
    talk.asks(an_ask("more", 20))
    assert placed(talk.schedule()) == []
    talk.release(uuid="uuid-1")
    assert placed(talk.schedule()) == [("app", "more", "n1")]


def test_a_node_that_is_not_ready_gets_nothing(talk: Conversation) -> None:
    talk.nodes(a_node("n1", attributes={"ready": "False"}, action=A.UPDATE))
    assert talk.node().state == "not_ready"
    talk.asks(an_ask())
    assert placed(talk.schedule()) == []
    talk.nodes(a_node("n1", attributes={"ready": "true"}, action=A.UPDATE))
    assert placed(talk.schedule()) == [("app", "k", "n1")]


def test_draining_keeps_what_runs_and_takes_nothing_new(talk: Conversation) -> None:
    talk.asks(an_ask("runs"))
    talk.schedule()
    changed = only(NodeChanged, drain(talk))
    assert (changed.old_state, changed.state) == (NodeState.SCHEDULABLE, NodeState.DRAINING)
    talk.asks(an_ask("waits"))
    assert placed(talk.schedule()) == []
    assert len(talk.node().allocations) == 1
    changed = only(NodeChanged, talk.nodes(a_node("n1", action=A.DRAIN_TO_SCHEDULABLE)))
    assert (changed.old_state, changed.state) == (NodeState.DRAINING, NodeState.SCHEDULABLE)
    assert placed(talk.schedule()) == [("app", "waits", "n1")]


def test_undraining_a_node_that_is_not_draining_is_ignored_and_counted(talk: Conversation) -> None:
    """To call a working node rejected would make its resource manager drop it."""
    facts = talk.nodes(a_node("n1", action=A.DRAIN_TO_SCHEDULABLE))
    ignored = only(ItemIgnored, facts)
    assert (ignored.code, ignored.object_id, len(facts)) == (RejectCode.INVALID_STATE, "n1", 1)
    assert "nodeID 'n1' is not draining" in ignored.reason


def test_what_is_freed_on_a_draining_node_wakes_nobody(talk: Conversation) -> None:
    talk.asks(an_ask("runs", 100))
    talk.schedule()
    talk.asks(an_ask("waits"))
    talk.schedule()
    drain(talk)
    talk.release(allocation_key="runs")
    assert talk.app().state == S.STARTING
    assert placed(talk.schedule()) == []
    assert not talk.scheduler.wants_cycle()


def test_a_node_may_be_registered_draining() -> None:
    talk = a_conversation(a_node("n1", ROOM, action=A.CREATE_DRAIN))
    assert talk.node().state == "draining"
    talk.asks(an_ask())
    assert placed(talk.schedule()) == []
    talk.nodes(a_node("n1", action=A.DRAIN_TO_SCHEDULABLE))
    assert len(placed(talk.schedule())) == 1


def test_decommission_releases_what_ran_there(talk: Conversation) -> None:
    talk.apps(an_app("other"))
    talk.asks(an_ask("k", count=2), an_ask("k", app="other"), a_placeholder("p", app="other"))
    talk.schedule()
    facts = talk.nodes(a_node("n1", action=A.DECOMISSION))
    released = of(Released, facts)
    assert sorted((one.application_id, one.allocation_key) for one in released) == [
        ("app", "k"),
        ("app", "k"),
        ("other", "k"),
        ("other", "p"),
    ]
    assert all(one.confirm and one.termination is TerminationType.STOPPED_BY_RM for one in released)
    assert released[0].message == "node n1 was removed"
    assert states(facts) == [S.COMPLETING]
    assert (only(NodeChanged, facts).state, talk.view().nodes, talk.view().total) == (NodeState.REMOVED, [], {})
    assert of(NodeAccepted, talk.nodes(a_node("n1", ROOM))), "its id is free"


def test_asks_go_on_elsewhere_when_a_node_goes(talk: Conversation) -> None:
    talk.nodes(a_node("n2", {"memory": 20}))
    talk.asks(an_ask("k", count=12))
    assert len(placed(talk.schedule())) == 12
    talk.asks(an_ask("waits"))
    talk.nodes(a_node("n1", action=A.DECOMISSION))
    assert talk.app().state == S.RUNNING
    assert placed(talk.schedule()) == []
    talk.nodes(a_node("n3", {"memory": 10}))
    assert placed(talk.schedule()) == [("app", "waits", "n3")]


# Recovery


def test_an_existing_allocation_is_taken_over_as_it_is() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a", max={"memory": 5})))
    facts = talk.nodes(a_node("n1", {"memory": 7}, an_existing("e1", memory=10, priority=3, tags={"t": "v"})))
    assert states(facts) == [S.ACCEPTED, S.STARTING]
    allocated = only(Allocated, facts)
    assert allocated.recovered
    assert (allocated.uuid, allocated.node_id, allocated.priority, allocated.tags) == ("e1", "n1", 3, {"t": "v"})
    assert talk.node().available == {"memory": -3}, "room or no room"
    assert talk.queue().allocated == {"memory": 10}, "quota or no quota"
    talk.asks(an_ask("more", 1))
    assert placed(talk.schedule()) == []


def test_placeholders_are_recovered_as_placeholders() -> None:
    talk = a_conversation()
    facts = talk.nodes(
        a_node(
            "n1",
            ROOM,
            an_existing("e1", "p", task_group="g", placeholder=True),
            an_existing("e2", "p2", placeholder=True),
        )
    )
    assert [one.placeholder for one in of(Allocated, facts)] == [True, False]
    assert (talk.app().placeholder_allocated, talk.app().allocated) == ({"memory": 10}, {"memory": 10})
    assert talk.scheduler.next_deadline_ns() is not None


def test_a_recovered_placeholder_does_not_wake_a_completing_application(talk: Conversation) -> None:
    """There is nothing to do for it yet, and its leftovers have to go in the end."""
    talk.asks(an_ask())
    talk.schedule()
    talk.release()
    facts = talk.nodes(a_node("n2", ROOM, an_existing("e1", "p", task_group="g", placeholder=True)))
    assert states(facts) == []
    assert talk.app().state == S.COMPLETING


def test_a_recovered_allocation_wakes_a_completing_application(talk: Conversation) -> None:
    talk.asks(an_ask())
    talk.schedule()
    talk.release()
    assert states(talk.nodes(a_node("n2", ROOM, an_existing("e1")))) == [S.RUNNING]


@pytest.mark.parametrize(("count", "left"), [(1, 0), (3, 2)])
def test_an_existing_allocation_counts_towards_max_allocations_of_a_pending_ask(
    talk: Conversation, count: int, left: int
) -> None:
    talk.asks(an_ask("k", count=count))
    facts = talk.nodes(a_node("n2", {}, an_existing("e1", "k")))
    withdrawn = only(AskWithdrawn, facts)
    assert (withdrawn.count, withdrawn.cause, withdrawn.termination) == (1, WithdrawCause.RECOVERED, None)
    assert len(placed(talk.schedule())) == left


def test_an_ask_that_comes_after_its_allocation_is_an_update(talk: Conversation) -> None:
    talk.nodes(a_node("n2", {}, an_existing("e1", "k")))
    assert of(AskAdded, talk.asks(an_ask("k"))) == []
    assert only(AskAdded, talk.asks(an_ask("k", count=3))).count == 2


def test_an_existing_allocation_keeps_its_own_size(talk: Conversation) -> None:
    talk.asks(an_ask("k", 30, count=2))
    talk.nodes(a_node("n2", {"memory": 50}, an_existing("e1", "k", memory=20)))
    assert talk.node("n2").allocated == {"memory": 20}
    assert [one.resources for one in talk.app().asks] == [{"memory": 30}]


@pytest.mark.parametrize(
    ("bad", "code", "said"),
    [
        (an_existing("", "k"), RejectCode.EMPTY_ID, "existingAllocations[1].UUID is empty"),
        (an_existing("e2", ""), RejectCode.EMPTY_ID, "existingAllocations[1].allocationKey is empty"),
        (an_existing("e2", app=""), RejectCode.EMPTY_ID, "existingAllocations[1].applicationID is empty"),
        (an_existing("e2", app="gone"), RejectCode.UNKNOWN_APPLICATION, "applicationID 'gone'"),
        (an_existing("e2", memory=0), RejectCode.INVALID_RESOURCES, "existingAllocations[1].resourcePerAlloc is"),
        (an_existing("e2", memory=-1), RejectCode.INVALID_RESOURCES, "resourcePerAlloc['memory'] is -1"),
        (
            an_existing("e2", node_id="n1"),
            RejectCode.INVALID_FIELD,
            "existingAllocations[1].nodeID is 'n1'; it must be empty or the node's own id 'n2'",
        ),
        (
            an_existing("e2", partition="gpu"),
            RejectCode.INVALID_FIELD,
            "existingAllocations[1].partitionName is 'gpu'; it must be empty or the node's own partition 'default'",
        ),
        (an_existing("e1"), RejectCode.DUPLICATE_ID, "existingAllocations[1].UUID 'e1' is an allocation already"),
        (an_existing("e1", app="other"), RejectCode.DUPLICATE_ID, "of application app on node n2"),
        (an_existing("uuid-1"), RejectCode.DUPLICATE_ID, "of application app on node n1"),
    ],
)
def test_one_existing_allocation_that_cannot_be_right_refuses_the_node(
    talk: Conversation, bad: ExistingAllocation, code: RejectCode, said: str
) -> None:
    talk.apps(an_app("other"))
    talk.asks(an_ask("runs"))
    talk.schedule()
    facts = talk.nodes(a_node("n2", ROOM, an_existing("e1"), bad))
    rejected = only(NodeRejected, facts)
    assert rejected.code is code
    assert said in rejected.reason
    assert of(NodeAccepted, facts) == []
    assert [one.confirm for one in of(Released, facts)] == [False], "the RM is not told what it never heard of"
    assert [node.node_id for node in talk.view().nodes] == ["n1"]
    assert talk.app().allocated == {"memory": 10}
    assert of(NodeAccepted, talk.nodes(a_node("n2", ROOM, an_existing("e1")))), "it may come again"


def test_its_own_names_are_fine() -> None:
    talk = a_conversation()
    same = an_existing("e1", node_id="n1", partition=f"[{RM}]default")
    assert of(NodeAccepted, talk.nodes(a_node("n1", ROOM, same)))


def test_a_uuid_is_free_again_when_its_allocation_is_gone(talk: Conversation) -> None:
    talk.nodes(a_node("n2", ROOM, an_existing("e1")))
    talk.release(uuid="e1")
    assert of(NodeAccepted, talk.nodes(a_node("n3", ROOM, an_existing("e1"))))


def test_a_registration_that_was_rolled_back_does_not_count_towards_max_allocations(talk: Conversation) -> None:
    talk.asks(an_ask("k", count=2), an_ask("big", 500))
    talk.nodes(a_node("n2", ROOM, an_existing("e1", "k"), an_existing("", "k")))
    talk.asks(an_ask("k", count=2))
    assert [key for _, key, _ in placed(talk.schedule())] == ["k", "k"]


def test_allocations_a_node_comes_with_go_with_it() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1"), an_existing("e2")))
    facts = talk.step(UpdateNodes(RM, [a_node("n1", action=A.DECOMISSION)]))
    assert [one.uuid for one in of(Released, facts)] == ["e1", "e2"]
    assert states(facts) == [S.COMPLETING]
    assert talk.view().users == []


def test_the_core_does_not_count_in_what_the_rm_sent() -> None:
    capacity = Resources(ROOM)
    talk = a_conversation(NodeUpdate("n1", A.CREATE, capacity=capacity))
    talk.asks(an_ask())
    talk.schedule()
    assert capacity == ROOM


def test_an_action_nobody_knows_is_named_in_the_reason() -> None:
    talk = a_conversation()
    unknown = a_node("n1", action=NodeAction.UNKNOWN)
    unknown.action_number = 99
    assert "action is 99; it must be CREATE" in only(NodeRejected, talk.nodes(unknown)).reason
