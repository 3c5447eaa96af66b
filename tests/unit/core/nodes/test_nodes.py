"""Nodes: every action, and what is wrong with one (SI `NodeInfo`; SEMANTICS D)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction, NodeUpdate, TerminationType
from schedulerd.core.language.facts.fact import (
    NodeAccepted,
    NodeChanged,
    NodeRejected,
    RejectCode,
    Released,
    ReleaseIgnored,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState, NodeState
from schedulerd.core.language.specs import NodeOrder, Timeouts
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
            "schedulableResource has more than 64 resources; at most 64 are allowed",
        ),
        (a_node("n2", {"": 1}), RejectCode.INVALID_RESOURCES, "the resource ''"),
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
    moved = only(NodeRejected, talk.nodes(a_node("n2", ROOM), a_node("n2", action=A.UPDATE, partition="gpu")))
    assert (moved.partition, moved.code) == ("gpu", RejectCode.UNKNOWN_NODE)
    assert "in partition 'gpu', but in 'default'; UPDATE needs" in moved.reason, "it stays in its partition"


def test_a_new_node_requeues_what_fits_there() -> None:
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


def test_a_node_that_grows_requeues_what_waits_for_it(talk: Conversation) -> None:
    talk.asks(an_ask("large", 150))
    assert placed(talk.schedule()) == []
    talk.nodes(a_node("n1", {"memory": 200}, action=A.UPDATE))
    assert placed(talk.schedule()) == [("app", "large", "n1")]


def test_a_node_that_shrinks_below_its_use_takes_nothing_until_it_has_room_again(talk: Conversation) -> None:
    talk.asks(an_ask("k", 40, 2))
    talk.schedule()
    assert [type(fact) for fact in talk.nodes(a_node("n1", {"memory": 70}, action=A.UPDATE))] == [NodeChanged]
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


@pytest.mark.parametrize("ready", ["true", "false"])
def test_undraining_a_node_that_does_not_drain_is_rejected_and_the_node_stays_as_it_is(
    talk: Conversation, ready: str
) -> None:
    talk.nodes(a_node("n1", attributes={"ready": ready}, action=A.UPDATE))
    before = talk.view()
    facts = talk.nodes(a_node("n1", action=A.DRAIN_TO_SCHEDULABLE))
    rejected = only(NodeRejected, facts)
    assert (rejected.code, rejected.node_id, facts) == (RejectCode.INVALID_STATE, "n1", [rejected])
    assert "nodeID 'n1' does not drain" in rejected.reason
    assert talk.view() == before


def test_what_is_freed_on_a_draining_node_requeues_nothing(talk: Conversation) -> None:
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


def test_what_was_asked_to_go_is_not_told_again_when_its_node_goes() -> None:
    talk = a_conversation(a_node("n1", ROOM), a_node("n2", {}))
    talk.asks(an_ask("stays", 30), an_ask("goes", 30, execution_timeout_ms=1))
    talk.schedule()
    going = only(ReleaseRequested, talk.sleep(1_000_000))
    facts = talk.nodes(a_node("n1", action=A.DECOMISSION))
    told = {one.allocation_key: (one.confirm, one.node_removed) for one in of(Released, facts)}
    assert told == {"stays": (True, True), "goes": (False, True)}
    assert talk.queue().allocated == {}, "what it used went with the node"
    late = talk.release(uuid=going.uuid, termination=going.termination)
    assert [type(fact) for fact in late] == [ReleaseIgnored], "the answer to the one release that is out"
