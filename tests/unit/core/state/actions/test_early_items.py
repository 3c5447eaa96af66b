"""Items that come before the application they refer to wait for it, for a bounded time and in a bounded number."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import (
    AllocationRelease,
    AskRelease,
    NewAsk,
    TerminationType,
    UpdateAllocations,
)
from schedulerd.core.language.facts.fact import (
    AskAdded,
    AskRejected,
    EarlyAskReleased,
    Fact,
    NodeAccepted,
    RejectCode,
    Released,
    ReleaseIgnored,
)
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.state.actions import early_items as early
from schedulerd.core.state.alarm_events import ReconnectTimeout
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_scheduler,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
)

WAIT_NS = Timeouts().early_message_ns
ROOM = {"memory": 100}


def test_asks_are_handled_when_their_application_comes_in_order_of_arrival() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    assert talk.asks(an_ask("k2", app="late"), an_ask("k1", app="late")) == []
    talk.sleep(WAIT_NS - 1)
    facts = talk.apps(an_app("late"))
    assert [fact.allocation_key for fact in of(AskAdded, facts)] == ["k2", "k1"]
    assert [key for _, key, _ in placed(talk.schedule())] == ["k2", "k1"]


def test_asks_are_rejected_when_their_time_is_over() -> None:
    talk = a_conversation()
    talk.asks(an_ask("k", app="never"))
    assert talk.scheduler.next_deadline_ns() == talk.now_ns + WAIT_NS
    rejected = only(AskRejected, talk.sleep(WAIT_NS))
    assert (rejected.code, rejected.allocation_key) == (RejectCode.UNKNOWN_APPLICATION, "k")
    assert rejected.reason.startswith("applicationID 'never' is not a known application; it must be added before")
    assert of(AskAdded, talk.apps(an_app("never"))) == []


def test_an_ask_for_an_application_that_ended_waits_for_a_new_one_with_the_id() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    complete(talk)
    assert talk.asks(an_ask("again")) == []
    assert [fact.allocation_key for fact in of(AskAdded, talk.apps(an_app()))] == ["again"]


def complete(talk: Conversation) -> None:
    """The application `app` runs once and is Completed."""
    talk.asks(an_ask("first"))
    talk.schedule()
    talk.release()
    talk.sleep(Timeouts().completing_ns)
    assert [one.state for one in talk.view().terminated] == ["Completed"]


def test_an_ask_for_an_application_that_ended_is_rejected_with_its_last_state_when_no_new_one_comes() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    complete(talk)
    talk.asks(an_ask("again"))
    rejected = only(AskRejected, talk.sleep(WAIT_NS))
    assert rejected.code is RejectCode.UNKNOWN_APPLICATION
    assert rejected.reason.startswith("applicationID 'app' was last an application in state Completed")
    talk.sleep(Timeouts().retention_ns)
    talk.asks(an_ask("again"))
    assert "'app' is not a known application" in only(AskRejected, talk.sleep(WAIT_NS)).reason


def test_the_last_state_of_an_id_is_that_of_the_application_that_had_it_last() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    complete(talk)
    talk.sleep(2 * WAIT_NS)
    talk.apps(an_app(queue="root.nowhere"))
    talk.asks(an_ask())
    assert "in state Rejected" in only(AskRejected, talk.sleep(WAIT_NS)).reason
    talk.sleep(Timeouts().retention_ns - 3 * WAIT_NS)
    assert [one.state for one in talk.view().terminated] == ["Rejected"]
    talk.asks(an_ask())
    assert "in state Rejected" in only(AskRejected, talk.sleep(WAIT_NS)).reason, "the older one was forgotten alone"


def test_nothing_waits_where_waiting_is_switched_off() -> None:
    talk = a_conversation(timeouts=Timeouts(early_message_ns=0))
    assert only(AskRejected, talk.asks(an_ask(app="late"))).code is RejectCode.UNKNOWN_APPLICATION
    assert talk.scheduler.next_deadline_ns() is None


def test_only_so_many_items_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "HELD_MAX", 2)
    talk = a_conversation()
    facts = talk.asks(*(an_ask(f"k{number}", app="late") for number in range(3)))
    assert only(AskRejected, facts).allocation_key == "k2"
    assert len(of(AskAdded, talk.apps(an_app("late")))) == 2
    assert talk.asks(an_ask("k", app="later")) == [], "those that went have made room"


def test_when_the_application_is_rejected_so_is_what_waits_for_it() -> None:
    talk = a_conversation()
    talk.asks(an_ask("k", app="late"))
    assert only(AskRejected, talk.apps(an_app("late", "root.nowhere"))).code is RejectCode.UNKNOWN_APPLICATION
    assert talk.sleep(WAIT_NS) == []


def test_an_application_of_another_partition_is_not_what_it_waits_for() -> None:
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec(), a_partition_spec(name="gpu"))
    talk.connect()
    talk.asks(an_ask("k", app="late", partition="gpu"))
    assert of(AskAdded, talk.apps(an_app("late"))) == []
    deadline_ns = talk.scheduler.next_deadline_ns()
    talk.now_ns += 1
    talk.apps(an_app("late", "root.nowhere"))
    assert talk.scheduler.next_deadline_ns() == deadline_ns, "its time does not begin anew"
    assert only(AskAdded, talk.apps(an_app("late", partition="gpu"))).partition == "gpu"


@pytest.mark.parametrize(
    ("item", "left"),
    [
        (AskRelease("late", allocation_key="k1"), ["k2"]),
        (AskRelease("late"), []),
        (AskRelease("", allocation_key="k1"), ["k2"]),
        (AskRelease("other"), ["k1", "k2"]),
    ],
    ids=["by key", "all of the application", "by key alone", "of another application"],
)
def test_asks_may_be_taken_back_while_they_wait(item: AskRelease, left: list[str]) -> None:
    talk = a_conversation()
    talk.asks(an_ask("k1", app="late"), an_ask("k2", app="late"))
    facts = talk.step(UpdateAllocations(RM, ask_releases=[item]))
    assert len(of(ReleaseIgnored, facts)) == (len(left) == 2)
    confirmed = [(one.application_id, one.allocation_key, one.termination) for one in of(EarlyAskReleased, facts)]
    taken_back = [key for key in ("k1", "k2") if key not in left]
    assert confirmed == [("late", key, TerminationType.STOPPED_BY_RM) for key in taken_back]
    assert [fact.allocation_key for fact in of(AskAdded, talk.apps(an_app("late")))] == left


def test_an_ask_that_came_several_times_is_confirmed_once_with_the_type_of_its_release() -> None:
    talk = a_conversation()
    talk.asks(an_ask("k1", app="late"), an_ask("k1", app="late", count=2))
    unknown = TerminationType.UNKNOWN_TERMINATION_TYPE
    assert only(EarlyAskReleased, talk.release_asks(application_id="late", termination=unknown)).termination is unknown


@pytest.fixture
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "TAKEN_MAX", 2)


def late_asks(*keys: str) -> list[NewAsk]:
    return [an_ask(key, app="late") for key in keys]


def added(facts: list[Fact]) -> list[str]:
    return [fact.allocation_key for fact in of(AskAdded, facts)]


def test_a_step_takes_so_many_of_those_that_waited_and_the_next_steps_the_rest() -> None:
    count = 2 * early.TAKEN_MAX + 50
    talk = a_conversation()
    talk.asks(*late_asks(*(f"k{number}" for number in range(count))))
    steps = [talk.apps(an_app("late"))]
    while len(steps) < 3:
        assert talk.scheduler.next_deadline_ns() == talk.now_ns + 1, "the next step is due at once"
        steps.append(talk.sleep(1))
    assert [len(of(AskAdded, facts)) for facts in steps] == [early.TAKEN_MAX, early.TAKEN_MAX, 50]
    assert [key for facts in steps for key in added(facts)] == [f"k{number}" for number in range(count)]
    assert talk.scheduler.next_deadline_ns() is None


@pytest.mark.usefixtures("two_at_a_time")
def test_what_comes_meanwhile_waits_behind_what_came_before() -> None:
    talk = a_conversation(a_node("n0", ROOM))
    talk.asks(*late_asks("k1", "k2", "k3"))
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="late")))
    assert added(talk.apps(an_app("late"))) == ["k1"], "the allocation that the node came with is before all asks"
    assert talk.asks(*late_asks("k3", "k4")) == []
    assert only(NodeAccepted, talk.nodes(a_node("n2", ROOM, an_existing("e2", app="late")))), "a node waits for nothing"
    assert talk.step(UpdateAllocations(RM, releases=[AllocationRelease("late")])) == []
    assert (
        only(Released, talk.step(UpdateAllocations(RM, releases=[AllocationRelease("late", uuid="e1")]))).uuid == "e1"
    )
    assert added(talk.asks(an_ask("of another"))) == ["of another"], "it has nothing to wait for"
    facts = talk.sleep(WAIT_NS)
    assert added(facts) == ["k2", "k3", "k3", "k4"], "the second k3 is an update of the first"
    assert [fact.uuid for fact in of(Released, facts)] == ["e2"]


@pytest.mark.usefixtures("two_at_a_time")
def test_what_waited_for_an_application_that_goes_again_waits_for_the_next() -> None:
    talk = a_conversation()
    talk.asks(*late_asks("k1", "k2", "k3"))
    talk.apps(an_app("late"))
    talk.remove("late")
    assert talk.sleep(WAIT_NS // 2) == []
    assert added(talk.apps(an_app("late"))) == ["k3"]


@pytest.mark.usefixtures("two_at_a_time")
def test_what_waited_for_a_refused_application_is_refused_and_what_comes_then_waits() -> None:
    talk = a_conversation()
    talk.asks(*late_asks("k1", "k2", "k3"))
    refused = of(AskRejected, talk.apps(an_app("late", "root.nowhere")))
    assert [fact.allocation_key for fact in refused] == ["k1", "k2"]
    assert talk.asks(*late_asks("k4")) == []
    assert only(AskRejected, talk.sleep(1)).allocation_key == "k3"
    assert added(talk.apps(an_app("late"))) == ["k4"]


@pytest.mark.usefixtures("two_at_a_time")
def test_an_application_that_is_accepted_after_all_gets_what_is_left() -> None:
    talk = a_conversation()
    talk.asks(*late_asks("k1", "k2", "k3"))
    talk.apps(an_app("late", "root.nowhere"))
    assert added(talk.apps(an_app("late"))) == ["k3"]
    assert talk.sleep(WAIT_NS) == []


@pytest.mark.usefixtures("two_at_a_time")
def test_asks_of_a_backlog_may_be_taken_back() -> None:
    talk = a_conversation()
    talk.asks(*late_asks("k1", "k2", "k3", "k4"))
    talk.apps(an_app("late"))
    assert only(EarlyAskReleased, talk.release_asks(application_id="late", allocation_key="k3")).allocation_key == "k3"
    assert added(talk.sleep(1)) == ["k4"]


@pytest.mark.usefixtures("two_at_a_time")
def test_nothing_is_left_of_a_backlog_whose_resource_manager_registers_again() -> None:
    talk = a_conversation()
    talk.asks(*late_asks("k1", "k2", "k3"))
    talk.apps(an_app("late"))
    talk.register(a_partition_spec())
    assert {type(alarm.event) for alarm in talk.scheduler.cluster.alarms.live()} == {ReconnectTimeout}
