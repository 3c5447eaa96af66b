"""What is known of gangs that declare their task groups, and of their slots, is noticed if it is not so."""

from __future__ import annotations

from schedulerd.core.invariants.all import violations
from tests.unit.core.builders import Conversation, a_conversation, a_node
from tests.unit.core.gangs.test_declared_gangs import declares, member


def a_waiting_gang() -> Conversation:
    talk = a_conversation(a_node("n1", {"memory": 25}))
    talk.apps(declares({"name": "w", "min": 3}))
    talk.asks(*map(member, "abc"))
    talk.schedule()
    assert violations(talk.scheduler) == []
    return talk


def test_a_declared_gang_that_the_partition_does_not_know_is_noticed() -> None:
    talk = a_waiting_gang()
    talk.model().declared_gangs.clear()
    assert "[rm-1]default: the partition knows 0 declared gangs, there are 1" in violations(talk.scheduler)


def test_slots_that_members_do_not_wait_for_are_noticed() -> None:
    talk = a_waiting_gang()
    gang = talk.model().applications["gang"].gang
    assert gang is not None
    gang.slot_groups.clear()
    assert "[rm-1]default: application gang does not know the groups of its slots that have no room" in violations(
        talk.scheduler
    )
