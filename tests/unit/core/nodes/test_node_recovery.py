"""The allocations that nodes come with: an RM that reports a node again says what runs there (SEMANTICS D, G7)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import ExistingAllocation, NodeAction, NodeUpdate, UpdateNodes
from schedulerd.core.language.facts.fact import (
    Allocated,
    AskAdded,
    AskWithdrawn,
    NodeAccepted,
    NodeRejected,
    RejectCode,
    Released,
    WithdrawCause,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import Timeouts
from tests.unit.core.builders import (
    RM,
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


def test_a_recovered_placeholder_does_not_resume_a_completing_application(talk: Conversation) -> None:
    """There is nothing to do for it yet, and its leftovers have to go in the end."""
    talk.asks(an_ask())
    talk.schedule()
    talk.release()
    facts = talk.nodes(a_node("n2", ROOM, an_existing("e1", "p", task_group="g", placeholder=True)))
    assert states(facts) == []
    assert talk.app().state == S.COMPLETING


def test_a_recovered_allocation_resumes_a_completing_application(talk: Conversation) -> None:
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
        (an_existing("", "k"), RejectCode.EMPTY_ID, "UUID is empty"),
        (an_existing("e2", ""), RejectCode.EMPTY_ID, "allocationKey is empty"),
        (an_existing("e2", app=""), RejectCode.EMPTY_ID, "applicationID is empty"),
        (an_existing("e2", memory=0), RejectCode.INVALID_RESOURCES, "resourcePerAlloc is"),
        (an_existing("e2", memory=-1), RejectCode.INVALID_RESOURCES, "resourcePerAlloc['memory'] is -1"),
        (
            an_existing("e2", node_id="n1"),
            RejectCode.INVALID_FIELD,
            "nodeID is 'n1'; it must be empty or the node's own id 'n2'",
        ),
        (
            an_existing("e2", partition="gpu"),
            RejectCode.INVALID_FIELD,
            "partitionName is 'gpu'; it must be empty or the node's own partition 'default'",
        ),
        (an_existing("e1"), RejectCode.DUPLICATE_ID, "UUID 'e1' is that of existingAllocations[0] too"),
        (an_existing("e1", app="other"), RejectCode.DUPLICATE_ID, "UUID 'e1' is that of existingAllocations[0] too"),
        (an_existing("uuid-1"), RejectCode.DUPLICATE_ID, "of application app on node n1"),
    ],
)
def test_one_existing_allocation_that_cannot_be_right_refuses_the_node_and_nothing_else_happens(
    talk: Conversation, bad: ExistingAllocation, code: RejectCode, said: str
) -> None:
    talk.apps(an_app("other"))
    talk.asks(an_ask("runs"), an_ask("k", 500))
    talk.schedule()
    before = talk.view()
    facts = talk.nodes(a_node("n2", ROOM, an_existing("e1"), bad))
    rejected = only(NodeRejected, facts)
    assert rejected.code is code
    assert rejected.reason.startswith(f"existingAllocations[1] (allocationKey {bad.allocation_key!r}): ")
    assert said in rejected.reason
    assert facts == [rejected], "no application moves, nothing is allocated, withdrawn or released"
    assert talk.view() == before
    assert of(NodeAccepted, talk.nodes(a_node("n2", ROOM, an_existing("e1")))), "it may come again"


def test_its_own_names_are_fine() -> None:
    talk = a_conversation()
    same = an_existing("e1", node_id="n1", partition=f"[{RM}]default")
    assert of(NodeAccepted, talk.nodes(a_node("n1", ROOM, same)))


def test_a_uuid_is_free_again_when_its_allocation_is_gone(talk: Conversation) -> None:
    talk.nodes(a_node("n2", ROOM, an_existing("e1")))
    talk.release(uuid="e1")
    assert of(NodeAccepted, talk.nodes(a_node("n3", ROOM, an_existing("e1"))))


def test_a_rejected_registration_does_not_count_towards_max_allocations(talk: Conversation) -> None:
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


def test_an_unknown_action_is_named_in_the_reason() -> None:
    talk = a_conversation()
    unknown = a_node("n1", action=NodeAction.UNKNOWN)
    unknown.action_number = 99
    assert "action is 99; it must be CREATE" in only(NodeRejected, talk.nodes(unknown)).reason
