"""Slots follow the members of their gang."""

from __future__ import annotations

from tests.unit.core.builders import Conversation, a_conversation, a_node
from tests.unit.core.gangs.test_declared_gangs import declares, member


def preempts(talk: Conversation) -> bool:
    """Whether allocations may be preempted for the slots of the gang."""
    return talk.model().applications["gang"].asks["slots of w"].spec.allow_preempt_other


def test_slots_preempt_as_long_as_a_member_may() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(declares({"name": "w", "min": 3, "resources": {"memory": 10}}))
    talk.schedule()
    talk.asks(member("a"))
    assert not preempts(talk)
    talk.asks(member("b", allow_preempt_other=True))
    assert preempts(talk)
    talk.release_asks(application_id="gang", allocation_key="b")
    assert not preempts(talk)
