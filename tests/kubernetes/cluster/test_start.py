"""The report after a start, and nodes that come, go and come back with what runs on them."""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.cluster.effects import (
    AddApplication,
    CreateNode,
    ExistingAllocation,
    ReleaseAllocation,
    RemoveApplication,
    RemoveNode,
    UpdateNode,
)
from schedulerd.kubernetes.cluster.events import (
    ApplicationAccepted,
    ApplicationUpdated,
    BindEnded,
    BindResult,
    NodeAccepted,
    Put,
    Resynced,
)
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.objects.pod import Pod, PodCondition
from schedulerd.kubernetes.reasons.waiting import State, Waiting
from tests.kubernetes.builders import app, bound, containers, node, placed
from tests.kubernetes.cluster.play import EPOCH_NS, Play, own, the_ask, the_node
from tests.kubernetes.reasons.reader import FAILED, Reader

APP = app("yunikorn-ns-autogen")


def test_everything_is_reported_by_age() -> None:
    old = {"creationTimestamp": "2025-01-01T00:00:00Z", "labels": {"applicationId": "old"}}
    report = Play().start(
        own("young"),
        own("old", meta=old),
        placed(own("runs"), "n"),
        bound("foreign", "n", containers=containers({"cpu": "3"})),
        node("n"),
        node("m"),
        placed(own("ended", meta={"labels": {"applicationId": "over"}}), "nowhere"),
    )
    assert [added.application_id for added in report.applications] == [APP, app("old")]
    assert report.applications[0].tags["application.create.force"] == "true"
    assert "application.create.force" not in report.applications[1].tags
    assert [ask.key for ask in report.asks] == ["old", "young"]
    assert all(ask.asked_at_ns for ask in report.asks)
    assert all(ask.tags["schedulerd.io/predicates"] == "preemption" for ask in report.asks)
    assert report.others == ()
    first, second = report.nodes
    assert (first.name, first.occupied) == ("n", {"vcore": 3000, "pods": 1})
    assert first.existing == (ExistingAllocation(APP, "runs", "runs", {"vcore": 1000, "pods": 1}, 0, {}),)
    assert (second.existing, second.occupied) == ((), {})
    (attribute,) = {ask.tags["schedulerd.io/node-selector"] for ask in report.asks}
    assert attribute in first.attributes


def waited(name: str, reason: str = "Unschedulable", at: str | None = None) -> Pod:
    """A pod of 2025 with a condition that says why it waits."""
    condition = PodCondition("PodScheduled", "False", reason, "no room", at)
    one = own(name, meta={"labels": {"queue": "root.q"}, "creationTimestamp": "2025-01-01T00:00:00Z"})
    return replace(one, status=replace(one.status, conditions=(condition,)))


def test_a_pod_is_as_old_as_its_condition_as_its_gates_may_have_been_lifted_late() -> None:
    late = "2025-06-01T00:00:00Z"
    report = Play().start(
        waited("said", at=late), waited("timeless"), waited("lifted", "SchedulingGated", late), node("n")
    )
    assert {ask.key: ask.asked_at_ns for ask in report.asks} == {
        "said": epoch_seconds(late) * SECOND_NS,
        "timeless": epoch_seconds("2025-01-01T00:00:00Z") * SECOND_NS,
        "lifted": 0,  # now
    }


def test_a_pod_that_is_asked_for_again_is_as_old_as_its_first_ask() -> None:
    play = Play()
    play.start(node("n"), node("m"), own("gated", schedulingGates=[{"name": "g"}]))
    play.wait(3600)
    assert the_ask(play.put(own("gated"))).asked_at_ns == 0, "now"
    play.wait(60)
    play.allocate("gated", "n")
    again = the_ask(play.tell(BindEnded("gated", "n", BindResult.FAILED, "no")))
    assert again.asked_at_ns == EPOCH_NS + 3600 * SECOND_NS
    assert the_ask(play.wait(2)).asked_at_ns == again.asked_at_ns


def test_the_first_condition_says_since_when_the_pod_waits() -> None:
    """So the next process knows it. What the API server writes of gates has no time."""
    reader = Reader()
    reader.start(node("n", cpu="1"))
    reader.pass_time(50)
    reader.all(Put(waited("p", "SchedulingGated")))
    reader.pass_time(5)
    reader.say("p", FAILED)
    reader.pass_time(5)
    told = reader.conditions["p"]
    assert told.is_transition
    assert told.since_ns == EPOCH_NS + 50 * SECOND_NS
    reader.all(Put(waited("p", told.reason, "2026-01-01T00:00:50Z")))
    reader.say("p", Waiting(State.READY, queue="root.q"))
    reader.pass_time(5)
    assert not reader.conditions["p"].is_transition


def test_a_pod_that_was_running_at_the_start_is_released_at_its_end() -> None:
    play = Play()
    play.start(placed(own("p"), "n"), node("n"))
    assert play.gone(placed(own("p"), "n"))[0] == ReleaseAllocation(APP, "p", "p")


def test_pods_wait_for_their_node() -> None:
    play = Play()
    play.start(placed(own("p"), "n"))
    added, created = play.put(node("n"))
    assert isinstance(added, AddApplication)
    assert added.tags["application.create.force"] == "true"
    assert isinstance(created, CreateNode)
    assert [one.key for one in created.existing] == ["p"]


def test_a_node_that_comes_back_has_its_pods_under_new_uuids() -> None:
    play = Play()
    play.start(placed(own("p"), "n"), node("n"))
    assert play.gone(node("n")) == [RemoveNode("n")]
    created = the_node(play.put(node("n")))
    assert [one.uuid for one in created.existing] == ["p-2"]
    assert play.gone(placed(own("p"), "n"))[0] == ReleaseAllocation(APP, "p", "p-2")


def test_after_a_new_report_of_the_client_idle_applications_go() -> None:
    play = Play()
    play.start(node("n"))
    play.put(own("p"))
    play.tell(ApplicationAccepted(APP), ApplicationUpdated(APP, "Running", ""))
    play.gone(own("p"))
    assert play.tell(Resynced()) == [RemoveApplication(APP)]


def test_nothing_is_told_before_the_start() -> None:
    play = Play()
    assert play.all(Put(node("n")), Put(own("p"))) == []
    assert play.gone(own("p"), node("n")) == []
    (report,) = [play.start()]
    assert (report.applications, report.nodes, report.asks) == ((), (), ())


def test_a_node_is_left_alone_until_the_daemon_has_answered() -> None:
    play = Play()
    play.accepts_nodes = False
    play.start(node("n"))
    assert play.put(node("n", labels={"a": "b"})) == []
    assert play.gone(node("n")) == []
    assert play.put(node("n", labels={"c": "d"})) == []
    removed, created = play.tell(NodeAccepted("n"))
    assert removed == RemoveNode("n")
    assert isinstance(created, CreateNode)
    assert created.attributes == {"c": "d", "si/hostname": "n"}
    assert play.put(node("n")) == []
    assert play.tell(NodeAccepted("n")) == [UpdateNode("n", attributes={"si/hostname": "n"})]
