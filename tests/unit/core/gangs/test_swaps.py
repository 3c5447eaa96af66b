"""Gangs before their time is over: refused, let start, and replaced by what they hold room for (SEMANTICS G1 to G4)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationAccepted,
    ApplicationRejected,
    AskWithdrawn,
    RejectCode,
    Released,
    ReleaseIgnored,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS, ApplicationOrder, QueueSpec
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
    states,
)
from tests.unit.core.gang_builders import a_full_gang, a_gang, confirm, real

S = ApplicationState
T = TerminationType


def a_talk(*, memory: int = 100, root: QueueSpec | None = None) -> Conversation:
    return a_conversation(a_node("n1", {"memory": memory}), root=root)


def with_max(leaf: int | None = None, root: int | None = None) -> QueueSpec:
    leaves = [a_queue_spec(name, max=None if leaf is None else {"memory": leaf}) for name in ("a", "b")]
    return a_root(*leaves, max=None if root is None else {"memory": root})


# submission


@pytest.mark.parametrize(("tree", "where"), [(with_max(leaf=15), "root.a"), (with_max(root=15), "root")])
def test_a_gang_above_a_quota_is_refused_with_both_numbers(tree: QueueSpec, where: str) -> None:
    talk = a_talk(root=tree)
    refused = only(ApplicationRejected, talk.apps(a_gang(memory=20)))
    assert refused.code is RejectCode.OVER_QUOTA
    assert "wants 20 memory," in refused.reason
    assert f"max of queue {where} is 15" in refused.reason
    assert only(ApplicationAccepted, talk.apps(an_app("gang", placeholder_ask=Resources(gpu=99))))


def test_a_gang_in_a_fair_leaf_is_refused() -> None:
    talk = a_talk(root=a_root(a_queue_spec("a", order=ApplicationOrder.FAIR)))
    refused = only(ApplicationRejected, talk.apps(a_gang()))
    assert refused.code is RejectCode.QUEUE_NOT_FIFO
    assert "application.sort.policy fair" in refused.reason
    assert only(ApplicationAccepted, talk.apps(an_app("none", placeholder_ask=Resources(memory=0))))


# the gate


def test_no_placeholder_is_placed_before_the_quota_has_room_for_all_and_others_go_on() -> None:
    talk = a_talk(root=with_max(root=40))
    talk.apps(an_app("other", asked_at_ns=0), a_gang(memory=30))
    talk.asks(an_ask("o", count=2, app="other"), a_placeholder("p", count=3, app="gang"))
    assert {app for app, _, _ in placed(talk.schedule())} == {"other"}
    (ask,) = talk.app("gang").asks
    assert "with the whole gang: 20 of 40 memory used, 30 more asked" in ask.waiting_for
    talk.asks(an_ask("o2", app="other"))
    assert placed(talk.schedule()) == [("other", "o2", "n1")]
    talk.release(application_id="other", allocation_key="o")
    assert placed(talk.schedule()) == [("gang", "p", "n1")] * 3


def two_gangs() -> Conversation:
    """Two gangs of 30 below a quota of 50; one placeholder of the first is placed, two have no node yet."""
    talk = a_talk(memory=10, root=with_max(root=50))
    talk.apps(a_gang("gang", 30), a_gang("later", 30, "root.b"))
    talk.asks(a_placeholder("p", count=3, app="gang"))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 15}))
    talk.asks(a_placeholder("q", memory=15, count=2, app="later"))
    return talk


def test_what_a_gang_that_was_let_start_still_lacks_counts_at_the_gate_of_the_next() -> None:
    talk = two_gangs()
    talk.schedule()
    assert talk.app("later").allocations == []
    assert talk.queue("root").gang_quota_promised == {"memory": 10}
    talk.nodes(a_node("n3", {"memory": 100}))
    assert {app for app, _, _ in placed(talk.schedule())} == {"gang"}
    assert talk.queue("root").gang_quota_promised == {}


@pytest.mark.parametrize("end", ["removed", "timed out", "placeholders stopped"])
def test_the_promise_ends_with_the_time_of_the_gang(end: str) -> None:
    talk = two_gangs()
    talk.schedule()
    if end == "removed":
        talk.remove("gang")
    elif end == "timed out":
        talk.sleep(15 * MINUTE_NS)
        talk.release(application_id="gang", termination=T.TIMEOUT)
    else:
        talk.release_asks(application_id="gang")
        talk.release(application_id="gang")
    assert talk.queue("root").gang_quota_promised == {}
    talk.nodes(a_node("n3", {"memory": 100}))
    assert {app for app, _, _ in placed(talk.schedule())} == {"later"}


# replacement


def test_real_asks_wait_for_the_placeholders_and_only_for_those() -> None:
    talk = a_talk(memory=10)
    talk.apps(a_gang())
    talk.asks(a_placeholder("p", count=2, app="gang"), an_ask("plain", 1, app="gang"))
    assert placed(talk.schedule()) == [("gang", "p", "n1")]
    assert {ask.waiting_for for ask in talk.app("gang").asks if ask.allocation_key == "plain"} == {
        "gang: 1 of 2 have room; the next needs 10 memory, and no node has it"
    }
    talk.release_asks(application_id="gang", allocation_key="p")
    talk.nodes(a_node("n2", {"memory": 5}))
    assert placed(talk.schedule()) == [("gang", "plain", "n2")]


def test_a_swap_has_two_phases_and_is_one_update() -> None:
    talk = a_full_gang(memory=20)
    assert talk.app("gang").state == S.STARTING
    talk.asks(real("r", memory=6))
    facts = talk.schedule()
    request = only(ReleaseRequested, facts)
    assert (request.termination, request.uuid) == (T.PLACEHOLDER_REPLACED, "uuid-1")
    assert "ask r of application gang takes the room" in request.message
    assert of(Allocated, facts) == []
    assert (talk.node().allocated, talk.queue().allocated) == ({"memory": 20}, {"memory": 20})
    assert (talk.queue().pending, talk.app("gang").awaiting_placeholder) == ({}, 1)
    facts = confirm(talk, request)
    assert (only(Released, facts).confirm, only(Allocated, facts).replaces) == (False, "uuid-1")
    assert placed(facts) == [("gang", "r", "n1")]
    assert (talk.node().allocated, talk.queue().allocated) == ({"memory": 16}, {"memory": 16})
    assert talk.view().users[0].usage["root.a"] == {"memory": 16}
    (group,) = talk.app("gang").task_groups
    assert (group.wanted, group.placed, group.idle, group.replaced, group.timed_out) == (2, 2, 1, 1, 0)


def test_a_gang_is_starting_when_complete_and_running_with_the_second_or_the_last_swap() -> None:
    talk = a_full_gang(3)
    talk.asks(real("r", count=3))
    first, second, third = of(ReleaseRequested, talk.schedule())
    assert states(confirm(talk, first), "gang") == []
    assert states(confirm(talk, second), "gang") == [S.RUNNING]
    assert states(confirm(talk, third), "gang") == []
    single = a_full_gang(1)
    single.asks(real("r"))
    assert states(confirm(single, only(ReleaseRequested, single.schedule())), "gang") == [S.RUNNING]


def test_the_last_swap_does_not_move_on_a_gang_that_has_another_ask_pending() -> None:
    talk = a_full_gang(1, memory=10)
    talk.asks(real("r"), an_ask("more", app="gang"))
    assert states(confirm(talk, only(ReleaseRequested, talk.schedule())), "gang") == []
    talk.nodes(a_node("n2", {"memory": 10}))
    assert states(talk.schedule(), "gang") == [S.RUNNING]


@pytest.mark.parametrize("termination", [T.STOPPED_BY_RM, T.TIMEOUT, T.PREEMPTED_BY_SCHEDULER])
def test_any_confirmation_completes_the_swap(termination: TerminationType) -> None:
    talk = a_full_gang()
    talk.asks(real("r"))
    facts = confirm(talk, only(ReleaseRequested, talk.schedule()), termination=termination)
    assert placed(facts) == [("gang", "r", "n1")]
    assert only(Released, facts).confirm is (termination is T.STOPPED_BY_RM)


def test_a_second_confirmation_is_ignored() -> None:
    talk = a_full_gang()
    talk.asks(real("r"))
    request = only(ReleaseRequested, talk.schedule())
    confirm(talk, request)
    assert only(ReleaseIgnored, confirm(talk, request)).uuid == request.uuid


def test_an_ask_too_large_for_its_placeholder_goes_on_without_and_the_placeholder_goes() -> None:
    talk = a_full_gang()
    talk.asks(real("r", memory=15))
    facts = talk.schedule()
    request = only(ReleaseRequested, facts)
    assert request.termination is T.TIMEOUT
    assert request.message == "ask r of application gang does not fit: it asks for 15 memory, placeholder p has 10"
    assert placed(facts) == [("gang", "r", "n1")]
    assert [one.idle for one in talk.app("gang").task_groups] == [1]


def test_each_task_group_has_its_own_placeholders() -> None:
    talk = a_full_gang()
    talk.asks(an_ask("stranger", app="gang", task_group="another"), real("r"))
    facts = talk.schedule()
    assert placed(facts) == [("gang", "stranger", "n1")]
    assert only(ReleaseRequested, facts).termination is T.PLACEHOLDER_REPLACED


def test_from_a_drained_node_the_ask_goes_to_another_and_without_any_it_waits() -> None:
    talk = a_full_gang()
    talk.asks(real("r", count=2))
    first, second = of(ReleaseRequested, talk.schedule())
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    assert placed(confirm(talk, first)) == []
    assert talk.queue().pending == {"memory": 10}
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(confirm(talk, second)) == [("gang", "r", "n2")]
    assert placed(talk.schedule()) == [("gang", "r", "n2")]


def test_a_node_removed_in_flight_has_the_ask_placed_anew() -> None:
    talk = a_full_gang()
    talk.asks(real("r"))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))) == []
    assert placed(talk.schedule()) == [("gang", "r", "n2")]


def test_a_confirmation_while_the_rm_is_away_places_nothing() -> None:
    talk = a_full_gang()
    talk.asks(real("r"))
    request = only(ReleaseRequested, talk.schedule())
    talk.disconnect()
    assert placed(confirm(talk, request)) == []
    talk.connect()
    assert only(ReleaseRequested, talk.schedule()).termination is T.PLACEHOLDER_REPLACED, "it takes the next one"


def test_an_ask_released_in_flight_lets_its_placeholder_just_go() -> None:
    talk = a_full_gang()
    talk.asks(real("r"))
    request = only(ReleaseRequested, talk.schedule())
    talk.release_asks(application_id="gang", allocation_key="r")
    assert talk.app("gang").awaiting_placeholder == 0
    assert placed(confirm(talk, request)) == []
    assert talk.node().allocated == {"memory": 10}


def test_an_update_in_flight_keeps_the_swap_if_the_size_is_the_same() -> None:
    talk = a_full_gang()
    talk.asks(real("r"))
    request = only(ReleaseRequested, talk.schedule())
    talk.asks(real("r", priority=7))
    assert talk.queue().pending == {}
    talk.asks(real("r", memory=9))
    assert talk.queue().pending == {"memory": 9}
    assert placed(confirm(talk, request)) == []
    assert placed(confirm(talk, only(ReleaseRequested, talk.schedule()))) == [("gang", "r", "n1")]


def test_an_application_removed_in_flight_leaves_nothing() -> None:
    talk = a_full_gang()
    talk.asks(real("r"))
    request = only(ReleaseRequested, talk.schedule())
    assert len(of(Released, talk.remove("gang"))) == 2
    assert only(ReleaseIgnored, confirm(talk, request))
    assert (talk.node().allocated, talk.queue("root").allocated) == ({}, {})


def test_a_hard_timeout_in_flight_takes_the_waiting_ask_along() -> None:
    talk = a_talk(memory=20)
    talk.apps(a_gang(memory=50, gang_style="Hard"))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    talk.asks(real("r"))
    request = only(ReleaseRequested, talk.schedule())
    assert states(talk.sleep(15 * MINUTE_NS), "gang") == [S.FAILING]
    assert placed(confirm(talk, request)) == []
    facts = talk.release(application_id="gang", termination=T.TIMEOUT)
    assert states(facts, "gang") == [S.FAILED]
    assert [one.allocation_key for one in of(AskWithdrawn, facts)] == ["r"]
