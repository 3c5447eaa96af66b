"""How far asks have come, as a resource manager is told that wants to hear of it: on change, in time, in slices."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedulerd.core.language.commands import ConnectCallbacks, DisconnectCallbacks, NodeAction, RingAlarms, StopCause
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.scheduling_states import SchedulingState, SchedulingStateChanged
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import MILLISECOND_NS, MINUTE_NS, SECOND_NS, LimitSpec
from schedulerd.core.scheduling_states.handlers import scheduling_states
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
)

S = SchedulingState
ROOM = {"memory": 100, "vcore": 10}


def listen(talk: Conversation, *, scheduling_states: bool = True) -> list[Fact]:
    return talk.step(ConnectCallbacks(RM, scheduling_states=scheduling_states))


def told(facts: Sequence[Fact]) -> list[tuple[str, str, SchedulingState]]:
    """(application, key, state), in order."""
    return [(one.application_id, one.allocation_key, one.state) for one in of(SchedulingStateChanged, facts)]


def reasons(facts: Sequence[Fact]) -> list[str]:
    return [one.reason for one in of(SchedulingStateChanged, facts)]


def play(talk: Conversation, ns: int = 2 * SECOND_NS) -> list[Fact]:
    """Cycles as long as anything can move, and lets time go by."""
    return talk.schedule() + talk.sleep(ns) + talk.schedule()


@pytest.fixture
def talk() -> Conversation:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 250}), a_queue_spec("b")))
    talk.apps(an_app("other", "root.b"))
    listen(talk)
    return talk


def test_an_allocated_ask_is_scheduled_at_once_with_the_node(talk: Conversation) -> None:
    talk.asks(an_ask("k"))
    facts = talk.cycle()
    assert told(facts) == [("app", "k", S.SCHEDULED)]
    assert reasons(facts) == ["placed on node n1"]
    assert told(play(talk)) == []


def test_an_ask_that_lacks_room_on_nodes_fails_and_one_that_lacks_quota_is_skipped(talk: Conversation) -> None:
    talk.asks(an_ask("large", 200), an_ask("huge", 300))
    assert told(talk.schedule()) == [], "some time later, as it may have room by then"
    facts = play(talk)
    assert {key: state for _, key, state in told(facts)} == {"large": S.FAILED, "huge": S.SKIPPED}
    assert dict(zip((key for _, key, _ in told(facts)), reasons(facts), strict=True)) == {
        "large": "no node can ever fit 200 memory; the largest has 100",
        "huge": "queue root.a would be above its quota: 0 of 250 memory used, 300 more asked",
    }
    assert told(play(talk, MINUTE_NS)) == []


def test_an_ask_above_a_limit_is_skipped() -> None:
    limited = a_queue_spec("a", limits=(LimitSpec(("ann",), max=Limits(memory=5)),))
    talk = a_conversation(a_node("n1", ROOM), root=a_root(limited))
    talk.apps(an_app("ann's", user="ann"))
    listen(talk)
    talk.asks(an_ask("k", 10, app="ann's"))
    facts = play(talk)
    assert told(facts) == [("ann's", "k", S.SKIPPED)]
    assert "limit" in reasons(facts)[0]


def test_no_more_of_equal_asks_fail_than_the_quota_would_let_in(talk: Conversation) -> None:
    talk.nodes(a_node("n1", {"memory": 50}, action=NodeAction.UPDATE))
    talk.asks(*(an_ask(f"k{number}", 60) for number in range(6)))
    facts = play(talk)
    assert told(facts) == [("app", f"k{n}", S.FAILED if n < 4 else S.SKIPPED) for n in range(6)]
    assert reasons(facts)[4:] == ["quotas and limits have room only for asks before it, which fit on no node"] * 2


def test_an_ask_that_gets_room_after_all_is_told_so(talk: Conversation) -> None:
    talk.asks(an_ask("k", 60, count=2))
    assert told(play(talk, SECOND_NS)) == [("app", "k", S.SCHEDULED), ("app", "k", S.FAILED)]
    talk.nodes(a_node("n2", ROOM))
    assert told(talk.schedule()) == [("app", "k", S.SCHEDULED)]


def test_a_reservation_is_told(talk: Conversation) -> None:
    talk.asks(an_ask("k", 60, app="other", priority=1), an_ask("more", 60))
    assert told(play(talk, SECOND_NS)) == [("other", "k", S.SCHEDULED), ("app", "more", S.FAILED)]
    facts = play(talk, 5 * SECOND_NS)
    assert told(facts) == [("app", "more", S.RESERVED)]
    assert reasons(facts) == ["n1 is kept for it"]
    assert told(play(talk, MINUTE_NS)) == []
    talk.release(application_id="other", allocation_key="k")
    assert told(talk.schedule()) == [("app", "more", S.SCHEDULED)]


def test_when_its_reservation_ends_it_fails_again(talk: Conversation) -> None:
    talk.asks(an_ask("k", 60, app="other", priority=1), an_ask("more", 60))
    play(talk, 5 * SECOND_NS)
    assert told(play(talk, 5 * MINUTE_NS + 2 * SECOND_NS)) == [("app", "more", S.FAILED)]


def test_an_ask_that_was_not_tried_is_not_told(talk: Conversation) -> None:
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=400)))
    talk.asks(an_ask("real", 10, app="gang", task_group="group"))
    play(talk)
    talk.asks(a_placeholder("p", 200, 1, app="gang"), an_ask("late", 10, app="gang", task_group="group"))
    assert ("gang", "late") not in [(app, key) for app, key, _ in told(play(talk))]


def test_asks_that_only_one_node_will_do_for_fail_when_it_does_not(talk: Conversation) -> None:
    talk.asks(an_ask("d", 200, tags={REQUIRED_NODE_TAG: "n1"}))
    facts = play(talk)
    assert told(facts) == [("app", "d", S.FAILED)]
    assert reasons(facts) == ["the node that it requires, n1, would have too little memory even if it were empty"]


def test_another_queue_in_the_way_is_news(talk: Conversation) -> None:
    talk.asks(an_ask("k", 60, count=4))
    talk.nodes(a_node("n2", ROOM), a_node("n3", ROOM), a_node("n4", ROOM), a_node("n5", ROOM))
    talk.asks(an_ask("over", 60))
    assert told(play(talk))[-1] == ("app", "over", S.SKIPPED)
    assert told(play(talk, 20 * SECOND_NS)) == []


def test_no_ask_is_told_the_same_twice_nor_another_state_too_soon(talk: Conversation) -> None:
    talk.asks(an_ask("k", 200))
    assert told(play(talk)) == [("app", "k", S.FAILED)]
    talk.asks(an_ask("fill", 90))
    facts = play(talk, 5 * SECOND_NS)
    assert [one for one in told(facts) if one[1] == "k" and one[2] is not S.RESERVED] == [], "skipped now, but too soon"
    assert ("app", "k", S.SKIPPED) in told(play(talk, 10 * SECOND_NS))
    for _ in range(5):
        talk.asks(an_ask("x", 1))
        talk.release(allocation_key="x")
        assert {key for _, key, _ in told(play(talk, 3 * SECOND_NS))} <= {"x"}


def test_new_ones_of_a_kind_that_failed_hear_it_too(talk: Conversation) -> None:
    talk.asks(an_ask("one", 200, app="other"))
    assert told(play(talk)) == [("other", "one", S.FAILED)]
    talk.asks(an_ask("two", 200, app="other"))
    assert ("other", "two", S.FAILED) in told(play(talk, 12 * SECOND_NS))


def test_a_new_stream_is_told_everything_again(talk: Conversation) -> None:
    talk.asks(an_ask("k", 200))
    assert told(play(talk)) == [("app", "k", S.FAILED)]
    talk.step(DisconnectCallbacks(RM))
    assert talk.scheduler.cluster.resource_managers[RM].scheduling_state_tracker is None
    talk.asks(an_ask("other", 200, app="other"))
    assert told(play(talk, MINUTE_NS)) == []
    listen(talk)
    assert {(app, key) for app, key, _ in told(play(talk))} == {("app", "k"), ("other", "other")}


def test_an_rm_that_does_not_want_states_costs_and_gets_nothing() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    listen(talk, scheduling_states=False)
    talk.asks(an_ask("k"), an_ask("large", 200))
    assert told(play(talk, MINUTE_NS)) == []
    assert talk.scheduler.cluster.resource_managers[RM].scheduling_state_tracker is None


def test_nothing_is_remembered_of_asks_that_are_gone(talk: Conversation) -> None:
    talk.asks(an_ask("k", 200), an_ask("small"), an_ask("huge", 300, app="other"))
    play(talk)
    states = talk.scheduler.cluster.resource_managers[RM].scheduling_state_tracker
    assert states is not None
    assert {name[2] for name in states.told} == {"k", "huge"}
    talk.release_asks()
    assert {name[2] for name in states.told} == {"huge"}
    talk.remove("other")
    assert not states.told
    talk.sleep(MINUTE_NS)
    talk.asks(an_ask("news"))
    play(talk)
    assert not states.outlooks


def test_an_idle_cluster_has_nothing_to_do(talk: Conversation) -> None:
    talk.asks(an_ask("k"))
    play(talk, 30 * SECOND_NS)
    states = talk.scheduler.cluster.resource_managers[RM].scheduling_state_tracker
    assert states is not None
    assert states.alarm is None


def test_a_stopped_rm_leaves_no_alarm(talk: Conversation) -> None:
    talk.asks(an_ask("k", 200))
    talk.stop(StopCause.UNREGISTERED)
    assert talk.scheduler.next_deadline_ns() is None


@pytest.mark.parametrize("applications", [1, 40])
def test_many_are_told_in_slices(talk: Conversation, monkeypatch: pytest.MonkeyPatch, applications: int) -> None:
    monkeypatch.setattr(scheduling_states, "VISITS_MAX", 50)
    talk.apps(*(an_app(f"many-{number}", "root.b") for number in range(applications)))
    talk.asks(*(an_ask(f"k{n:03}", 200, app=f"many-{n % applications}") for n in range(400)))
    talk.schedule()
    talk.now_ns += scheduling_states.ROUND_NS
    heard: list[tuple[str, str, SchedulingState]] = []
    steps = 0
    while len(heard) < 400:
        talk.now_ns = talk.scheduler.next_deadline_ns() or 0
        facts = talk.step(RingAlarms())
        assert len(told(facts)) <= 50
        heard += told(facts)
        steps += 1
        assert steps < 20
    assert len(set(heard)) == 400
    assert {state for _, _, state in heard} == {S.FAILED}


def test_those_that_go_while_others_are_told_are_left_out(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_states, "VISITS_MAX", 10)
    talk.asks(*(an_ask(f"k{n}", 200, app="other") for n in range(30)))
    talk.schedule()
    talk.now_ns += scheduling_states.ROUND_NS
    first = told(talk.sleep(1))
    assert 0 < len(first) < 10
    talk.remove("other")
    assert told(play(talk, MINUTE_NS)) == []


def test_an_ask_that_the_rm_refuses_everywhere_fails_with_its_reason() -> None:
    talk = AnsweringRM(Refuses(("k", "n1")))
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    talk.step(ConnectCallbacks(RM, predicates=True, scheduling_states=True))
    talk.asks(an_ask("k", 10))
    facts = play(talk)
    assert told(facts) == [("app", "k", S.FAILED)]
    assert reasons(facts) == ["its resource manager refuses every node that has room: tainted (node n1)"]


def test_an_ask_that_awaits_a_predicate_result_is_told_nothing_until_it_is_there() -> None:
    talk = AnsweringRM()
    talk.withholds_answers = True
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 15}))
    talk.apps(an_app())
    talk.step(ConnectCallbacks(RM, predicates=True, scheduling_states=True))
    talk.asks(an_ask("one", 10), an_ask("two", 10))
    assert told(play(talk, 1_500 * MILLISECOND_NS)) == [("app", "two", S.FAILED)]
    assert told(talk.answer(*talk.asked)) == [("app", "one", S.SCHEDULED)]


def test_what_happens_while_others_are_told_is_told_as_well(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling_states, "VISITS_MAX", 10)
    talk.asks(*(an_ask(f"k{n}", 200, app="other") for n in range(30)))
    talk.schedule()
    talk.now_ns = talk.scheduler.next_deadline_ns() or 0
    talk.step(RingAlarms())
    talk.asks(an_ask("late", 220, app="other"))
    assert told(talk.schedule()) == []
    assert ("other", "late", S.FAILED) in told(talk.sleep(3 * SECOND_NS))


def test_only_wanted_states_are_told_and_the_others_are_not_forgotten() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.step(ConnectCallbacks(RM, scheduling_states=True, wanted_states=(S.SKIPPED, S.FAILED)))
    talk.asks(an_ask("a", 30), an_ask("b", 30))
    assert told(play(talk)) == [("app", "b", S.SKIPPED)]
    talk.release(allocation_key="a")
    assert told(play(talk, 20 * SECOND_NS)) == [], "that b is placed is told by its allocation"
    talk.step(ConnectCallbacks(RM, scheduling_states=True, wanted_states=(S.SCHEDULED,)))
    talk.release(allocation_key="b")
    talk.asks(an_ask("c", 30), an_ask("d", 30))
    assert told(play(talk, 20 * SECOND_NS)) == [("app", "c", S.SCHEDULED)]
