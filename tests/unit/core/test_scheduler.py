"""One step: what is dispatched in which order, how the clock is read, and when a cycle or an alarm is wanted."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import (
    AllocationRelease,
    AskRelease,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    RingAlarms,
    RunCycle,
    StopCause,
    StopResourceManager,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationChanged,
    AskAdded,
    AskWithdrawn,
    CycleRan,
    ItemIgnored,
    Released,
)
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.scheduler import ALARMS_MAX
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_app,
    an_ask,
    of,
    only,
    placed,
)

ROOM = {"memory": 100}


@pytest.fixture
def talk() -> Conversation:
    return a_conversation(a_node("n1", ROOM))


@pytest.mark.parametrize(
    "command",
    [
        ConnectResourceManager("nobody"),
        DisconnectResourceManager("nobody"),
        StopResourceManager("nobody", StopCause.UNREGISTERED),
        UpdateNodes("nobody", [a_node("n1", ROOM)]),
        UpdateApplications("nobody", [an_app()]),
        UpdateAllocations("nobody", [an_ask()]),
    ],
    ids=lambda command: type(command).__name__,
)
def test_no_command_is_heard_before_registering(command: Command) -> None:
    scheduler = a_scheduler()
    ignored = only(ItemIgnored, scheduler.step(0, command))
    assert ignored.reason.startswith("resource manager 'nobody' is not registered")


def test_without_a_resource_manager_cycles_and_alarms_say_nothing() -> None:
    scheduler = a_scheduler()
    assert scheduler.step(0, RunCycle(10)) == scheduler.step(0, RingAlarms()) == []
    assert scheduler.next_deadline_ns() is None
    assert not scheduler.wants_cycle()


def test_asks_go_before_releases_and_releases_before_ask_releases(talk: Conversation) -> None:
    talk.asks(an_ask("old"))
    talk.schedule()
    message = UpdateAllocations(
        RM,
        ask_releases=[AskRelease("app", allocation_key="new")],
        releases=[AllocationRelease("app", allocation_key="old")],
        asks=[an_ask("new")],
    )
    kinds = [type(fact) for fact in talk.step(message)]
    assert kinds == [AskAdded, Released, AskWithdrawn, ApplicationChanged]


def test_the_clock_never_runs_backwards(talk: Conversation) -> None:
    talk.now_ns = 10_000
    talk.cycle()
    talk.now_ns = 1
    talk.asks(an_ask("k", app="late"))
    assert talk.scheduler.next_deadline_ns() == 10_000 + Timeouts().early_message_ns
    assert only(ApplicationChanged, talk.asks(an_ask())).at_ns == 10_000


def test_only_alarms_that_are_due_ring(talk: Conversation) -> None:
    talk.asks(an_ask("k1", app="never"))
    talk.now_ns += 10
    talk.asks(an_ask("k2", app="never"))
    first_ns = talk.scheduler.next_deadline_ns()
    assert first_ns is not None
    talk.now_ns = first_ns - 1
    assert talk.step(RingAlarms()) == []
    talk.now_ns = first_ns
    assert len(talk.step(RingAlarms())) == 1
    assert talk.scheduler.next_deadline_ns() == first_ns + 10


def test_so_many_alarms_ring_in_a_step_and_the_rest_in_the_next(talk: Conversation) -> None:
    talk.asks(*(an_ask(f"k{number}", app="never") for number in range(ALARMS_MAX + 1)))
    talk.now_ns += Timeouts().early_message_ns
    assert len(talk.step(RingAlarms())) == ALARMS_MAX
    assert talk.scheduler.next_deadline_ns() == talk.now_ns
    assert len(talk.step(RingAlarms())) == 1
    assert talk.scheduler.next_deadline_ns() is None


def test_alarms_that_are_long_due_ring_all_at_once(talk: Conversation) -> None:
    talk.asks(an_ask())
    talk.schedule()
    talk.release()
    talk.now_ns += 10 * Timeouts().retention_ns
    facts = talk.step(RingAlarms())
    assert [fact.state for fact in of(ApplicationChanged, facts)] == ["Completed"]
    assert talk.scheduler.next_deadline_ns() == talk.now_ns + Timeouts().retention_ns, "counted from when it rang"


def test_a_cycle_is_wanted_only_where_something_could_move(talk: Conversation) -> None:
    assert not talk.scheduler.wants_cycle()
    talk.asks(an_ask("k"), an_ask("large", 500))
    assert talk.scheduler.wants_cycle()
    talk.schedule()
    assert not talk.scheduler.wants_cycle(), "what is left fits nowhere"
    assert talk.cycle() == []
    talk.asks(an_ask("also large", 500))
    assert not talk.scheduler.wants_cycle(), "that is known of its size already"
    talk.asks(an_ask("other large", 501))
    assert talk.scheduler.wants_cycle()


def test_a_cycle_places_as_much_as_it_may_and_says_whether_to_go_on(talk: Conversation) -> None:
    talk.asks(an_ask("k", count=5))
    ran = only(CycleRan, talk.cycle(3))
    assert (ran.allocations, ran.classes_blocked, ran.more) == (3, 0, True)
    ran = only(CycleRan, talk.cycle(3))
    assert (ran.allocations, ran.classes_blocked, ran.more) == (2, 0, False)


def test_a_cycle_may_find_only_so_much_impossible(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.core.cycle.BLOCKED_MAX", 4)
    talk.asks(*(an_ask(f"k{size}", 101 + size) for size in range(6)), an_ask("small"))
    blocked = []
    while placed(facts := talk.cycle()) == []:
        ran = only(CycleRan, facts)
        assert (ran.allocations, ran.more) == (0, True)
        blocked.append(ran.classes_blocked)
    assert placed(facts) == [("app", "small", "n1")]
    last = only(CycleRan, facts)
    assert last.more is False
    assert blocked == [2, 2, 2], "each is come across twice: where it is asked for and one level higher"
    assert sum(blocked) + last.classes_blocked == 6, "each size is counted once, however often it is come across"


def test_uuids_come_from_where_the_scheduler_was_told(talk: Conversation) -> None:
    talk.asks(an_ask("k", count=3))
    assert [fact.uuid for fact in of(Allocated, talk.schedule())] == ["uuid-1", "uuid-2", "uuid-3"]


def test_quotas_are_filled_and_never_exceeded() -> None:
    root = a_root(a_queue_spec("a", max={"memory": 35}), a_queue_spec("b"), max={"memory": 85})
    talk = a_conversation(a_node("n1", {"memory": 1_000}), root=root)
    talk.apps(an_app("other", "root.b"))
    talk.asks(an_ask("k", count=9), an_ask("k", count=9, app="other"))
    talk.schedule()
    assert talk.queue("root.a").allocated == {"memory": 30}
    assert talk.queue("root").allocated == {"memory": 80}
    talk.release(application_id="other", uuid=talk.app("other").allocations[0].uuid)
    assert [app for app, _, _ in placed(talk.schedule())] == ["other"]
