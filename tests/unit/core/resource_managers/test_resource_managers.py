"""Resource managers: registered, connected, away, stopped (SI life cycle; SEMANTICS C)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import AbsenceCause, DisconnectResourceManager, NodeAction, StopCause
from schedulerd.core.language.facts.fact import ItemIgnored, RejectCode, ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import Timeouts
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_scheduler,
    an_app,
    an_ask,
    only,
    placed,
)

RECONNECT_NS = Timeouts().reconnect_ns
ROOM = {"memory": 100}


def pending_on_a_node() -> Conversation:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k"))
    return talk


def test_it_is_not_served_before_its_stream_is_open() -> None:
    talk = Conversation(a_scheduler())
    changed = only(ResourceManagerChanged, talk.register())
    assert (changed.rm_id, changed.state, changed.cause) == (RM, ResourceManagerState.INIT, "registered")
    talk.nodes(a_node("n1", ROOM))
    talk.apps(an_app())
    talk.asks(an_ask())
    assert not talk.scheduler.wants_cycle()
    assert talk.cycle() == []
    assert only(ResourceManagerChanged, talk.connect()).state is ResourceManagerState.RUNNING
    assert len(placed(talk.schedule())) == 1


@pytest.mark.parametrize("cause", AbsenceCause)
def test_why_it_is_away_is_said(cause: AbsenceCause) -> None:
    paused = only(ResourceManagerChanged, a_conversation().step(DisconnectResourceManager(RM, cause)))
    assert (paused.state, paused.cause) == (ResourceManagerState.PAUSED, cause.value)


def test_connecting_twice_is_said_once() -> None:
    talk = a_conversation()
    assert talk.connect() == []


def test_while_it_is_away_it_is_heard_but_gets_nothing() -> None:
    talk = pending_on_a_node()
    assert only(ResourceManagerChanged, talk.disconnect()).state is ResourceManagerState.PAUSED
    talk.asks(an_ask("more"))
    assert not talk.scheduler.wants_cycle()
    assert talk.cycle() == []
    talk.sleep(RECONNECT_NS - 1)
    talk.connect()
    assert [key for _, key, _ in placed(talk.schedule())] == ["k", "more"]
    assert talk.scheduler.next_deadline_ns() is None, "it is back in time: that alarm is off"


def test_being_lost_twice_starts_one_deadline() -> None:
    talk = a_conversation()
    talk.disconnect()
    deadline_ns = talk.scheduler.next_deadline_ns()
    talk.now_ns += 1
    assert talk.disconnect() == []
    assert talk.scheduler.next_deadline_ns() == deadline_ns


@pytest.mark.parametrize("connected_before", [True, False])
def test_being_away_for_too_long_stops_it(connected_before: bool) -> None:
    talk = Conversation(a_scheduler())
    talk.register()
    if connected_before:
        talk.connect()
        talk.disconnect()
    assert talk.sleep(RECONNECT_NS - 1) == []
    changed = only(ResourceManagerChanged, talk.sleep(1))
    assert (changed.state, changed.cause) == (ResourceManagerState.STOPPED, StopCause.RECONNECT_TIMEOUT)
    assert talk.scheduler.next_deadline_ns() is None


def test_a_stopped_one_has_to_register_again() -> None:
    talk = pending_on_a_node()
    changed = only(ResourceManagerChanged, talk.stop(StopCause.OUTBOX_OVERFLOW))
    assert (changed.state, changed.cause) == (ResourceManagerState.STOPPED, "outbox_overflow")
    ignored = only(ItemIgnored, talk.asks(an_ask("more")))
    assert (ignored.code, ignored.object_id) == (RejectCode.INVALID_STATE, RM)
    assert (
        ignored.reason == f"resource manager '{RM}' is not registered; it has to register before it can send anything"
    )
    assert only(ItemIgnored, talk.connect()).code is RejectCode.INVALID_STATE
    talk.register()
    talk.connect()
    assert talk.view().nodes == []


def test_registering_again_drops_everything() -> None:
    talk = pending_on_a_node()
    talk.schedule()
    talk.apps(an_app("rejected", "root.nowhere"))
    talk.asks(an_ask("early", app="unborn"))
    changed = only(ResourceManagerChanged, talk.register())
    assert changed.state is ResourceManagerState.INIT
    assert changed.cause == "registered again: all its state was dropped"
    view = talk.view()
    assert (view.nodes, view.applications, view.terminated, view.users) == ([], [], [], [])
    assert talk.scheduler.next_deadline_ns() == talk.now_ns + RECONNECT_NS
    talk.connect()
    assert talk.scheduler.next_deadline_ns() is None, "no alarm of the time before is left"


def test_two_of_them_share_nothing_but_the_scheduler() -> None:
    one = pending_on_a_node()
    other = Conversation(one.scheduler, "rm-2")
    other.register(a_partition_spec())
    other.connect()
    other.apps(an_app())
    other.asks(an_ask("k", memory=60))
    one.schedule()
    assert other.view().applications[0].asks[0].waiting_for == "no node has room: there are no nodes"
    other.nodes(a_node("n1", ROOM))
    assert placed(other.schedule()) == [("app", "k", "n1")]
    other.stop(StopCause.UNREGISTERED)
    one.asks(an_ask("more", memory=90))
    assert placed(one.schedule()) == [("app", "more", "n1")]


def test_a_cycle_begins_with_another_partition_each_time() -> None:
    """So that one that is always busy does not starve the others."""
    one = a_conversation(a_node("n1", ROOM))
    other = Conversation(one.scheduler, "rm-2")
    other.register()
    other.connect()
    other.nodes(a_node("n2", ROOM))
    other.apps(an_app())
    for talk in (one, other):
        talk.asks(an_ask("k", count=4))
    nodes = [placed(one.cycle(1))[0][2] for _ in range(8)]
    assert sorted(nodes[:2]) == sorted(nodes[2:4]) == ["n1", "n2"]


@pytest.mark.parametrize("name", ["", "default", "DEFAULT", f"[{RM}]default"])
def test_the_ways_to_name_a_partition(name: str) -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, partition=name, action=NodeAction.CREATE))
    assert [node.node_id for node in talk.view().nodes] == ["n1"]


@pytest.mark.parametrize("name", ["gpu", f"[{RM}]gpu"])
def test_every_item_is_for_the_partition_it_names_and_for_no_other(name: str) -> None:
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec(), a_partition_spec(name="gpu"))
    talk.connect()
    for partition in ("", name):
        talk.nodes(a_node("n1", ROOM, partition=partition))
        talk.apps(an_app(partition=partition))
        talk.asks(an_ask("runs", partition=partition), an_ask("waits", memory=500, partition=partition))
    talk.schedule()

    def running_and_waiting(partition: str) -> list[tuple[int, int]]:
        return [(len(app.allocations), len(app.asks)) for app in talk.view(partition).applications]

    assert running_and_waiting("default") == running_and_waiting("gpu") == [(1, 1)]
    talk.release_asks(allocation_key="waits", partition=name)
    assert running_and_waiting("gpu") == [(1, 0)]
    talk.release(allocation_key="runs", partition=name)
    assert running_and_waiting("gpu") == [(0, 0)]
    talk.remove("app", partition=name)
    assert running_and_waiting("gpu") == []
    assert running_and_waiting("default") == [(1, 1)]
