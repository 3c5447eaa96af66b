"""Existing allocations of applications that are not known count on their node and wait for their application."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import AllocationAffinity as Affinity
from schedulerd.core.language.commands import (
    AllocationRelease,
    ExistingAllocation,
    Expression,
    NodeAction,
    NodeUpdate,
    Operator,
    PlacementConstraint,
    TerminationType,
    UpdateAllocations,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    ItemIgnored,
    NodeAccepted,
    NodeRejected,
    RejectCode,
    Released,
    ReleaseIgnored,
)
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnd, UnclaimedEnded
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.state.actions import early_items as early
from schedulerd.core.state.alarm_events import PlaceholderTimeout
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
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

ROOM = {"memory": 100}
NO_WAITING = Timeouts(early_message_ns=0)


def an_update(node_id: str, *existing: ExistingAllocation) -> NodeUpdate:
    return a_node(node_id, None, *existing, action=NodeAction.UPDATE)


def unclaimed(talk: Conversation) -> list[tuple[str, str, int]]:
    """UUID, node and memory of each unclaimed allocation."""
    return [(one.uuid, one.node_id, one.resources["memory"]) for node in talk.view().nodes for one in node.unclaimed]


def of_one_key() -> tuple[ExistingAllocation, ExistingAllocation]:
    """Of application late: the second is a placeholder, which cannot join beside the first."""
    return (
        an_existing("e1", "k", app="late"),
        an_existing("e2", "k", app="late", task_group="g", placeholder=True),
    )


def with_a_mistake() -> Conversation:
    """Of application late, e1 has joined and is released; e2, which could not join, is still unclaimed."""
    talk = a_conversation(timeouts=Timeouts(completing_ns=1))
    talk.nodes(a_node("n1", ROOM, *of_one_key()))
    talk.apps(an_app("late"))
    talk.release(application_id="late", uuid="e1")
    return talk


def test_a_node_with_a_stale_allocation_keeps_its_others() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a", max={"memory": 20})))
    facts = talk.nodes(a_node("n1", ROOM, an_existing("e1"), an_existing("e2", "k2", app="gone", memory=85)))
    assert only(NodeAccepted, facts).node_id == "n1"
    assert [one.uuid for one in of(Allocated, facts)] == ["e1"]
    said = only(AllocationUnclaimed, facts)
    assert (said.application_id, said.allocation_key, said.uuid, said.node_id) == ("gone", "k2", "e2", "n1")
    assert said.reason.startswith("applicationID 'gone' is not a known application")
    assert talk.node().available == {"memory": 5}, "it counts on the node"
    assert talk.queue().allocated == {"memory": 10}, "and in no queue"
    assert [user.usage["root"] for user in talk.view().users] == [{"memory": 10}], "and for no user"
    talk.asks(an_ask("small", 5), an_ask("large", 6))
    assert placed(talk.schedule()) == [("app", "small", "n1")]


def test_its_reason_names_the_state_in_which_its_application_ended() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(an_app("refused", "root.nowhere"))
    talk.nodes(a_node("n2", ROOM, an_existing(app="refused")))
    assert "in state Rejected" in talk.node("n2").unclaimed[0].reason


@pytest.mark.parametrize("action", [NodeAction.CREATE, NodeAction.UPDATE])
def test_it_joins_its_application_when_that_is_added(action: NodeAction) -> None:
    talk = a_conversation(*([a_node("n1", ROOM)] if action is NodeAction.UPDATE else []))
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="late", priority=3, tags={"t": "v"}), action=action))
    facts = talk.apps(an_app("late"))
    ended = only(UnclaimedEnded, facts)
    assert (ended.uuid, ended.cause, ended.confirm) == ("e1", UnclaimedEnd.JOINED, False)
    allocated = only(Allocated, facts)
    assert allocated.recovered
    assert (allocated.uuid, allocated.node_id, allocated.priority, allocated.tags) == ("e1", "n1", 3, {"t": "v"})
    assert facts.index(ended) < facts.index(allocated)
    assert states(facts, "late")[-1] == ApplicationState.STARTING
    assert talk.queue().allocated == {"memory": 10}
    assert talk.node().available == {"memory": 90}
    assert unclaimed(talk) == []


def test_those_of_one_node_join_one_application_each() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="late"), an_existing("e2", app="later")))
    assert only(Allocated, talk.apps(an_app("late"))).uuid == "e1"
    assert unclaimed(talk) == [("e2", "n1", 10)]
    assert only(Allocated, talk.apps(an_app("later"))).uuid == "e2"


def test_an_application_of_another_partition_is_not_its_application() -> None:
    talk = Conversation(a_conversation().scheduler)
    talk.register(a_partition_spec(), a_partition_spec(name="gpu"))
    talk.connect()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="late"), partition="gpu"))
    assert of(Allocated, talk.apps(an_app("late"))) == []
    assert only(Allocated, talk.apps(an_app("late", partition="gpu"))).partition == "gpu"


def test_an_ask_of_its_key_that_waited_too_is_an_update() -> None:
    talk = a_conversation()
    talk.asks(an_ask("k", app="late"), an_ask("more", app="late"))
    talk.nodes(a_node("n1", ROOM, an_existing("e1", "k", app="late")))
    talk.apps(an_app("late"))
    assert placed(talk.schedule()) == [("late", "more", "n1")]


def test_a_placeholder_starts_the_time_of_its_gang_when_it_joins() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", "p", app="gang", task_group="group", placeholder=True)))
    assert not [one for one in talk.scheduler.cluster.alarms.live() if isinstance(one.event, PlaceholderTimeout)]
    talk.sleep(3_600_000_000_000)
    talk.apps(an_app("gang", execution_timeout_ms=60_000, placeholder_ask=talk.model().total()))
    talk.asks(a_placeholder("p2", app="gang"))
    assert talk.app("gang").gang_deadline_ns == talk.now_ns + 60_000_000_000
    assert [one.placeholder for one in talk.app("gang").allocations] == [True]


def test_it_is_checked_when_it_joins_and_stays_unclaimed_with_the_reason() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, *of_one_key()))
    facts = talk.apps(an_app("late"))
    assert [one.uuid for one in of(Allocated, facts)] == ["e1"]
    ignored = only(ItemIgnored, facts)
    assert (ignored.object_id, ignored.code) == ("e2", RejectCode.INVALID_STATE)
    assert "is a real allocation, and is reported as a placeholder" in ignored.reason
    [kept] = talk.node().unclaimed
    assert kept.reason.startswith("allocation e1 with this key on node n1 is a real allocation")
    assert talk.node().available == {"memory": 80}
    talk.release(application_id="late", uuid="e1")
    talk.remove("late")
    assert unclaimed(talk) == [], "a removal releases all that its application has"


def test_one_with_a_mistake_is_tried_again_with_the_next_application_of_its_id() -> None:
    talk = with_a_mistake()
    talk.sleep(10)
    assert [one.state for one in talk.view().terminated] == ["Completed"]
    assert unclaimed(talk) == [("e2", "n1", 10)]
    assert only(Allocated, talk.apps(an_app("late"))).uuid == "e2"


@pytest.mark.parametrize(
    ("release", "left"),
    [
        (AllocationRelease("gone"), []),
        (AllocationRelease("gone", allocation_key="k"), ["e2"]),
        (AllocationRelease("gone", uuid="e1"), ["e2"]),
        (AllocationRelease("", uuid="e1"), ["e2"]),
        (AllocationRelease("gone", termination=TerminationType.TIMEOUT), []),
    ],
    ids=["of the application", "of a key", "one", "by its UUID alone", "a confirmation"],
)
def test_it_goes_when_its_resource_manager_releases_it(release: AllocationRelease, left: list[str]) -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="gone"), an_existing("e2", "other", app="gone")))
    talk.asks(an_ask("waits", 85))
    assert placed(talk.schedule()) == []
    facts = talk.step(UpdateAllocations(RM, releases=[release]))
    ended = of(UnclaimedEnded, facts)
    assert [one.uuid for one in ended] == [uuid for uuid in ("e1", "e2") if uuid not in left]
    assert {one.confirm for one in ended} == {release.termination is TerminationType.STOPPED_BY_RM}
    assert [one.uuid for one in talk.node().unclaimed] == left
    assert placed(talk.schedule()) == [("app", "waits", "n1")], "its room is for others"


def test_a_release_of_another_application_does_not_name_it() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="gone")))
    for release in (AllocationRelease("app", uuid="e1"), AllocationRelease("gone", allocation_key="other")):
        assert only(ReleaseIgnored, talk.step(UpdateAllocations(RM, releases=[release])))
    assert unclaimed(talk) == [("e1", "n1", 10)]


def test_it_goes_when_its_application_is_removed_and_that_is_confirmed() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="gone")))
    ended = only(UnclaimedEnded, talk.remove("gone"))
    assert (ended.termination, ended.confirm) == (TerminationType.STOPPED_BY_RM, True)
    assert only(ItemIgnored, talk.remove("gone")).code is RejectCode.UNKNOWN_APPLICATION


def test_it_goes_with_its_node() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="gone"), an_existing("e2")))
    facts = talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))
    assert only(Released, facts).uuid == "e2"
    ended = only(UnclaimedEnded, facts)
    assert (ended.uuid, ended.cause, ended.confirm) == ("e1", UnclaimedEnd.NODE_REMOVED, True)
    assert of(NodeAccepted, talk.nodes(a_node("n1", ROOM, an_existing("e1", app="gone")))), "its UUID is free again"


def test_nothing_is_left_of_it_when_its_resource_manager_registers_again() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="gone")))
    talk.register(a_partition_spec())
    assert talk.view().nodes == []
    while talk.scheduler.dismantle(1):
        pass
    talk.nodes(a_node("n1", ROOM))
    assert unclaimed(talk) == [], "the node stopped reporting it"


def test_an_update_that_reports_other_allocations_says_nothing_of_it() -> None:
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, an_existing("e1", app="gone")))
    talk.nodes(an_update("n1", an_existing("e2", "other", app="gone")))
    talk.nodes(an_update("n1"))
    assert unclaimed(talk) == [("e1", "n1", 10), ("e2", "n1", 10)]


def test_an_update_may_report_it_anew() -> None:
    talk = a_conversation(a_node("n1", ROOM), a_node("n2", ROOM))
    talk.nodes(an_update("n1", an_existing("e1", app="gone")))
    assert of(UnclaimedEnded, talk.nodes(an_update("n1", an_existing("e1", app="gone")))) == []
    facts = talk.nodes(an_update("n2", an_existing("e9", app="gone", memory=30)))
    ended = only(UnclaimedEnded, facts)
    assert (ended.uuid, ended.cause, ended.confirm) == ("e1", UnclaimedEnd.REPORTED_ANEW, False)
    assert unclaimed(talk) == [("e9", "n2", 30)], "it is the one of its key"
    talk.nodes(an_update("n1", an_existing("e1", app="gone"), an_existing("e9", app="gone", memory=5)))
    assert unclaimed(talk) == [("e1", "n1", 10), ("e9", "n1", 5)], "those of one report are different ones"


def test_an_update_may_report_one_with_a_mistake_as_it_is() -> None:
    talk = with_a_mistake()
    facts = talk.nodes(an_update("n1", an_existing("e2", "k", app="late")))
    assert only(UnclaimedEnded, facts).cause is UnclaimedEnd.JOINED
    assert only(Allocated, facts).uuid == "e2"
    assert unclaimed(talk) == []


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (an_existing("e2", app="gone", memory=-1), RejectCode.INVALID_RESOURCES),
        (an_existing("e2", app="gone", memory=0), RejectCode.INVALID_RESOURCES),
        (an_existing("", app="gone"), RejectCode.EMPTY_ID),
        (an_existing("e2", app=""), RejectCode.EMPTY_ID),
        (an_existing("e2", app="gone", node_id="other"), RejectCode.INVALID_FIELD),
        (an_existing("e1", app="gone"), RejectCode.DUPLICATE_ID),
        (an_existing("e1"), RejectCode.DUPLICATE_ID),
    ],
)
def test_one_that_cannot_be_right_rejects_its_node(bad: ExistingAllocation, code: RejectCode) -> None:
    talk = a_conversation(a_node("n1", ROOM, an_existing("e1", app="gone")))
    facts = talk.nodes(a_node("n2", ROOM, an_existing("e5", app="gone"), bad))
    assert facts == [only(NodeRejected, facts)]
    assert only(NodeRejected, facts).code is code
    assert unclaimed(talk) == [("e1", "n1", 10)]


@pytest.mark.parametrize("bad", [an_existing("e1", "other", app="gone"), an_existing("e1", app="app")])
def test_an_update_may_not_make_another_one_of_its_uuid(bad: ExistingAllocation) -> None:
    talk = a_conversation(a_node("n1", ROOM, an_existing("e1", app="gone")))
    assert only(NodeRejected, talk.nodes(an_update("n1", bad))).code is RejectCode.DUPLICATE_ID


def test_a_step_joins_so_many_and_the_next_steps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "TAKEN_MAX", 2)
    talk = a_conversation()
    talk.nodes(a_node("n1", ROOM, *(an_existing(f"e{number}", f"k{number}", app="late") for number in range(3))))
    talk.asks(an_ask("k", app="late"))
    joined = [[one.uuid for one in of(Allocated, talk.apps(an_app("late")))]]
    assert talk.release(application_id="late") == [], "it waits behind what waited for the application"
    assert only(UnclaimedEnded, talk.release(application_id="late", uuid="e2")).cause is UnclaimedEnd.RELEASED
    while (deadline_ns := talk.scheduler.next_deadline_ns()) == talk.now_ns + 1 and deadline_ns is not None:
        facts = talk.sleep(1)
        joined.append([one.uuid for one in of(Released, facts)])
    assert joined == [["e0", "e1"], ["e0", "e1"]]


def test_one_that_is_left_when_its_application_goes_again_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "TAKEN_MAX", 1)
    talk = a_conversation(timeouts=Timeouts(completing_ns=1))
    talk.nodes(a_node("n1", ROOM, an_existing("e1", "k1", app="late"), an_existing("e2", "k2", app="late")))
    talk.apps(an_app("late"))
    assert len(unclaimed(talk)) == 1
    facts = talk.remove("late")
    assert [one.uuid for one in of(UnclaimedEnded, facts)] == ["e2"]
    assert talk.scheduler.next_deadline_ns() is not None
    talk.sleep(1)
    assert unclaimed(talk) == []


@pytest.mark.parametrize("ask_comes_first", [True, False])
def test_it_counts_for_the_affinities_of_others(ask_comes_first: bool) -> None:
    """Its pod runs there, whoever it belongs to."""
    talk = a_conversation(a_node("n1", {"memory": 1000}), a_node("n2", ROOM))
    beside_none = PlacementConstraint(
        allocations=Affinity("si/hostname", (Expression("app", Operator.IN, ("db",)),), 0, 1)
    )
    if ask_comes_first:
        talk.asks(an_ask("first", tags={"app": "db"}, constraint=beside_none))
        talk.schedule()
        talk.release(allocation_key="first")
    talk.nodes(an_update("n1", an_existing("e1", app="gone", tags={"app": "db"})))
    talk.asks(an_ask("second", tags={"app": "db"}, constraint=beside_none))
    assert placed(talk.schedule()) == [("app", "second", "n2")]
    talk.release(application_id="gone")
    talk.asks(an_ask("third", tags={"app": "db"}, constraint=beside_none))
    assert placed(talk.schedule()) == [("app", "third", "n1")]
