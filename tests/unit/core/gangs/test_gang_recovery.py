"""Placeholders that come with their nodes: they are placeholders again, wherever and whenever (SEMANTICS D, G7)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType
from schedulerd.core.language.facts.fact import (
    Allocated,
    AskAdded,
    AskWithdrawn,
    NodeAccepted,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MILLISECOND_NS, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
    states,
)
from tests.unit.core.gang_builders import a_gang, a_held_place, a_swap, asked_to_release, confirm, real
from tests.unit.core.heard import allocated, updated
from tests.unit.core.preemption_builders import a_daemon

S = ApplicationState
T = TerminationType
A = NodeAction
TIMES = Timeouts()


def a_talk(**fields: Any) -> Conversation:
    """A resource manager that has sent its gang of 20, and no node yet."""
    talk = a_conversation()
    talk.apps(a_gang(**fields))
    return talk


def a_running_one(uuid: str = "r1", key: str = "r") -> Any:
    """A real allocation of the gang."""
    return an_existing(uuid, key, "gang", task_group="group")


# exactly what was reported


@pytest.mark.parametrize(
    ("existing", "state"),
    [
        ([a_held_place("e1")], S.ACCEPTED),
        ([a_held_place("e1"), a_held_place("e2")], S.STARTING),
        ([a_held_place("e1"), a_running_one()], S.STARTING),
        ([a_running_one("r1"), a_running_one("r2"), a_held_place("e1")], S.RUNNING),
    ],
    ids=["half a gang", "a whole gang", "one replaced", "one left"],
)
def test_the_state_is_that_of_what_was_reported(existing: list[Any], state: ApplicationState) -> None:
    talk = a_talk()
    facts = talk.nodes(a_node("n1", {"memory": 100}, *existing))
    assert allocated(facts) == [], "the RM is not told what it said"
    gang = talk.app("gang")
    assert gang.state == state
    assert [(one.uuid, one.placeholder, one.task_group) for one in gang.allocations] == sorted(
        ((one.uuid, one.placeholder, "group") for one in existing), key=lambda one: gang_order(one[0])
    )
    held = sum(one.placeholder for one in existing)
    assert gang.placeholder_allocated.get("memory", 0) == 10 * held
    assert gang.allocated.get("memory", 0) == 10 * (len(existing) - held)
    assert [(one.placed, one.idle) for one in gang.task_groups] == [(held, held)]
    assert talk.node().allocated == talk.queue().allocated == {"memory": 10 * len(existing)}


def gang_order(uuid: str) -> tuple[str, str]:
    """Views list allocations by key, then UUID: `p` before `r`."""
    return ("p" if uuid.startswith("e") else "r", uuid)


@pytest.mark.parametrize("first", ["nodes", "asks"])
def test_placeholders_on_several_nodes_are_replaced_whether_the_asks_come_before_or_after(first: str) -> None:
    talk = a_talk(memory=30)
    nodes = [a_node(f"n{number}", {"memory": 10}, a_held_place(f"e{number}")) for number in (1, 2, 3)]
    if first == "nodes":
        talk.nodes(*nodes)
        talk.asks(real(count=3))
        facts = talk.schedule()
    else:
        talk.asks(real(count=3))
        facts = talk.schedule()
        for node in nodes:
            facts += talk.nodes(node)
            facts += talk.schedule()
    requests = of(ReleaseRequested, facts)
    assert {(one.uuid, one.node_id) for one in requests} == {("e1", "n1"), ("e2", "n2"), ("e3", "n3")}
    for request in requests:
        assert placed(confirm(talk, request)) == [("gang", "r", request.node_id)]
    assert (talk.app("gang").state, talk.app("gang").allocated) == (S.RUNNING, {"memory": 30})


def test_a_placeholder_ask_that_comes_again_wants_only_what_was_not_reported() -> None:
    talk = a_talk(memory=40)
    talk.nodes(a_node("n1", {"memory": 100}, a_held_place("e1"), a_held_place("e2")))
    assert only(AskAdded, talk.asks(a_placeholder("p", count=4, app="gang"))).count == 2
    assert len(placed(talk.schedule())) == 2
    assert [(one.wanted, one.placed) for one in talk.app("gang").task_groups] == [(4, 4)]


def test_a_placeholder_ask_that_came_before_wants_only_what_was_not_reported() -> None:
    talk = a_talk(memory=40)
    talk.asks(a_placeholder("p", count=4, app="gang"))
    facts = talk.nodes(a_node("n1", {"memory": 100}, a_held_place("e1"), a_held_place("e2")))
    assert [one.count for one in of(AskWithdrawn, facts)] == [1, 1]
    assert len(placed(talk.schedule())) == 2
    assert [(one.wanted, one.placed) for one in talk.app("gang").task_groups] == [(4, 4)]


def test_without_its_task_group_a_placeholder_is_an_ordinary_allocation_and_is_not_replaced() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 100}, an_existing("e1", "p", "gang", placeholder=True)))
    talk.asks(real())
    facts = talk.schedule()
    assert (asked_to_release(facts), placed(facts)) == ([], [("gang", "r", "n1")])


def test_a_gang_that_is_there_in_part_needs_no_gate_for_the_rest() -> None:
    """It was let start before; to hold the rest back would keep what it has from being used."""
    talk = a_conversation(root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.apps(a_gang(memory=30), an_app("other"))
    talk.nodes(a_node("n1", {"memory": 100}, a_held_place("e1"), an_existing("o1", app="other")))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    assert placed(talk.schedule()) == [("gang", "p", "n1")]


# where it is tight


def test_over_capacity_a_real_one_goes_where_there_is_room_and_a_smaller_one_stays() -> None:
    talk = a_talk(memory=30)
    talk.nodes(a_node("n1", {"memory": 15}, *(a_held_place(f"e{number}") for number in (1, 2, 3))))
    assert talk.node().available == {"memory": -15}
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(confirm(talk, a_swap(talk))) == [("gang", "r", "n2")]
    assert placed(confirm(talk, a_swap(talk, real("s", 5)))) == [("gang", "s", "n1")]
    assert talk.node().available == {}


def test_over_capacity_with_no_other_node_the_real_one_waits_until_the_node_has_room() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 15}, a_held_place("e1"), a_running_one("r1", "old")))
    assert placed(confirm(talk, a_swap(talk, real(memory=8))) + talk.schedule()) == []
    [ask] = talk.app("gang").asks
    assert ask.waiting_for == "no node has room: 1 node is considered, 1 has too little memory"
    talk.release(application_id="gang", allocation_key="old")
    assert placed(talk.schedule()) == [("gang", "r", "n1")]


def test_over_capacity_a_real_one_that_found_no_room_in_one_placeholder_takes_the_next_as_well() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 15}, a_held_place("e1"), a_held_place("e2")))
    assert placed(confirm(talk, a_swap(talk, real(memory=8)))) == []
    request = only(ReleaseRequested, talk.schedule())
    assert (request.uuid, request.termination) == ("e2", T.PLACEHOLDER_REPLACED)
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    assert talk.node().allocated == {"memory": 8}


@pytest.mark.parametrize("limit", [5, 15], ids=["below one", "below all"])
def test_over_a_quota_placeholders_are_kept_and_replaced_one_for_one(limit: int) -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a", max={"memory": limit})))
    talk.apps(an_app("gang"))
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place("e1"), a_held_place("e2")))
    talk.asks(real(count=3))
    for request in of(ReleaseRequested, talk.schedule()):
        assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    assert placed(talk.schedule()) == []
    assert talk.queue().allocated == {"memory": 20}


def test_on_a_drained_node_they_are_kept_and_the_real_ones_go_elsewhere() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place("e1"), a_held_place("e2"), action=A.CREATE_DRAIN))
    assert (talk.node().allocated, talk.node().state) == ({"memory": 20}, "draining")
    assert talk.app("gang").state == S.STARTING
    request = a_swap(talk)
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(confirm(talk, request)) == [("gang", "r", "n2")]
    request = a_swap(talk, real("s"))
    assert placed(confirm(talk, request) + talk.schedule()) == []
    talk.nodes(a_node("n1", action=A.DRAIN_TO_SCHEDULABLE))
    assert placed(talk.schedule()) == [("gang", "s", "n1")]


# of an application that is not known


def test_placeholders_are_unclaimed_until_their_application_comes_and_are_its_placeholders_then() -> None:
    talk = a_conversation()
    assert only(NodeAccepted, talk.nodes(a_node("n1", {"memory": 20}, a_held_place("e1"), a_held_place("e2"))))
    talk.sleep(10 * TIMES.early_message_ns)
    facts = talk.apps(a_gang())
    assert [one.placeholder for one in of(Allocated, facts)] == [True, True]
    assert states(facts, "gang") == [S.NEW, S.ACCEPTED, S.STARTING]
    assert asked_to_release(talk.asks(real()) + talk.schedule()) == [("p", "PLACEHOLDER_REPLACED")]


def test_an_unclaimed_placeholder_is_nothing_to_other_gangs() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place("e1"), a_held_place("e2", app="never")))
    assert talk.queue().allocated == {"memory": 10}
    talk.asks(real())
    assert asked_to_release(talk.schedule()) == [("p", "PLACEHOLDER_REPLACED")]
    assert [one.uuid for one in talk.node().unclaimed] == ["e2"]


def test_real_asks_that_were_early_take_the_placeholders_of_the_node_that_was_early() -> None:
    talk = a_conversation()
    talk.asks(real())
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place("e1"), a_held_place("e2")))
    talk.apps(a_gang())
    assert asked_to_release(talk.schedule()) == [("p", "PLACEHOLDER_REPLACED")]


# time


@pytest.mark.parametrize(("style", "end"), [("Hard", "Failing"), ("Soft", "Resuming")])
def test_the_time_of_a_gang_begins_with_the_first_placeholder_reported(style: str, end: str) -> None:
    talk = a_talk(memory=50, gang_style=style, execution_timeout_ms=1_000)
    talk.now_ns += 77
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place("e1")))
    talk.sleep(300 * MILLISECOND_NS)
    talk.nodes(a_node("n2", {"memory": 20}, a_held_place("e2")))
    assert updated(talk.sleep(700 * MILLISECOND_NS - 1)) == []
    facts = talk.sleep(1)
    assert [one[:3] for one in updated(facts)] == [("gang", end, talk.now_ns)]
    assert updated(facts)[0][3].endswith("they are less than placeholderAsk: 20 of 50 memory")
    assert asked_to_release(facts) == [("p", "TIMEOUT")] * 2


def test_a_gang_of_which_only_real_ones_are_reported_has_no_timer() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 20}, a_running_one("r1"), a_running_one("r2")))
    assert talk.scheduler.next_deadline_ns() is None


def ending(style: str) -> Conversation:
    """A gang whose time is over; its one placeholder is not confirmed yet."""
    talk = a_talk(memory=50, gang_style=style)
    talk.nodes(a_node("n1", {"memory": 20}, a_held_place("e1")))
    assert asked_to_release(talk.sleep(TIMES.placeholder_ns)) == [("p", "TIMEOUT")]
    return talk


@pytest.mark.parametrize(("style", "end"), [("Hard", [S.FAILED]), ("Soft", [S.ACCEPTED])])
def test_a_placeholder_reported_after_the_time_is_over_goes_with_the_others(
    style: str, end: list[ApplicationState]
) -> None:
    talk = ending(style)
    facts = talk.nodes(a_node("n2", {"memory": 20}, a_held_place("e2")))
    assert asked_to_release(facts) == [("p", "TIMEOUT")]
    assert states(talk.release(application_id="gang", uuid="e1", termination=T.TIMEOUT), "gang") == []
    assert states(confirm(talk, only(ReleaseRequested, facts)), "gang") == end


def test_a_real_one_reported_of_an_application_that_fails_goes_as_well() -> None:
    talk = ending("Hard")
    facts = talk.nodes(a_node("n2", {"memory": 20}, a_running_one()))
    assert asked_to_release(facts) == [("r", "TIMEOUT")]
    talk.release(application_id="gang", uuid="e1", termination=T.TIMEOUT)
    assert states(confirm(talk, only(ReleaseRequested, facts)), "gang") == [S.FAILED]


def test_a_real_one_reported_of_an_application_that_resumes_stays() -> None:
    talk = ending("Soft")
    assert asked_to_release(talk.nodes(a_node("n2", {"memory": 20}, a_running_one()))) == []
    facts = talk.release(application_id="gang", uuid="e1", termination=T.TIMEOUT)
    assert states(facts, "gang") == [S.ACCEPTED, S.STARTING]


# counts of types that nobody announced


def test_other_types_and_sizes_than_announced_are_kept_as_they_are() -> None:
    talk = a_talk()
    odd = an_existing("e1", "p", "gang", task_group="odd", placeholder=True)
    odd.resources = Resources(gpu=2, memory=3)
    talk.nodes(a_node("n1", {"memory": 20}, odd))
    assert talk.app("gang").placeholder_allocated == {"gpu": 2, "memory": 3}
    assert talk.node().available == {"gpu": -2, "memory": 17}
    talk.asks(an_ask("r", app="gang", resources=Resources(gpu=1), task_group="odd"))
    request = only(ReleaseRequested, talk.schedule())
    assert placed(confirm(talk, request)) == [], "this node has no gpu"
    talk.nodes(a_node("n2", {"gpu": 1}))
    assert placed(talk.schedule()) == [("gang", "r", "n2")]


def test_placeholders_of_one_key_that_have_to_go_are_all_asked_for_again() -> None:
    talk = a_talk(memory=40)
    there = [an_existing(uuid, "p", "gang", task_group="group", placeholder=True) for uuid in ("u", "v")]
    talk.nodes(a_node("n1", {"memory": 20}, *there))
    talk.apps(an_app("daemons"))
    talk.asks(a_daemon(memory=20))
    requests = of(ReleaseRequested, talk.schedule())
    assert [one.allocation_key for one in requests] == ["p", "p"]
    facts = [fact for request in requests for fact in confirm(talk, request)]
    assert [(one.allocation_key, one.count) for one in of(AskAdded, facts)] == [("p", 1), ("p", 1)]
