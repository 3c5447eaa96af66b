"""The report after a start, and nodes that come, go and come back with what runs on them."""

from __future__ import annotations

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
    NodeAccepted,
    Put,
    Resynced,
)
from tests.kubernetes.builders import bound, containers, node, placed
from tests.kubernetes.cluster.play import Play, own, the_node

APP = "yunikorn-ns-autogen"


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
    assert [added.application_id for added in report.applications] == [APP, "old"]
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
