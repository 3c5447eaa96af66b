"""What changes around a swap in flight: the queue file, and the resource manager itself (SEMANTICS C2, G4)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.fact import (
    ApplicationRejected,
    AskWithdrawn,
    ItemIgnored,
    Released,
    ReleaseIgnored,
    ReleaseRequested,
    WithdrawCause,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import ApplicationOrder, LimitSpec, QueueSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_existing,
    of,
    only,
    placed,
    states,
)
from tests.unit.core.configurations import reload
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_held_place, a_swap, asked_to_release, confirm, real
from tests.unit.core.heard import released, released_asks, updated

S = ApplicationState
T = TerminationType
TIMES = Timeouts()

# the queue file


def below(memory: int) -> list[QueueSpec]:
    """Files that allow ann's gang of 20 in root.a less than it has: in the leaf, above it, and her user alone."""
    limit = LimitSpec(users=("ann",), max=Limits(memory=memory))
    return [
        a_root(a_queue_spec("a", max={"memory": memory})),
        a_root(max={"memory": memory}),
        a_root(a_queue_spec("a", limits=(limit,))),
    ]


@pytest.mark.parametrize("file", below(5), ids=["leaf", "root", "user"])
def test_a_quota_lowered_below_what_is_used_does_not_stop_the_swap_as_it_takes_nothing_new(file: QueueSpec) -> None:
    talk = a_full_gang(2, user="ann")
    request = a_swap(talk)
    reload(talk, file)
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    assert talk.queue().allocated == {"memory": 20}
    talk.asks(real("s", count=2))
    facts = talk.schedule()
    assert (asked_to_release(facts), placed(facts)) == ([("p", "PLACEHOLDER_REPLACED")], [])
    assert placed(confirm(talk, only(ReleaseRequested, facts)) + talk.schedule()) == [("gang", "s", "n1")]
    assert talk.app("gang").pending == {"memory": 10}


def test_a_queue_that_is_not_in_the_file_any_longer_finishes_its_swaps_and_goes_with_its_last_application() -> None:
    talk = a_full_gang(2)
    talk.remove("app")
    request = a_swap(talk)
    reload(talk, a_root(a_queue_spec("b")))
    refused = only(ApplicationRejected, talk.apps(a_gang("next", queue="root.a")))
    assert "root.a" in refused.reason
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    assert placed(confirm(talk, a_swap(talk, real("s")))) == [("gang", "s", "n1")]
    talk.release(application_id="gang")
    talk.sleep(TIMES.completing_ns + TIMES.cleanup_ns)
    assert [queue.path for queue in talk.view().queues] == ["root", "root.b"]


def test_placeholders_that_are_pending_when_their_queue_starts_to_drain_are_placed() -> None:
    talk = a_full_gang(2, memory=20)
    talk.asks(a_placeholder("late", app="gang"))
    talk.schedule()
    reload(talk, a_root(a_queue_spec("b")))
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(talk.schedule()) == [("gang", "late", "n2")]
    talk.asks(real(count=3))
    assert len(asked_to_release(talk.schedule())) == 3


def test_a_leaf_that_becomes_fair_keeps_the_gangs_it_has() -> None:
    talk = a_full_gang(2)
    request = a_swap(talk)
    reload(talk, a_root(a_queue_spec("a", order=ApplicationOrder.FAIR)))
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    assert placed(confirm(talk, a_swap(talk, real("s")))) == [("gang", "s", "n1")]
    assert only(ApplicationRejected, talk.apps(a_gang("next")))


def test_a_partition_that_is_not_in_the_file_any_longer_takes_the_swap_and_the_waiting_ask_along() -> None:
    talk = a_full_gang(2)
    talk.asks(real(count=5, memory=6))
    [request, _] = of(ReleaseRequested, talk.schedule())
    talk.asks(real("large", 500))
    talk.schedule()
    facts = talk.step(UpdateConfiguration(talk.rm_id, (a_partition_spec(name="another"),)))
    assert states(facts, "gang") == [S.FAILING, S.FAILED]
    assert sorted(released(facts)) == [("r", "STOPPED_BY_RM")] * 3, "p was asked to go, and is not told again"
    assert sorted(released_asks(facts)) == [("large", "TIMEOUT"), ("r", "TIMEOUT")]
    withdrawn = {one.allocation_key: one for one in of(AskWithdrawn, facts)}
    assert (withdrawn["r"].count, withdrawn["r"].cause) == (2, WithdrawCause.APPLICATION_ENDED)
    assert only(ReleaseIgnored, confirm(talk, request)).reason.startswith("partitionName")


# the resource manager starts anew


def registered_anew(request_of: Conversation) -> Conversation:
    request_of.register()
    request_of.connect()
    return request_of


def test_registering_anew_drops_the_swap_and_its_confirmation_is_of_something_unknown() -> None:
    talk = a_full_gang(2)
    request = a_swap(talk)
    registered_anew(talk)
    assert (talk.view().applications, talk.view().nodes, talk.scheduler.next_deadline_ns()) == ([], [], None)
    assert [type(fact) for fact in confirm(talk, request)] == [ReleaseIgnored]
    assert not talk.scheduler.wants_cycle()


@pytest.mark.parametrize("asked", ["before", "after"])
def test_placeholders_reported_again_are_placeholders_and_are_replaced_by_the_asks_sent_again(asked: str) -> None:
    talk = a_full_gang(2)
    old = a_swap(talk)
    registered_anew(talk)
    talk.apps(a_gang())
    if asked == "before":
        talk.asks(real())
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place(old.uuid), a_held_place("uuid-2")))
    if asked == "after":
        talk.asks(real())
    assert talk.app("gang").state == S.STARTING
    request = only(ReleaseRequested, talk.schedule())
    assert request.uuid == old.uuid
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    [group] = talk.app("gang").task_groups
    assert (group.placed, group.replaced, group.idle) == (2, 1, 1)


def test_a_placeholder_that_was_released_while_the_rm_was_away_is_not_missed() -> None:
    """The RM released it, and reports what is there: the real one in its place, under its own UUID."""
    talk = a_full_gang(2)
    a_swap(talk)
    registered_anew(talk)
    talk.apps(a_gang())
    talk.nodes(
        a_node("n1", {"memory": 20}, a_held_place("uuid-2"), an_existing("new", "r", "gang", task_group="group"))
    )
    assert (talk.app("gang").placeholder_allocated, talk.app("gang").allocated) == ({"memory": 10}, {"memory": 10})
    assert asked_to_release(talk.schedule()) == []
    talk.asks(real())
    assert asked_to_release(talk.schedule()) == [], "it is placed"


def test_a_confirmation_of_the_time_before_is_none_of_now_but_a_stop_ends_what_was_reported_meanwhile() -> None:
    talk = a_full_gang(2)
    old = a_swap(talk)
    registered_anew(talk)
    talk.apps(a_gang())
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place(old.uuid), a_held_place("uuid-2")))
    ignored = only(ReleaseIgnored, confirm(talk, old))
    assert ignored.reason == f"allocation {old.uuid} is not being replaced"
    assert only(Released, confirm(talk, old, termination=T.STOPPED_BY_RM)).placeholder
    talk.asks(real())
    assert only(ReleaseRequested, talk.schedule()).uuid == "uuid-2"


def test_the_timer_of_a_gang_starts_anew_with_the_first_placeholder_reported() -> None:
    talk = a_full_gang(2)
    talk.sleep(TIMES.placeholder_ns // 2)
    registered_anew(talk)
    talk.apps(a_gang(memory=30))
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place()))
    talk.sleep(1_000)
    talk.nodes(a_node("n2", {"memory": 20}, a_held_place("e2")))
    assert talk.sleep(TIMES.placeholder_ns - 1_001) == []
    facts = talk.sleep(1)
    assert [one[1] for one in updated(facts)] == ["Resuming"]
    assert released(facts) == [("p", "TIMEOUT")] * 2


def test_a_stopped_rm_has_no_swaps_and_is_told_to_register() -> None:
    talk = a_full_gang(2)
    request = a_swap(talk)
    talk.disconnect()
    talk.sleep(TIMES.reconnect_ns)
    assert [type(fact) for fact in confirm(talk, request)] == [ItemIgnored]
    assert talk.scheduler.next_deadline_ns() is None
