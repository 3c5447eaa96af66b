"""What a resource manager says of what it brings along and what is not so here: told, and taken over all the same."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.facts.fact import Allocated, AskRejected, ItemIgnored, NodeAccepted, RejectCode
from tests.unit.core.builders import a_conversation, a_node, an_ask, an_existing, of, only


def brought(**fields: Any) -> Any:
    """The facts of a node that comes with an allocation of the application in root.a."""
    talk = a_conversation()
    return talk.nodes(a_node("n1", {"memory": 20}, an_existing(**fields)))


@pytest.mark.parametrize("queue", ["", "root.a", "a", "ROOT.A"])
def test_the_queue_of_its_application_or_none_is_right(queue: str) -> None:
    facts = brought(queue=queue)
    assert of(ItemIgnored, facts) == []
    assert only(Allocated, facts).recovered


@pytest.mark.parametrize("queue", ["root.b", "root", "b.a"])
def test_another_queue_is_told_and_does_not_count(queue: str) -> None:
    facts = brought(queue=queue)
    ignored = only(ItemIgnored, facts)
    assert (ignored.object_id, ignored.code) == ("e1", RejectCode.INVALID_FIELD)
    assert ignored.reason == (
        f"existingAllocations[0].queueName is {queue!r}, but application app is in root.a, "
        "which is where the allocation counts"
    )
    assert only(Allocated, facts).queue == "root.a"
    assert of(NodeAccepted, facts)


def test_what_could_not_be_read_is_told() -> None:
    facts = brought(unreadable="priority.priorityClassName is 'x'")
    assert only(ItemIgnored, facts).reason == (
        "existingAllocations[0].priority.priorityClassName is 'x'; its priority counts as 0"
    )
    assert only(Allocated, facts).priority == 0


def test_an_ask_that_could_not_be_read_is_rejected_and_the_next_one_is_taken() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    rejected = only(AskRejected, talk.asks(an_ask("bad", unreadable="priority is odd"), an_ask("good")))
    assert (rejected.allocation_key, rejected.code) == ("bad", RejectCode.INVALID_FIELD)
    assert rejected.reason == "priority is odd"
    assert [fact.allocation_key for fact in of(Allocated, talk.schedule())] == ["good"]
