"""The invariants hold on sound states and name the place where one does not; that most bite is shown in tests/sim."""

from __future__ import annotations

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.specs import ApplicationOrder
from tests.unit.core.builders import (
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
)


def two_partitions() -> Conversation:
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec(), a_partition_spec(name="gpu"))
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 10}, partition="gpu"))
    return talk


def test_an_empty_scheduler_is_sound() -> None:
    assert violations(a_scheduler()) == []


def test_over_commit_is_legal() -> None:
    """A recovered allocation without room or quota is no violation (SEMANTICS D)."""
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.nodes(a_node("n2", {"memory": 1}, an_existing("e1", memory=500)))
    assert talk.node("n2").available == {"memory": -499}
    assert violations(talk.scheduler) == []


def test_a_busy_state_is_sound() -> None:
    talk = a_conversation(a_node("n1", {"memory": 50}))
    talk.apps(an_app("gang"), an_app("done"), an_app("bad", "root.nowhere"))
    talk.asks(a_placeholder("p", app="gang"), an_ask("k", count=9), an_ask("k", app="done"), an_ask("early", app="?"))
    talk.schedule()
    talk.release_asks(application_id="done")
    talk.disconnect()
    assert violations(talk.scheduler) == []


def test_a_violation_names_its_partition() -> None:
    talk = two_partitions()
    talk.model("gpu").nodes["n1"].allocated["memory"] = 3
    assert violations(talk.scheduler) == [
        "[rm-1]gpu: allocated of node n1 is {'memory': 3}, counted {}",
        "[rm-1]gpu: available of node n1 is {'memory': 10}, not capacity minus occupied and allocated",
    ]


def test_every_resource_manager_is_looked_at() -> None:
    talk = two_partitions()
    other = Conversation(talk.scheduler, "rm-2")
    other.register()
    other.model().root.pending["memory"] = -1
    assert violations(talk.scheduler) == [
        "[rm-2]default: pending of root is {'memory': -1}, counted {}",
        "[rm-2]default: pending of root is negative: {'memory': -1}",
    ]


def test_a_wrong_application_that_may_start_is_noticed() -> None:
    """The worlds of tests/sim have no state-aware leaf."""
    talk = a_conversation(root=a_root(a_queue_spec("a", order=ApplicationOrder.STATE_AWARE)))
    talk.asks(an_ask("k"))
    talk.apps(an_app("later"))
    talk.asks(an_ask("k", app="later"))
    first, later = talk.model().applications["app"], talk.model().applications["later"]
    assert (first.awaits_start, later.awaits_start) == (False, True)
    first.awaits_start, later.awaits_start = True, False
    found = violations(talk.scheduler)
    assert "[rm-1]default: application app waits in root.a, where the next to start is app" in found
    assert "[rm-1]default: application later does not wait in root.a, where the next to start is app" in found


def test_a_blocked_application_that_would_hold_its_queue_for_ever_is_noticed() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a", order=ApplicationOrder.STATE_AWARE)))
    talk.apps(an_app("later"))
    talk.asks(an_ask("k"), an_ask("k", app="later"))
    talk.schedule()
    first, later = talk.model().applications["app"], talk.model().applications["later"]
    assert first.start_alarm is not None
    first.start_alarm.deadline_ns += 1
    later.blocked_since_ns = 1
    found = violations(talk.scheduler)
    assert "[rm-1]default: application app is blocked in root.a, and nothing lets others start" in found
    assert "[rm-1]default: application later is noted as blocked in root.a, and no other waits for it" in found


def test_an_index_of_room_that_is_wrong_is_noticed() -> None:
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec())
    talk.connect()
    talk.nodes(*[a_node(f"n{at}", {"memory": 10 * at}, attributes={"r": "a"}) for at in (3, 1)])
    partition = talk.model()
    index = partition.rooms.of(partition.nodes.values(), "r", partition.request_class_of(an_ask("k", 10)))
    index.refresh(10)
    assert violations(talk.scheduler) == []
    index.domains["a"].nodes[partition.nodes["n3"]] -= 1
    assert violations(talk.scheduler) == [
        "[rm-1]default: an index of room has ('a', 2) of node n3, which has 3 in 'a'",
        "[rm-1]default: an index of room has 4 in 'a', which is not the sum of its nodes",
    ]
