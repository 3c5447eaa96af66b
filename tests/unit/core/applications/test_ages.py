"""An ask that says when it was made first has that age, and the place in line that comes with it (SEMANTICS I27)."""

from __future__ import annotations

from schedulerd.core.language.facts.fact import Allocated, ReleaseRequested
from schedulerd.core.language.specs import SECOND_NS
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)

START_NS = 100 * SECOND_NS


def a_talk(memory: int = 10) -> Conversation:
    """The node has room for one ask."""
    talk = a_conversation(a_node("n1", {"memory": memory}))
    talk.now_ns = START_NS
    return talk


def order(talk: Conversation) -> list[str]:
    """The keys of what is placed when one goes after the other."""
    found: list[str] = []
    while facts := placed(talk.schedule()):
        found += [key for _, key, _ in facts]
        for _, key, _ in facts:
            talk.release(allocation_key=key)
    return found


def test_the_older_goes_first_whenever_it_came() -> None:
    talk = a_talk()
    talk.asks(an_ask("new"), an_ask("old", asked_at_ns=5), an_ask("older", asked_at_ns=-7))
    talk.now_ns += SECOND_NS
    talk.asks(an_ask("later"), an_ask("oldest", asked_at_ns=-8), an_ask("as old", asked_at_ns=5))
    assert order(talk) == ["oldest", "older", "old", "as old", "new", "later"]


def test_asks_of_other_sizes_are_before_and_behind_it_as_well() -> None:
    talk = a_talk()
    talk.asks(an_ask("new", 9), an_ask("old", 8, asked_at_ns=5), an_ask("older", 7, asked_at_ns=4))
    assert order(talk) == ["older", "old", "new"]


def test_priority_goes_before_age() -> None:
    talk = a_talk()
    talk.asks(an_ask("old", asked_at_ns=5), an_ask("new", priority=1))
    assert order(talk) == ["new", "old"]


def test_its_age_is_told_and_shown() -> None:
    talk = a_talk()
    talk.asks(an_ask("a", asked_at_ns=5), an_ask("b"))
    assert [one.asked_at_ns for one in of(Allocated, talk.schedule())] == [5]
    talk.asks(an_ask("b", asked_at_ns=7))
    assert [ask.asked_at_ns for ask in talk.model().applications["app"].asks.values()] == [5, 7]


def test_an_update_that_says_no_time_keeps_it_and_one_that_does_moves_the_ask() -> None:
    talk = a_talk()
    talk.asks(an_ask("a"), an_ask("b", asked_at_ns=5), an_ask("c", asked_at_ns=6))
    talk.now_ns += SECOND_NS
    talk.asks(an_ask("b", 8), an_ask("a", asked_at_ns=4))
    assert order(talk) == ["a", "b", "c"]


def test_a_time_to_come_counts_as_now() -> None:
    talk = a_talk()
    talk.asks(an_ask("a", asked_at_ns=START_NS + 1), an_ask("b"))
    assert order(talk) == ["a", "b"]
    assert talk.scheduler.next_deadline_ns() is not None


def test_one_that_came_before_its_application_is_as_old_as_it_says() -> None:
    talk = a_talk()
    talk.asks(an_ask("a", app="late", asked_at_ns=5))
    talk.now_ns += SECOND_NS
    talk.apps(an_app("late"))
    assert only(Allocated, talk.schedule()).asked_at_ns == 5


def test_room_is_reserved_at_once_for_one_that_has_waited_for_long() -> None:
    talk = a_talk()
    talk.apps(an_app("other"))
    talk.asks(an_ask("small", 5, app="other"))
    talk.schedule()
    talk.asks(an_ask("large", 10, asked_at_ns=START_NS - 60 * SECOND_NS))
    talk.schedule()
    assert [one.ask.key for one in talk.model().reservations] == ["large"]


def test_allocations_are_preempted_at_once_for_one_that_has_waited_for_long() -> None:
    talk = a_conversation(
        a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a", guaranteed={"memory": 10}), a_queue_spec("b"))
    )
    talk.now_ns = START_NS
    talk.apps(an_app("victim", "root.b"))
    talk.asks(an_ask("v", app="victim"))
    talk.schedule()
    talk.asks(an_ask("a", allow_preempt_other=True, asked_at_ns=START_NS - 60 * SECOND_NS))
    talk.sleep(1)
    assert only(ReleaseRequested, talk.schedule()).allocation_key == "v"


def test_real_asks_take_placeholders_by_age() -> None:
    talk = a_talk(10)
    talk.asks(a_placeholder("p"))
    talk.schedule()
    talk.asks(an_ask("new", task_group="group"), an_ask("old", 9, task_group="group", asked_at_ns=5))
    asked = only(ReleaseRequested, talk.schedule())
    facts = talk.release(uuid=asked.uuid, termination=asked.termination)
    assert placed(facts) == [("app", "old", "n1")]
