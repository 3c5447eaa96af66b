"""Existing allocations in an update of a known node are taken over as with its registration (SEMANTICS I25)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import ExistingAllocation, NodeAction, NodeUpdate, TerminationType
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    AskRejected,
    AskWithdrawn,
    ChangeCause,
    NodeRejected,
    ReleaseCause,
    Released,
    ReleaseRequested,
    WithdrawCause,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from tests.unit.core.answering_rm import AnsweringRM
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
)
from tests.unit.core.preemption_builders import an_entitled_ask, fill, wait


def an_update(node_id: str, *existing: ExistingAllocation) -> NodeUpdate:
    return a_node(node_id, None, *existing, action=NodeAction.UPDATE)


def a_talk() -> Conversation:
    return a_conversation(
        a_node("n1", {"memory": 20}), a_node("n2", {"memory": 20}), root=a_root(a_queue_spec("a", max={"memory": 20}))
    )


def where(talk: Conversation) -> dict[str, tuple[str, str, int]]:
    """Key, node and memory of every allocation by its UUID, as application, queue and nodes agree about them."""
    model = talk.model()
    for node in model.nodes.values():
        for uuid, one in node.allocations.items():
            assert (one.uuid, one.node) == (uuid, node)
    return {
        uuid: (one.key, one.node.node_id, one.request_class.resources["memory"])
        for uuid, one in model.allocations.items()
    }


def test_an_unknown_allocation_is_taken_over_and_its_resource_manager_is_not_told() -> None:
    talk = a_talk()
    facts = talk.nodes(an_update("n1", an_existing("e1", "k", memory=15)))
    assert only(Allocated, facts).recovered
    assert where(talk) == {"e1": ("k", "n1", 15)}
    assert talk.queue().allocated == {"memory": 15}


def test_quota_and_capacity_are_no_bar() -> None:
    talk = a_talk()
    talk.nodes(an_update("n1", an_existing("e1", "k", memory=50)))
    assert talk.node("n1").available == {"memory": -30}
    talk.asks(an_ask("a"))
    assert placed(talk.schedule()) == []


def test_a_pending_ask_of_its_key_is_withdrawn() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 15), an_ask("other", 5))
    facts = talk.nodes(an_update("n1", an_existing("e1", "k", memory=15)))
    withdrawn = only(AskWithdrawn, facts)
    assert (withdrawn.allocation_key, withdrawn.cause, withdrawn.termination) == ("k", WithdrawCause.RECOVERED, None)
    assert placed(talk.schedule()) == [("app", "other", "n2")]


def test_an_ask_that_waits_for_an_answer_is_withdrawn_with_its_call() -> None:
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    talk.withholds_answers = True
    talk.asks(an_ask("k"))
    talk.schedule()
    assert talk.open_calls == 1
    talk.nodes(an_update("n1", an_existing("e1", "k")))
    assert talk.open_calls == 0
    assert where(talk) == {"e1": ("k", "n1", 10)}


def test_of_an_ask_for_several_one_is_withdrawn() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 5, count=3))
    talk.nodes(an_update("n1", an_existing("e1", "k", memory=5)))
    assert len(placed(talk.schedule())) == 2
    assert len(where(talk)) == 3


def test_one_on_another_node_moves() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 15))
    (before,) = of(Allocated, talk.schedule())
    assert before.node_id == "n1"
    facts = talk.nodes(an_update("n2", an_existing("mine", "k", memory=15)))
    moved = only(AllocationChanged, facts)
    assert (moved.cause, moved.old_uuid, moved.old_node_id) == (ChangeCause.MOVED, before.uuid, "n1")
    assert (moved.uuid, moved.node_id, moved.resources) == ("mine", "n2", {"memory": 15})
    assert where(talk) == {"mine": ("k", "n2", 15)}
    assert talk.node("n1").available == {"memory": 20}
    assert talk.queue().allocated == {"memory": 15}
    assert of(Released, facts) == [], "nothing has ended"


def test_one_that_moves_has_the_amounts_of_the_report() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 15))
    talk.schedule()
    facts = talk.nodes(an_update("n2", an_existing("mine", "k", memory=8)))
    assert [one.cause for one in of(AllocationChanged, facts)] == [ChangeCause.MOVED, ChangeCause.RESIZED]
    assert where(talk) == {"mine": ("k", "n2", 8)}
    assert talk.queue().allocated == {"memory": 8}
    assert talk.app().allocated == {"memory": 8}


def test_the_same_report_twice_changes_nothing() -> None:
    talk = a_talk()
    talk.nodes(an_update("n1", an_existing("e1", "k", memory=15)))
    facts = talk.nodes(an_update("n1", an_existing("e1", "k", memory=15)))
    assert facts[1:] == [], "only that the node was updated"
    assert where(talk) == {"e1": ("k", "n1", 15)}


def test_room_that_it_leaves_is_for_waiting_asks() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), a_node("n2", {"memory": 5}))
    talk.asks(an_ask("k", 15), an_ask("waits", 16))
    talk.schedule()
    talk.nodes(an_update("n2", an_existing("mine", "k", memory=15)))
    assert placed(talk.schedule()) == [("app", "waits", "n1")]


def test_with_several_of_a_key_the_uuid_says_which_moves() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 5, count=2))
    first, second = of(Allocated, talk.schedule())
    talk.nodes(an_update(second.node_id, an_existing(first.uuid, "k", memory=5)))
    assert where(talk) == dict.fromkeys((first.uuid, second.uuid), ("k", second.node_id, 5))


def test_two_of_one_key_in_one_update_are_two() -> None:
    talk = a_talk()
    talk.nodes(an_update("n1", an_existing("e1", "k", memory=5), an_existing("e2", "k", memory=6)))
    assert where(talk) == {"e1": ("k", "n1", 5), "e2": ("k", "n1", 6)}


def test_a_victim_that_moves_is_told_to_go_once_and_goes() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 15, execution_timeout_ms=1))
    (before,) = of(Allocated, talk.schedule())
    asked = only(ReleaseRequested, talk.sleep(10_000_000))
    facts = talk.nodes(an_update("n2", an_existing(before.uuid, "k", memory=12)))
    assert of(ReleaseRequested, facts) == []
    talk.release(uuid=asked.uuid, termination=asked.termination)
    assert where(talk) == {}
    assert talk.queue().allocated == {}


def test_a_victim_that_moves_makes_no_room_where_it_was() -> None:
    root = a_root(a_queue_spec("claims", guaranteed={"memory": 20}), a_queue_spec("victims"))
    talk = a_conversation(a_node("n1", {"memory": 20}), a_node("n2", {"memory": 10}), root=root)
    fill(talk, "low", "root.victims", k=20)
    talk.apps(an_app("claimer", "root.claims"))
    talk.asks(an_entitled_ask(memory=20))
    victim = only(ReleaseRequested, wait(talk, 60 * SECOND_NS))
    assert victim.cause is ReleaseCause.PREEMPTED
    facts = talk.nodes(an_update("n2", an_existing(victim.uuid, "k", "low", 20)))
    assert only(AllocationChanged, facts).node_id == "n2"
    assert placed(talk.schedule()) == [("claimer", "c", "n1")], "its room is free at once"
    talk.release(application_id="low", uuid=victim.uuid, termination=victim.termination)
    assert [key for key, _, _ in where(talk).values()] == ["c"]


def test_one_that_was_told_to_go_keeps_its_uuid() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", 15, execution_timeout_ms=1))
    (before,) = of(Allocated, talk.schedule())
    talk.sleep(10_000_000)
    rejected = only(NodeRejected, talk.nodes(an_update("n2", an_existing("mine", "k", memory=15))))
    assert rejected.reason.startswith("existingAllocations[0] (allocationKey 'k'): UUID is 'mine', and allocation ")
    assert "its release must be confirmed first" in rejected.reason
    assert where(talk) == {before.uuid: ("k", "n1", 15)}


def test_a_placeholder_that_moves_is_replaced_where_it_is() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), a_node("n2", {"memory": 20}))
    talk.asks(a_placeholder("p", 10))
    (before,) = of(Allocated, talk.schedule())
    talk.asks(an_ask("real", 10, task_group="group"))
    asked = only(ReleaseRequested, talk.schedule())
    elsewhere = "n2" if before.node_id == "n1" else "n1"
    moved = an_existing(before.uuid, "p", memory=10, task_group="group", placeholder=True)
    talk.nodes(an_update(elsewhere, moved))
    facts = talk.release(uuid=asked.uuid, termination=TerminationType.PLACEHOLDER_REPLACED)
    assert placed(facts) == [("app", "real", elsewhere)]


def test_with_a_placeholder_that_is_reported_larger_the_gang_may_be_whole() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", 10, app="gang"))
    (before,) = of(Allocated, talk.schedule())
    assert talk.app("gang").state == ApplicationState.ACCEPTED
    larger = an_existing(before.uuid, "p", app="gang", memory=20, task_group="group", placeholder=True)
    talk.nodes(an_update("n1", larger))
    assert talk.app("gang").state == ApplicationState.STARTING


@pytest.mark.parametrize(
    ("existing", "reason"),
    [
        (an_existing("", "k"), "UUID is empty"),
        (an_existing("e1", "k", memory=-1), "resourcePerAlloc['memory'] is -1"),
        (an_existing("taken", "k"), "UUID 'taken' is an allocation already, of application app on node n2"),
        (an_existing("e1", "p"), "is a placeholder, and is reported as a real allocation; release it first"),
        (an_existing("e1", "k", node_id="n2"), "nodeID is 'n2'"),
    ],
)
def test_one_that_cannot_be_right_rejects_the_update_which_changes_nothing(
    existing: ExistingAllocation, reason: str
) -> None:
    talk = a_talk()
    taken = an_existing("taken", "other")
    held = an_existing("ph", "p", task_group="group", placeholder=True)
    talk.nodes(an_update("n2", taken, held))
    before = where(talk)
    update = an_update("n1", an_existing("good", "good"), existing)
    update.capacity = talk.model().nodes["n2"].capacity.times(3)
    rejected = only(NodeRejected, talk.nodes(update))
    assert rejected.reason.startswith(f"existingAllocations[1] (allocationKey '{existing.allocation_key}'): ")
    assert reason in rejected.reason
    assert where(talk) == before
    assert talk.node("n1").capacity == {"memory": 20}


def test_an_update_of_an_unknown_node_is_rejected_at_once() -> None:
    talk = a_talk()
    rejected = only(NodeRejected, talk.nodes(an_update("n3", an_existing("e1", "k", app="late"))))
    assert "nodeID 'n3' is not registered" in rejected.reason


def test_with_a_registration_an_allocation_of_the_key_is_one_more() -> None:
    talk = a_talk()
    talk.nodes(an_update("n1", an_existing("e1", "k", memory=5)))
    facts = talk.nodes(a_node("n3", {"memory": 20}, an_existing("e2", "k", memory=5)))
    assert of(AskRejected, facts) == []
    assert set(where(talk)) == {"e1", "e2"}
