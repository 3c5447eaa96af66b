"""Completing: when it begins, what ends it, and how it is clean before (gang design; SEMANTICS G4, G6)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import (
    Released,
    ReleaseIgnored,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    of,
    only,
    placed,
    states,
)
from tests.unit.core.gang_builders import (
    a_full_gang,
    a_gang,
    a_held_place,
    a_swap,
    asked_to_release,
    confirm,
    real,
)
from tests.unit.core.heard import allocated, released, updated

S = ApplicationState
T = TerminationType
TIMES = Timeouts()


def a_completing_gang() -> Conversation:
    """Three placeholders, of which one was replaced; the real allocation has ended since."""
    talk = a_full_gang(3, memory=30)
    confirm(talk, a_swap(talk))
    assert states(talk.release(application_id="gang", allocation_key="r"), "gang") == [S.COMPLETING]
    return talk


# Going on without a gang


def resumed() -> Conversation:
    """A soft gang whose time is over and whose placeholder is gone; no real ask came yet."""
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(a_gang(gang_style="Soft"))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    request = only(ReleaseRequested, talk.sleep(TIMES.placeholder_ns))
    assert states(confirm(talk, request), "gang") == [S.ACCEPTED]
    return talk


def test_a_soft_gang_without_placeholders_has_a_while_for_its_real_asks_before_it_completes() -> None:
    talk = resumed()
    assert states(talk.sleep(TIMES.completing_ns - 1), "gang") == []
    assert states(talk.sleep(1), "gang") == [S.COMPLETING]
    assert states(talk.sleep(TIMES.completing_ns), "gang") == [S.COMPLETED]


@pytest.mark.parametrize(("memory", "after"), [(10, [S.STARTING, S.RUNNING]), (500, [])], ids=["placed", "pending"])
def test_real_asks_that_come_in_that_while_keep_it_going(memory: int, after: list[ApplicationState]) -> None:
    talk = resumed()
    talk.sleep(TIMES.completing_ns - 1)
    talk.asks(real(memory=memory))
    facts = talk.schedule() + talk.sleep(10 * TIMES.starting_ns)
    assert states(facts, "gang") == after
    facts = talk.release_asks(application_id="gang") + talk.release(application_id="gang")
    assert states(facts, "gang") == [S.COMPLETING]


# Completing


def test_pending_placeholders_are_activity() -> None:
    """Placeholder asks are considered pending resource asks; placeholders are not considered active allocations."""
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(a_gang(memory=50))
    talk.asks(real(task_group=""))
    talk.schedule()
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    assert states(talk.release(application_id="gang", allocation_key="r"), "gang") == []
    assert states(talk.schedule(), "gang") == []
    assert talk.app("gang").state == S.STARTING


def test_a_swap_moves_no_application_into_completing_on_its_way() -> None:
    talk = a_full_gang(1)
    assert states(confirm(talk, a_swap(talk)), "gang") == [S.RUNNING]
    later = a_full_gang(2)
    confirm(later, a_swap(later))
    request = a_swap(later, real("s"))
    assert states(later.release(application_id="gang", allocation_key="r"), "gang") == []
    assert states(confirm(later, request), "gang") == [S.RUNNING]


def test_withdrawing_the_last_ask_that_awaits_a_placeholder_completes_its_application() -> None:
    talk = a_full_gang(2)
    confirm(talk, a_swap(talk))
    request = a_swap(talk, real("s"))
    talk.release(application_id="gang", allocation_key="r")
    facts = talk.release_asks(application_id="gang", allocation_key="s")
    assert states(facts + confirm(talk, request), "gang") == [S.COMPLETING]


def test_new_asks_bring_it_back_to_running_and_take_the_placeholders_it_still_has() -> None:
    talk = a_completing_gang()
    talk.sleep(TIMES.completing_ns - 1)
    assert states(talk.asks(real("s", count=2)), "gang") == [S.RUNNING]
    facts = talk.schedule()
    assert asked_to_release(facts) == [("p", "PLACEHOLDER_REPLACED")] * 2
    assert of(ReleaseRequested, talk.sleep(TIMES.completing_ns)) == []
    for request in of(ReleaseRequested, facts):
        assert allocated(confirm(talk, request)) == [("s", "n1", False)]
    assert talk.app("gang").state == S.RUNNING
    assert talk.node().allocated == {"memory": 20}


def test_it_is_clean_before_it_is_completed() -> None:
    talk = a_completing_gang()
    facts = talk.sleep(TIMES.completing_ns)
    assert released(facts) == [("p", "TIMEOUT")] * 2
    assert (updated(facts), talk.node().allocated) == ([], {"memory": 20})
    first, second = of(ReleaseRequested, facts)
    talk.now_ns += 1
    assert states(confirm(talk, first), "gang") == []
    talk.now_ns += 1
    facts = confirm(talk, second)
    assert updated(facts) == [("gang", "Completed", talk.now_ns, "completeApplication")]
    assert released(facts) == []
    assert (talk.node().allocated, talk.queue().applications) == ({}, ["app"])
    [group] = talk.view().terminated[-1].task_groups
    assert (group.placed, group.replaced, group.idle) == (3, 1, 0)


def test_asks_that_come_while_leftovers_go_are_placed_and_the_leftovers_go_all_the_same() -> None:
    talk = a_completing_gang()
    first, second = of(ReleaseRequested, talk.sleep(TIMES.completing_ns))
    assert states(talk.asks(real("s")), "gang") == [S.RUNNING]
    assert placed(talk.schedule()) == [("gang", "s", "n1")]
    assert states(confirm(talk, first) + confirm(talk, second), "gang") == []
    assert talk.node().allocated == {"memory": 10}
    assert states(talk.release(application_id="gang", allocation_key="s"), "gang") == [S.COMPLETING]
    assert states(talk.sleep(TIMES.completing_ns), "gang") == [S.COMPLETED]


def test_leftovers_that_the_rm_stops_itself_change_no_time() -> None:
    talk = a_completing_gang()
    facts = talk.release(application_id="gang")
    assert released(facts) == [("p", "STOPPED_BY_RM")] * 2
    assert states(facts + talk.sleep(TIMES.completing_ns - 1), "gang") == []
    assert states(talk.sleep(1), "gang") == [S.COMPLETED]


@pytest.mark.parametrize("before", [True, False], ids=["before the clean-up", "after it"])
def test_the_gang_timer_of_a_completing_application_takes_its_placeholders_and_nothing_else(before: bool) -> None:
    timeouts = Timeouts(placeholder_ns=MINUTE_NS, completing_ns=(2 * MINUTE_NS if before else SECOND_NS))
    talk = a_full_gang(2, timeouts=timeouts, placeholder_ask=Resources(memory=30))
    confirm(talk, a_swap(talk))
    talk.release(application_id="gang", allocation_key="r")
    facts = talk.sleep(MINUTE_NS)
    assert (states(facts, "gang"), asked_to_release(facts)) == ([], [("p", "TIMEOUT")])
    facts = confirm(talk, only(ReleaseRequested, facts))
    facts += talk.sleep(MINUTE_NS)
    assert states(facts, "gang") == [S.COMPLETED]


def test_without_confirmation_it_waits_and_can_be_removed() -> None:
    talk = a_completing_gang()
    requests = of(ReleaseRequested, talk.sleep(TIMES.completing_ns))
    assert states(talk.sleep(100 * TIMES.completing_ns), "gang") == []
    assert len(of(Released, talk.remove("gang"))) == 2
    assert talk.node().allocated == {}
    assert [only(ReleaseIgnored, confirm(talk, one)).uuid for one in requests] == [one.uuid for one in requests]


def test_a_placeholder_reported_while_the_leftovers_go_goes_too() -> None:
    talk = a_completing_gang()
    leftovers = of(ReleaseRequested, talk.sleep(TIMES.completing_ns))
    facts = talk.nodes(a_node("n2", {"memory": 30}, a_held_place()))
    request = only(ReleaseRequested, facts)
    assert (request.uuid, request.termination) == ("e1", T.TIMEOUT)
    for one in leftovers:
        assert states(confirm(talk, one), "gang") == []
    assert states(confirm(talk, request), "gang") == [S.COMPLETED]
