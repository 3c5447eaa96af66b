"""A gang that lost all of its placeholders before it was complete has to be complete before its application starts."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.gangs import GangTimedOut
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_ask,
    only,
    placed,
    states,
)
from tests.unit.core.gang_builders import a_gang, a_held_place, asked_to_release, real

S = ApplicationState
TIMES = Timeouts(gang_deadlock_timeout_ns=0)


def a_lost_gang(style: str = "Hard", **fields: object) -> Conversation:
    """A gang of three. The only placeholder that was asked for so far was placed, and is gone."""
    talk = a_conversation(a_node("n1", {"memory": 100}), timeouts=TIMES, **fields)  # type: ignore[arg-type]
    talk.apps(a_gang(memory=30, gang_style=style))
    assert states(talk.asks(a_placeholder("p1", app="gang")) + talk.schedule(), "gang") == [S.ACCEPTED]
    assert states(talk.release(application_id="gang"), "gang") == [S.COMPLETING]
    return talk


def test_it_starts_when_it_is_complete_and_not_before() -> None:
    talk = a_lost_gang()
    assert states(talk.asks(a_placeholder("p1b", app="gang")), "gang") == [S.ACCEPTED]
    talk.asks(a_placeholder("p2", app="gang"))
    assert states(talk.schedule(), "gang") == []
    assert talk.app("gang").gang_deadline_ns == talk.now_ns + TIMES.placeholder_ns, "its full time again"
    talk.asks(a_placeholder("p3", app="gang"))
    assert states(talk.schedule(), "gang") == [S.STARTING]
    assert talk.app("gang").gang_deadline_ns is None


def test_it_can_lose_them_again_and_again() -> None:
    talk = a_lost_gang()
    for number in range(3):
        facts = talk.asks(a_placeholder(f"p{number}", app="gang")) + talk.schedule()
        facts += talk.release(application_id="gang")
        assert states(facts, "gang") == [S.ACCEPTED, S.COMPLETING]
    assert states(talk.sleep(TIMES.completing_ns), "gang") == [S.COMPLETED]


@pytest.mark.parametrize(("style", "end"), [("Hard", [S.FAILING]), ("Soft", [S.RESUMING])])
def test_it_ends_by_its_style_if_it_is_not_complete_in_time(style: str, end: list[ApplicationState]) -> None:
    talk = a_lost_gang(style)
    talk.asks(a_placeholder("p2", app="gang"))
    talk.schedule()
    facts = talk.sleep(TIMES.placeholder_ns)
    assert (states(facts, "gang"), asked_to_release(facts)) == (end, [("p2", "TIMEOUT")])
    assert only(GangTimedOut, facts).state is end[0]


def test_a_place_that_is_reported_makes_it_wait_for_the_others() -> None:
    talk = a_lost_gang()
    facts = talk.nodes(a_node("n2", {"memory": 10}, a_held_place(key="p2")))
    assert (states(facts, "gang"), talk.app("gang").gang_deadline_ns) == (
        [S.ACCEPTED],
        talk.now_ns + TIMES.placeholder_ns,
    )
    assert states(talk.sleep(TIMES.completing_ns), "gang") == []
    talk.asks(a_placeholder("p3", count=2, app="gang"))
    assert states(talk.schedule(), "gang") == [S.STARTING]


def test_a_real_ask_starts_it_as_ever() -> None:
    """With no placeholder pending real asks do not wait: the core does not guess what may still come."""
    talk = a_lost_gang()
    assert states(talk.asks(real()), "gang") == [S.ACCEPTED]
    assert states(talk.schedule(), "gang") == [S.STARTING]


def test_asks_that_were_taken_back_before_the_first_placeholder_change_nothing() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}), timeouts=TIMES)
    talk.asks(an_ask("k"))
    assert states(talk.release_asks()) == [S.COMPLETING]
    assert states(talk.asks(a_placeholder("p"))) == [S.ACCEPTED]


def test_it_needs_a_free_place_to_start_again() -> None:
    talk = a_lost_gang(root=a_root(a_queue_spec("a", max_applications=1)))
    talk.asks(an_ask("k"))
    assert placed(talk.schedule()) == [("app", "k", "n1")]
    talk.asks(a_placeholder("p2", count=3, app="gang"))
    assert placed(talk.schedule()) == []
    talk.release()
    assert len(placed(talk.schedule())) == 3
    assert talk.app("gang").state == S.STARTING


@pytest.mark.parametrize("ask", [a_placeholder("p4", app="gang"), real()], ids=["placeholder", "real"])
def test_a_gang_that_was_complete_runs_again(ask: NewAsk) -> None:
    talk = a_lost_gang()
    talk.asks(a_placeholder("p2", count=3, app="gang"))
    assert states(talk.schedule() + talk.release(application_id="gang"), "gang") == [S.STARTING, S.COMPLETING]
    assert states(talk.asks(ask), "gang") == [S.RUNNING]
