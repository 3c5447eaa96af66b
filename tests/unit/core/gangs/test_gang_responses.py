"""What a resource manager is told when a gang's time is over, and in which order (gang design; SEMANTICS G5)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import ApplicationChanged, AskWithdrawn, Fact, Released, ReleaseRequested
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.wire.dialect import Stream
from tests.unit.core.builders import Conversation, a_conversation, a_node, a_placeholder, only, placed
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_swap, confirm, real
from tests.unit.core.heard import allocated, released, released_asks, responses, updated

T = TerminationType
TIMES = Timeouts()
TOLD = (ApplicationChanged, AskWithdrawn, ReleaseRequested, Released)


def told(facts: list[Fact]) -> list[type]:
    """The kinds of facts that a response tells, in order."""
    return [type(fact) for fact in facts if isinstance(fact, TOLD)]


def half(style: str) -> tuple[Conversation, list[Fact]]:
    """A gang of four that has two placeholders when its time is over; a real ask waits for it."""
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(a_gang(memory=45, gang_style=style, execution_timeout_ms=1_000))
    talk.asks(
        a_placeholder("p", count=3, app="gang"), a_placeholder("q", 15, app="gang", task_group="other"), real("waits")
    )
    assert placed(talk.schedule()) == [("gang", "p", "n1")] * 2
    return talk, talk.sleep(SECOND_NS)


@pytest.mark.parametrize(("style", "state"), [("Hard", "Failing"), ("Soft", "Resuming")])
def test_one_update_has_the_state_the_asks_and_the_placeholders_that_are_released(style: str, state: str) -> None:
    talk, facts = half(style)
    [(application_id, new, at_ns, message)] = updated(facts)
    assert (application_id, new, at_ns) == ("gang", state, talk.now_ns)
    assert message == (
        "ResourceReservationTimeout: after 1 s task group group has 2 of 3 placeholders: the next one needs 10 memory: "
        "no node has room: 1 node is considered, 1 has too little memory; task group other has 0 of 1 placeholders: "
        "the next one needs 15 memory: no node has room: 1 node is considered, 1 has too little memory"
    )
    assert released_asks(facts) == [("p", "TIMEOUT"), ("q", "TIMEOUT")]
    assert released(facts) == [("p", "TIMEOUT")] * 2
    assert told(facts) == [ApplicationChanged, AskWithdrawn, AskWithdrawn, ReleaseRequested, ReleaseRequested]
    response = responses(facts)[Stream.ALLOCATION]
    assert {one.UUID for one in response.released} == {"uuid-1", "uuid-2"}
    assert {one.applicationID for one in [*response.released, *response.releasedAsks]} == {"gang"}
    assert {one.partitionName for one in [*response.released, *response.releasedAsks]} == {"[rm-1]default"}
    assert {one.message for one in response.released} == {"placeholders of application gang timed out"}


def test_when_the_last_placeholder_of_a_hard_gang_is_gone_its_failure_is_told_and_the_asks_it_still_had() -> None:
    talk, failing = half("Hard")
    assert responses(talk.release(application_id="gang", uuid="uuid-1", termination=T.TIMEOUT)) == {}
    talk.now_ns += 1
    facts = talk.release(application_id="gang", uuid="uuid-2", termination=T.TIMEOUT)
    [(_, _, _, why)] = updated(failing)
    assert updated(facts) == [("gang", "Failed", talk.now_ns, why)], "the reason is told again"
    assert (released_asks(facts), released(facts)) == ([("waits", "TIMEOUT")], [])
    assert [one.application_id for one in talk.view().terminated] == ["gang"]
    assert (talk.queue().applications, talk.queue().pending, talk.node().allocated) == (["app"], {}, {})


def test_when_the_last_placeholder_of_a_soft_gang_is_gone_it_is_accepted_and_its_real_asks_are_placed() -> None:
    talk, _ = half("Soft")
    facts = talk.release(application_id="gang", termination=T.TIMEOUT)
    assert [one[1] for one in updated(facts)] == ["Accepted"]
    assert released_asks(facts) == []
    facts = talk.schedule()
    assert [one[1] for one in updated(facts)] == ["Starting"]
    assert allocated(facts) == [("waits", "n1", False)]


def test_a_swap_is_told_as_one_release_and_then_one_allocation_and_never_as_a_change_of_the_placeholder() -> None:
    talk = a_full_gang(2)
    talk.asks(real())
    facts = talk.schedule()
    assert (released(facts), allocated(facts), updated(facts)) == ([("p", "PLACEHOLDER_REPLACED")], [], [])
    facts = confirm(talk, only(ReleaseRequested, facts))
    assert (released(facts), allocated(facts), updated(facts)) == ([], [("r", "n1", False)], [])
    response = responses(facts)[Stream.ALLOCATION]
    assert response.new[0].taskGroupName == "group"
    assert response.new[0].UUID not in ("uuid-1", "uuid-2")


def test_a_swap_that_the_rm_stopped_itself_is_confirmed_and_completed_in_one_update() -> None:
    talk = a_full_gang(1)
    facts = confirm(talk, a_swap(talk), termination=T.STOPPED_BY_RM)
    assert (released(facts), allocated(facts)) == ([("p", "STOPPED_BY_RM")], [("r", "n1", False)])
    assert [one[1] for one in updated(facts)] == ["Running"]


def test_unused_placeholders_are_told_between_completing_and_completed() -> None:
    talk = a_full_gang(2)
    confirm(talk, a_swap(talk))
    facts = talk.release(application_id="gang", allocation_key="r")
    assert ([one[1] for one in updated(facts)], released(facts)) == (["Completing"], [("r", "STOPPED_BY_RM")])
    facts = talk.sleep(TIMES.completing_ns)
    assert (updated(facts), released(facts)) == ([], [("p", "TIMEOUT")])
    facts = confirm(talk, only(ReleaseRequested, facts))
    assert ([one[1] for one in updated(facts)], released(facts)) == (["Completed"], [])
