"""Facts about gangs as a whole, and that asks that await placeholders are never lost from the count."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.fact import (
    Allocated,
    AskAdded,
    AskWithdrawn,
    Fact,
    ReleaseCause,
    ReleaseRequested,
    WithdrawCause,
)
from schedulerd.core.language.facts.gangs import GangCompleted, GangTimedOut, SwapRefused
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MILLISECOND_NS, Timeouts
from schedulerd.core.views.values import TaskGroupView
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    an_app,
    an_ask,
    of,
    only,
    placed,
)
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_held_place, a_swap, confirm, real

S = ApplicationState
T = TerminationType
PATIENT = Timeouts(gang_deadlock_timeout_ns=0)


def causes(facts: list[Fact]) -> list[ReleaseCause]:
    return [one.cause for one in of(ReleaseRequested, facts)]


def group_of(talk: Conversation, app: str = "gang") -> TaskGroupView:
    [found] = talk.app(app).task_groups
    return found


def wanted(facts: list[Fact]) -> int:
    """By how much these facts change what is asked for and not placed, awaiting a placeholder or not."""
    added = sum(one.count for one in of(AskAdded, facts) if not one.awaited_placeholder)
    withdrawn = sum(one.count for one in of(AskWithdrawn, facts) if one.cause is not WithdrawCause.AWAITING_PLACEHOLDER)
    return added - withdrawn - sum(not one.recovered for one in of(Allocated, facts))


# the full gang


def test_a_gang_is_complete_with_the_last_placeholder_and_says_how_long_that_took() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), timeouts=PATIENT)
    talk.apps(a_gang(memory=30))
    asked_ns = talk.now_ns = 5_000
    talk.asks(a_placeholder("p", count=3, app="gang"))
    assert of(GangCompleted, talk.schedule()) == []
    assert (talk.app("gang").gang_first_asked_ns, talk.app("gang").gang_full_ns) == (asked_ns, None)
    talk.now_ns += 777
    talk.nodes(a_node("n2", {"memory": 20}))
    assert only(GangCompleted, talk.schedule()) == GangCompleted(RM, "default", "root.a", "gang", 3, 777)
    assert talk.app("gang").gang_full_ns == asked_ns + 777


def test_with_placeholder_ask_a_gang_is_complete_with_the_whole_of_it_not_with_what_was_asked_for_so_far() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.apps(a_gang(memory=20))
    talk.asks(a_placeholder("p1", app="gang"))
    assert of(GangCompleted, talk.schedule()) == []
    talk.now_ns += 9
    talk.asks(a_placeholder("p2", app="gang"))
    assert only(GangCompleted, talk.schedule()).waited_ns == 9


def test_a_gang_is_complete_once_whatever_it_asks_for_later() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(a_placeholder("p1"))
    assert only(GangCompleted, talk.schedule()).placeholders == 1
    completed_ns = talk.app().gang_full_ns
    talk.now_ns += 9
    talk.asks(a_placeholder("p2"))
    facts = talk.schedule()
    assert len(placed(facts)) == 1
    assert of(GangCompleted, facts) == []
    assert talk.app().gang_full_ns == completed_ns


def test_placeholders_that_came_with_their_node_leave_nothing_to_tell() -> None:
    talk = a_conversation()
    talk.apps(a_gang(memory=20))
    talk.asks(a_placeholder("q", app="gang"))
    recovered = talk.nodes(a_node("n1", {"memory": 100}, a_held_place()))
    facts = talk.schedule()
    assert [one.allocation_key for one in of(Allocated, [*recovered, *facts])] == ["p", "q"]
    assert of(GangCompleted, [*recovered, *facts]) == []
    assert talk.app("gang").state == S.STARTING, "the gang is whole, but since when is not known"
    assert (talk.app("gang").gang_first_asked_ns, talk.app("gang").gang_full_ns) == (None, None)


def test_a_gang_that_timed_out_is_not_complete_any_more() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}), timeouts=PATIENT)
    talk.apps(an_app("gang"))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    talk.sleep(PATIENT.placeholder_ns)
    talk.release(application_id="gang", termination=T.TIMEOUT)
    talk.asks(a_placeholder("q", app="gang"))
    facts = talk.schedule()
    assert placed(facts) == [("gang", "q", "n1")]
    assert of(GangCompleted, facts) == []


# the end of its time


@pytest.mark.parametrize(("style", "state"), [("Hard", S.FAILING), ("Soft", S.RESUMING)])
def test_a_gang_that_times_out_says_how_far_it_came(style: str, state: ApplicationState) -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), timeouts=PATIENT)
    talk.apps(a_gang(memory=30, gang_style=style, execution_timeout_ms=1_000))
    talk.asks(a_placeholder("p", count=3, app="gang"))
    talk.schedule()
    facts = talk.sleep(1_000 * MILLISECOND_NS)
    assert only(GangTimedOut, facts) == GangTimedOut(
        RM, "default", "root.a", "gang", state, wanted=3, placed=2, replaced=0, timed_out=3
    )
    assert causes(facts) == [ReleaseCause.TIMED_OUT] * 2
    group = group_of(talk)
    assert (group.wanted, group.placed, group.idle, group.timed_out) == (3, 2, 0, 3)


def test_one_that_runs_already_loses_what_it_did_not_use() -> None:
    talk = a_full_gang(3, placeholder_ask=Resources(memory=40), execution_timeout_ms=1_000)
    confirm(talk, a_swap(talk))
    facts = talk.sleep(1_000 * MILLISECOND_NS)
    timed_out = only(GangTimedOut, facts)
    assert (timed_out.state, timed_out.replaced, timed_out.timed_out) == (S.STARTING, 1, 2)
    withdrawn = only(AskWithdrawn, facts)  # all of it is allocated, and the RM is told not to ask for it again
    assert (withdrawn.allocation_key, withdrawn.count, withdrawn.termination) == ("p", 0, T.TIMEOUT)


# why placeholders go


def test_a_swap_that_is_refused_says_so_once_with_both_numbers() -> None:
    talk = a_full_gang(3)
    talk.asks(real("r", 15, count=2))
    facts = talk.schedule()
    reason = "ask r of application gang does not fit: it asks for 15 memory, placeholder p has 10"
    assert only(SwapRefused, facts) == SwapRefused(RM, "default", "root.a", "gang", "r", "group", 2, reason)
    assert causes(facts) == [ReleaseCause.TOO_SMALL] * 2
    assert (group_of(talk).unused, group_of(talk).timed_out, group_of(talk).idle) == (2, 0, 1)


def test_placeholders_that_a_completing_application_did_not_use_have_not_timed_out() -> None:
    talk = a_full_gang(2)
    confirm(talk, a_swap(talk))
    talk.release(application_id="gang", allocation_key="r")
    facts = talk.sleep(Timeouts().completing_ns)
    assert causes(facts) == [ReleaseCause.UNUSED]
    assert of(GangTimedOut, facts) == []
    assert (group_of(talk).unused, group_of(talk).timed_out) == (1, 0)


# asks that await placeholders


def test_an_ask_that_awaits_a_placeholder_shows_at_its_task_group_until_it_has_the_room() -> None:
    talk = a_full_gang(2)
    request = a_swap(talk)
    assert (request.placeholder, request.cause) == (True, ReleaseCause.REPLACED)
    assert (group_of(talk).awaiting_placeholder, group_of(talk).idle, group_of(talk).replaced) == (1, 1, 0)
    confirm(talk, request)
    assert (group_of(talk).awaiting_placeholder, group_of(talk).idle, group_of(talk).replaced) == (0, 1, 1)


@pytest.mark.parametrize("end", ["taken back", "updated", "application removed", "partition removed"])
def test_an_ask_that_awaits_a_placeholder_is_withdrawn_like_any_other(end: str) -> None:
    talk = a_full_gang(2)
    talk.asks(real("r", count=2), an_ask("waits", 500, app="gang"))
    assert len(of(ReleaseRequested, talk.schedule())) == 2
    if end == "taken back":
        facts = talk.release_asks(application_id="gang", allocation_key="r")
        assert wanted(facts) == -2
    elif end == "updated":
        facts = talk.asks(real("r", 5))
        assert wanted(facts) == 1 - 2
    elif end == "application removed":
        facts = talk.remove("gang")
        assert wanted(facts) == -3
    else:
        facts = talk.step(UpdateConfiguration(RM, (a_partition_spec(name="other"),)))
        assert wanted(facts) == -3
    assert sum(one.count for one in of(AskAdded, facts) if one.awaited_placeholder) == 2


def test_an_ask_that_loses_its_placeholder_is_pending_with_others_of_its_size() -> None:
    """The size was forgotten while nobody asked for it, and came to be known again by another ask."""
    talk = a_full_gang(2, memory=20)
    request = a_swap(talk)
    talk.asks(an_ask("other"))
    talk.schedule()
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    assert only(AskAdded, confirm(talk, request)).awaited_placeholder
    talk.release_asks(application_id="gang", allocation_key="r")
    talk.release_asks(allocation_key="other")
    assert talk.queue("root").pending == {}
