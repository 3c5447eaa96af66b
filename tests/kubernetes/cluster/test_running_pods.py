"""Pods that run where the daemon has not placed them: reported with their node, or with an update of it."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.effects import (
    AddApplication,
    ConfirmRelease,
    CreateNode,
    ExistingAllocation,
    RecordEvent,
    ReleaseAllocation,
    ReleaseAsk,
    UpdateNode,
)
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    AllocationReleased,
    ApplicationAccepted,
    ApplicationRejected,
    BindEnded,
    BindResult,
    Cause,
    NodeAccepted,
    NodeRejected,
    ReleaseWanted,
    ReportBegun,
)
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.play import Play, of, own, the_ask, the_node

APP = app("yunikorn-ns-autogen")
AMOUNTS = {"vcore": 1000, "pods": 1}


def runs(key: str = "p", uuid: str = "") -> ExistingAllocation:
    return ExistingAllocation(APP, key, uuid or key, AMOUNTS, 0, {})


@pytest.fixture
def play() -> Play:
    play = Play()
    play.start(node("n", cpu="2"), node("m", cpu="2"))
    return play


@pytest.fixture
def silent() -> Play:
    """The daemon answers only what the test says."""
    play = Play()
    play.accepts_nodes = False
    return play


def test_a_pod_that_comes_with_a_node_is_reported_with_an_update(play: Play) -> None:
    added, update = play.put(placed(own("p"), "n"))
    assert isinstance(added, AddApplication)
    assert added.tags["application.create.force"] == "true"
    assert update == UpdateNode("n", existing=(runs(),))
    assert play.put(placed(own("p"), "n")) == []
    assert play.gone(placed(own("p"), "n"))[0] == ReleaseAllocation(APP, "p", "p")


def test_a_pod_that_waits_and_is_bound_by_somebody_else(play: Play) -> None:
    play.put(own("p"))
    assert play.put(placed(own("p"), "m")) == [ReleaseAsk(APP, "p"), UpdateNode("m", existing=(runs(),))]
    late = play.tell(Allocated(APP, "p", "u", "n"))
    assert late == [ReleaseAllocation(APP, "p", "u", "the pod needs no node any longer")]


def test_an_allocation_moves_to_the_node_on_which_the_pod_is(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    assert play.tell(BindEnded("p", "n", BindResult.ELSEWHERE, is_at="m")) == [
        UpdateNode("m", existing=(runs(uuid="u-p"),))
    ]
    assert play.put(placed(own("p"), "m")) == []
    assert play.gone(placed(own("p"), "m"))[0] == ReleaseAllocation(APP, "p", "u-p")


def test_an_allocation_that_is_wanted_back_moves_and_is_still_wanted_back(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    play.tell(ReleaseWanted(APP, "p", "u-p", Cause.PREEMPTED, ""))
    assert of(play.put(placed(own("p"), "m")), UpdateNode) == [UpdateNode("m", existing=(runs(uuid="u-p"),))]
    assert play.gone(placed(own("p"), "m"))[0] == ConfirmRelease("u-p")


def test_an_allocation_is_given_back_where_its_pod_is_on_a_node_that_the_daemon_does_not_have(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    assert play.put(placed(own("p"), "late")) == [ReleaseAllocation(APP, "p", "u-p", "the pod is on another node")]
    assert the_node(play.put(node("late"))).existing == (runs(),)


def test_a_release_that_nobody_asked_for_and_the_pod_still_runs(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    assert play.tell(AllocationReleased(APP, "p", "u-p")) == [UpdateNode("n", existing=(runs(),))]


def test_the_report_waits_for_the_answer_to_the_node(silent: Play) -> None:
    silent.start(node("n"))
    assert silent.put(placed(own("p"), "n")) == []
    assert silent.tell(NodeAccepted("n"))[-1] == UpdateNode("n", existing=(runs(),))


def test_a_release_that_may_have_overtaken_the_report_is_repeated(play: Play) -> None:
    play.put(placed(own("p"), "n"))
    release = ReleaseAllocation(APP, "p", "p")
    assert play.gone(placed(own("p"), "n"))[0] == release
    assert play.wait(5) == [release]
    play.tell(AllocationReleased(APP, "p", "p"))
    assert play.wait(60) == []


def test_a_confirmation_that_may_have_overtaken_the_report_is_followed_by_releases(play: Play) -> None:
    """The update of the node would bring the allocation back, whose release the daemon had wanted."""
    play.put(placed(own("p"), "n"))
    play.tell(ReleaseWanted(APP, "p", "p", Cause.PREEMPTED, ""))
    assert play.gone(placed(own("p"), "n"))[0] == ConfirmRelease("p")
    assert play.wait(5) == [ReleaseAllocation(APP, "p", "p")]
    play.tell(AllocationReleased(APP, "p", "p"))
    assert play.wait(60) == []


def test_a_pod_whose_report_is_rejected_is_occupied_and_tried_again(play: Play) -> None:
    play.put(placed(own("p"), "n"), placed(own("q"), "n"))
    reason = "existingAllocations[0] (allocationKey 'p'): no"
    effects = play.all(NodeRejected("n", reason, "p"))
    (event,) = of(effects, RecordEvent)
    assert (event.regarding.name, event.reason, event.note, event.is_warning) == ("n", "NodeRejected", reason, True)
    (update,) = of(effects, UpdateNode)
    assert update.occupied == AMOUNTS
    assert update.resources is not None, "nothing of the rejected update was done"
    assert update.existing == (runs("q"),)
    again = play.wait(5)
    assert of(again, UpdateNode) == [UpdateNode("n", occupied={}, existing=(runs(uuid="p-2"),))]


def test_an_update_that_is_rejected_for_no_pod_is_repeated_less_and_less_often(play: Play) -> None:
    for seconds in (5, 10):
        assert of(play.all(NodeRejected("n", "no")), UpdateNode) == []
        assert play.wait(seconds - 1) == []
        (update,) = play.wait(1)
        assert isinstance(update, UpdateNode)
        assert None not in (update.resources, update.occupied, update.attributes)


def test_a_rejected_node_is_reported_again_without_the_pod_that_is_to_blame(silent: Play) -> None:
    silent.start(placed(own("p"), "n"), placed(own("q"), "n"), node("n"))
    event, created = silent.all(NodeRejected("n", "existingAllocations[1] (allocationKey 'q'): no", "q"))
    assert isinstance(event, RecordEvent)
    assert isinstance(created, CreateNode)
    assert ([one.key for one in created.existing], created.occupied) == (["p"], AMOUNTS)
    assert silent.tell(NodeAccepted("n")) == []
    assert silent.wait(5) == [UpdateNode("n", occupied={}, existing=(runs("q", "q-2"),))]


def test_a_node_that_is_rejected_for_no_pod_comes_without_its_pods_and_they_follow(silent: Play) -> None:
    silent.start(placed(own("p"), "n"), node("n"))
    assert of(silent.all(NodeRejected("n", "no")), CreateNode) == []
    assert silent.put(node("n", labels={"a": "b"})) == []
    created = the_node(silent.wait(5))
    assert (created.existing, created.occupied) == ((), AMOUNTS)
    assert silent.tell(NodeAccepted("n")) == [UpdateNode("n", occupied={}, existing=(runs(uuid="p-2"),))]


def test_after_a_new_report_the_node_of_a_rejected_application_comes_back(play: Play) -> None:
    """The queue file has changed while the daemon was away: it rejects what it had before."""
    play.put(own("p"), own("q"))
    play.tell(ApplicationAccepted(APP))
    play.bind("p", "n")
    play.put(placed(own("p"), "n"))
    assert play.tell(ReportBegun((APP,), ("n", "m"))) == []
    play.accepts_nodes = False
    rejected = play.all(ApplicationRejected(APP, "queue root.q does not exist"))
    assert [one.reason for one in of(rejected, RecordEvent)] == ["ApplicationRejected"]
    effects = play.all(
        NodeRejected("n", f"existingAllocations[0] (allocationKey 'p'): application {APP} is not known", "p")
    )
    assert of(effects, RecordEvent)[0].reason == "NodeRejected"
    (created,) = of(effects, CreateNode)
    assert (created.existing, created.occupied) == ((), AMOUNTS)
    assert play.tell(NodeAccepted("n"), NodeAccepted("m")) == []
    effects = play.wait(60)
    (added,) = of(effects, AddApplication)
    assert added.tags["application.create.force"] == "true"
    assert the_ask(effects).key == "q"
    assert of(effects, UpdateNode)[-1] == UpdateNode("n", occupied={}, existing=(runs(),))


def test_a_pod_of_a_rejected_application_counts_once(play: Play) -> None:
    """The daemon keeps what was reported, without its application; the pod is resized, and ends."""
    play.put(own("p"))
    (report,) = of(play.put(placed(own("p"), "n")), UpdateNode)
    play.tell(ApplicationRejected(APP, "no"))
    larger = placed(own("p", cpu="2"), "n")
    effects = play.put(larger)
    (release,) = of(effects, ReleaseAllocation)
    assert release.uuid == report.existing[0].uuid
    assert of(effects, UpdateNode) == [UpdateNode("n", occupied={**AMOUNTS, "vcore": 2000})]
    assert of(play.wait(5), ReleaseAllocation) == [release], "the report may come after it"
    play.tell(AllocationReleased(APP, "p", release.uuid))
    assert of(play.gone(larger), UpdateNode) == [UpdateNode("n", occupied={})]


def test_after_a_new_report_only_answers_to_it_count(silent: Play) -> None:
    silent.start(node("n"), own("p"))
    silent.gone(own("p"))
    silent.put(own("q"))
    silent.tell(ReportBegun((APP,), ("n",)), ApplicationAccepted(APP), NodeAccepted("n"))
    assert silent.put(node("n", labels={"a": "b"})) != []
    application = silent.cluster.model.applications[APP]
    assert application.state.value == "accepted"


def test_what_an_earlier_daemon_has_rejected_is_tried_at_once_with_a_new_one(silent: Play) -> None:
    silent.start(node("n"), own("p"))
    silent.tell(ApplicationRejected(APP, "no"), NodeRejected("n", "no"))
    effects = silent.tell(ReportBegun((), ()))
    assert len(of(effects, AddApplication)) == len(of(effects, CreateNode)) == 1
    assert the_ask(effects).key == "p"
    assert silent.tell(ApplicationAccepted(APP), NodeAccepted("n")) == []
    assert silent.wait(300) == []


def test_the_late_answer_to_a_node_that_was_taken_for_rejected(silent: Play) -> None:
    """A rejected update of a node that was removed and came back is taken for the rejection of the latter."""
    silent.start(node("n"))
    silent.tell(NodeAccepted("n"))
    silent.gone(node("n"))
    silent.put(node("n"), placed(own("p"), "n"))
    silent.tell(NodeRejected("n", "no"))
    (update,) = silent.tell(NodeAccepted("n"))
    assert isinstance(update, UpdateNode)
    assert [one.key for one in update.existing] == ["p"]
