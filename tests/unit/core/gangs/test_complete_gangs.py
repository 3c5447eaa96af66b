"""A gang that is complete has no deadline any longer; its idle placeholders go after a while (SEMANTICS I8)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType
from schedulerd.core.language.facts.fact import ReleaseCause, ReleaseRequested
from schedulerd.core.language.facts.gangs import GangTimedOut
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS, QueueSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    of,
    only,
    placed,
    states,
)
from tests.unit.core.configurations import reload
from tests.unit.core.gang_builders import a_full_gang, a_swap, asked_to_release, confirm, real
from tests.unit.core.heard import updated

S = ApplicationState
TIMES = Timeouts(gang_deadlock_timeout_ns=0)
GANG_NS = TIMES.placeholder_ns
IDLE_NS = 40 * MINUTE_NS


def a_leaf(idle_ns: int = IDLE_NS) -> QueueSpec:
    return a_root(a_queue_spec("a", gang_placeholder_idle_timeout_ns=idle_ns))


def complete(count: int = 2, idle_ns: int = IDLE_NS, **fields: object) -> Conversation:
    return a_full_gang(count, root=a_leaf(idle_ns), timeouts=TIMES, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("style", ["Hard", "Soft"])
def test_a_complete_gang_does_not_time_out(style: str) -> None:
    talk = complete(gang_style=style)
    assert talk.app("gang").gang_deadline_ns is None
    facts = talk.sleep(2 * GANG_NS)
    assert (of(GangTimedOut, facts), of(ReleaseRequested, facts)) == ([], [])
    assert talk.app("gang").state == S.RUNNING, "Starting ends by itself"


def test_without_placeholder_ask_a_gang_is_complete_when_none_is_pending() -> None:
    talk = complete(placeholder_ask=Resources())
    assert talk.app("gang").gang_deadline_ns is None
    assert of(GangTimedOut, talk.sleep(2 * GANG_NS)) == []


def test_a_gang_that_loses_what_it_announced_before_it_ran_is_not_complete() -> None:
    talk = complete()
    talk.sleep(MINUTE_NS)
    talk.release(application_id="gang", uuid=talk.app("gang").allocations[0].uuid)
    assert talk.app("gang").gang_deadline_ns == talk.now_ns + GANG_NS
    assert only(GangTimedOut, talk.sleep(GANG_NS)).wanted == 2


@pytest.mark.parametrize("state", [S.STARTING, S.RUNNING])
@pytest.mark.parametrize(("style", "end"), [("Hard", [S.FAILING, S.FAILED]), ("Soft", [S.RESUMING, S.ACCEPTED])])
def test_it_ends_by_its_style_when_that_time_is_over(
    style: str, end: list[ApplicationState], state: ApplicationState
) -> None:
    """Members that start then would start without the others."""
    talk = complete(gang_style=style, execution_timeout_ms=1_000)
    if state is S.RUNNING:
        talk.sleep(TIMES.starting_ns)
    talk.asks(a_placeholder("more", 500, app="gang"))
    talk.release(application_id="gang", uuid=talk.app("gang").allocations[0].uuid)
    assert talk.app("gang").state == state
    facts = talk.sleep(SECOND_NS)
    assert states(facts, "gang") == end[:1]
    message = updated(facts)[0][3]
    assert "task group group has 1 of 3 placeholders: the next one needs 500 memory" in message
    assert states(confirm(talk, only(ReleaseRequested, facts)), "gang") == end[1:]


def test_one_that_has_run_only_loses_its_placeholders() -> None:
    talk = complete(3, gang_style="Hard")
    confirm(talk, a_swap(talk))
    talk.asks(a_placeholder("more", 500, app="gang"))
    facts = talk.sleep(GANG_NS)
    assert asked_to_release(facts) == [("p", "TIMEOUT")] * 2
    assert [one for one in states(facts, "gang") if one is not S.RUNNING] == []


def test_a_gang_that_asks_for_more_before_it_ran_has_its_full_time_again() -> None:
    talk = complete()
    talk.sleep(GANG_NS // 2)
    talk.asks(a_placeholder("more", app="gang"))
    talk.nodes(a_node("n1", {"memory": 20}, action=NodeAction.UPDATE))
    assert talk.app("gang").gang_deadline_ns == talk.now_ns + GANG_NS
    facts = talk.sleep(GANG_NS)
    assert only(GangTimedOut, facts).placed == 2


def test_it_is_complete_again_when_that_member_is_placed() -> None:
    talk = complete()
    talk.nodes(a_node("n1", {"memory": 20}, action=NodeAction.UPDATE))
    talk.asks(a_placeholder("more", app="gang"))
    assert talk.app("gang").gang_deadline_ns is not None
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(talk.schedule()) == [("gang", "more", "n2")]
    assert talk.app("gang").gang_deadline_ns is None


def test_a_smaller_real_ask_does_not_make_a_gang_incomplete() -> None:
    talk = complete()
    confirm(talk, a_swap(talk, real(memory=5)))
    assert talk.app("gang").gang_deadline_ns is None


# idle placeholders


def test_idle_placeholders_of_a_complete_gang_go_after_a_while_and_the_application_completes() -> None:
    talk = complete()
    assert of(ReleaseRequested, talk.sleep(IDLE_NS - 1)) == []
    facts = talk.sleep(1)
    requests = of(ReleaseRequested, facts)
    assert [(one.termination, one.cause) for one in requests] == [(TerminationType.TIMEOUT, ReleaseCause.UNUSED)] * 2
    assert requests[0].message == (
        "2 placeholders of application gang are idle: no ask took one of them for 2400 s "
        "(gang.placeholder.idle.timeout)"
    )
    assert states(facts, "gang") == []
    facts = confirm(talk, requests[0]) + confirm(talk, requests[1])
    assert states(facts, "gang") == [S.COMPLETING]


def test_they_go_that_long_after_the_last_swap() -> None:
    talk = complete(3)
    talk.sleep(IDLE_NS - 1)
    confirm(talk, a_swap(talk))
    assert of(ReleaseRequested, talk.sleep(IDLE_NS - 1)) == []
    facts = talk.sleep(1)
    assert asked_to_release(facts) == [("p", "TIMEOUT")] * 2
    for request in of(ReleaseRequested, facts):
        assert states(confirm(talk, request), "gang") == []
    assert talk.app("gang").state == S.RUNNING


def test_with_0_they_stay_until_the_application_completes() -> None:
    talk = complete(idle_ns=0)
    assert of(ReleaseRequested, talk.sleep(100 * IDLE_NS)) == []


def test_a_reload_changes_how_long_they_stay() -> None:
    talk = complete(idle_ns=0)
    talk.sleep(10 * MINUTE_NS)
    reload(talk, a_leaf(30 * MINUTE_NS))
    assert of(ReleaseRequested, talk.sleep(20 * MINUTE_NS - 1)) == []
    assert len(of(ReleaseRequested, talk.sleep(1))) == 2


def test_a_reload_to_a_shorter_time_lets_them_go_at_once_if_that_is_over() -> None:
    talk = complete()
    talk.sleep(10 * MINUTE_NS)
    reload(talk, a_leaf(5 * MINUTE_NS))
    assert len(of(ReleaseRequested, talk.sleep(0))) == 2


def test_a_gang_that_is_incomplete_again_keeps_its_idle_placeholders_until_its_own_time_is_over() -> None:
    talk = complete(idle_ns=GANG_NS // 2)
    talk.nodes(a_node("n1", {"memory": 20}, action=NodeAction.UPDATE))
    talk.asks(a_placeholder("more", app="gang"))
    talk.schedule()
    assert of(ReleaseRequested, talk.sleep(GANG_NS - 1)) == []
    assert only(GangTimedOut, talk.sleep(1))
