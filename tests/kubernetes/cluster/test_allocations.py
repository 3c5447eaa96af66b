"""From the allocation to the bound pod and its end; what fails on the way; what the daemon wants back."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.effects import (
    Ask,
    Bind,
    ConfirmRelease,
    DeletePod,
    PatchPodCondition,
    PodName,
    RecordEvent,
    ReleaseAllocation,
    UpdateNode,
)
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    AllocationReleased,
    BindEnded,
    BindResult,
    Cause,
    DeleteEnded,
    Put,
    ReleaseWanted,
)
from schedulerd.kubernetes.objects.cluster import BetaPodDisruptionBudget, PodDisruptionBudget
from schedulerd.kubernetes.objects.decode import convert
from tests.kubernetes.builders import (
    app,
    bound,
    containers,
    daemon_set,
    for_node,
    node,
    owned_by_daemon_set,
    placed,
    ports,
    terminating,
)
from tests.kubernetes.cluster.play import Play, of, own, the_ask

APP = app("yunikorn-ns-autogen")
SELECTOR, PREDICATES = "schedulerd.io/node-selector", "schedulerd.io/predicates"
POD = PodName("ns", "p", "p")


@pytest.fixture
def play() -> Play:
    play = Play()
    play.start(node("n", cpu="2"), node("m", cpu="2"))
    return play


def wanted(cause: Cause = Cause.PREEMPTED) -> ReleaseWanted:
    return ReleaseWanted(APP, "p", "u-p", cause, "for q")


def test_an_allocation_is_bound_and_its_end_released(play: Play) -> None:
    play.put(own("p"))
    assert play.allocate("p", "n") == [Bind(POD, "n")]
    (event,) = play.all(BindEnded("p", "n", BindResult.DONE))
    assert isinstance(event, RecordEvent)
    assert (event.reason, event.note) == ("Scheduled", "Successfully assigned ns/p to n")
    assert play.put(own("p", meta={"annotations": {"late": "event"}})) == []
    assert play.put(placed(own("p"), "n")) == []
    assert play.gone(placed(own("p"), "n"))[0] == ReleaseAllocation(APP, "p", "u-p")


@pytest.mark.parametrize("result", [BindResult.UNKNOWN, BindResult.FAILED])
def test_the_watch_may_be_faster_than_the_answer(play: Play, result: BindResult) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    assert play.put(placed(own("p"), "n")) == []
    assert [type(one) for one in play.all(BindEnded("p", "n", result))] == []
    assert play.wait(10) == []


def test_what_is_allocated_to_nobody_is_given_back(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    for late in (Allocated(APP, "p", "u2", "m"), Allocated(APP, "gone", "u3", "m")):
        (effect,) = play.tell(late)
        assert isinstance(effect, ReleaseAllocation)
        assert effect.uuid == late.uuid


def test_two_pods_with_one_port_in_one_batch(play: Play) -> None:
    for name in ("p", "q"):
        play.put(own(name, containers=ports({"hostPort": 80})))
    first, second = Allocated(APP, "p", "u-p", "n"), Allocated(APP, "q", "u-q", "n")
    bind, release, ask = play.tell(first, second)
    assert bind == Bind(POD, "n")
    assert isinstance(release, ReleaseAllocation)
    assert (release.key, release.uuid) == ("q", "u-q")
    assert "free ports" in release.message
    assert isinstance(ask, Ask)
    assert ask.key == "q"
    assert ask.asked_at_ns > 0, "its age survives"
    assert play.cluster.predicates("q", "n", allocate=True) is not None
    assert play.cluster.predicates("q", "m", allocate=True) is None


def test_a_pod_that_does_not_fit_is_asked_for_with_questions_about_room(play: Play) -> None:
    play.put(own("p"), bound("foreign", "n", containers=containers({"cpu": "2"})))
    release, ask = play.allocate("p", "n")
    assert isinstance(release, ReleaseAllocation)
    assert isinstance(ask, Ask)
    assert PREDICATES not in ask.tags
    assert play.cluster.predicates("p", "n", allocate=True) == "Insufficient cpu"
    assert play.cluster.predicates("p", "m", allocate=True) is None


def test_a_node_that_refuses_twice_is_left_out_for_a_while(play: Play) -> None:
    """The daemon may know less of the node for a while, and would allocate it again at once."""
    play.put(own("p", cpu="100"))
    for _ in range(2):
        ask = the_ask(play.allocate("p", "n"))
    assert "si/hostname notin (n)" in ask.tags["schedulerd.io/node-selector"]
    assert "notin" not in the_ask(play.wait(2)).tags["schedulerd.io/node-selector"]


def test_a_bind_that_fails_is_tried_elsewhere_for_two_seconds(play: Play) -> None:
    selector = the_ask(play.put(own("p"))).tags[SELECTOR]
    play.allocate("p", "n")
    release, ask = play.tell(BindEnded("p", "n", BindResult.FAILED, "no"))
    assert release == ReleaseAllocation(APP, "p", "u-p", "no")
    assert isinstance(ask, Ask)
    assert ask.tags[SELECTOR] == f"{selector},si/hostname notin (n)"
    assert play.wait(1) == []
    assert the_ask(play.wait(1)).tags[SELECTOR] == selector
    assert play.allocate("p", "m", "u2") == [Bind(POD, "m")]


def test_a_bind_that_fails_again_and_again_is_tried_less_and_less_often(play: Play) -> None:
    play.put(own("p"))
    waits = []
    for _ in range(7):
        play.allocate("p", "n")
        play.tell(BindEnded("p", "n", BindResult.FAILED, "no"))
        waits.append(next(seconds for seconds in range(1, 100) if play.wait(1)))
    assert waits == [2, 4, 8, 16, 32, 60, 60]


def test_a_daemon_pod_has_no_other_node_and_waits(play: Play) -> None:
    daemon = own("p", meta=owned_by_daemon_set(), affinity=for_node("n"))
    play.put(daemon_set(), daemon)
    for seconds in (2, 4, 8):
        play.allocate("p", "n")
        assert play.tell(BindEnded("p", "n", BindResult.FAILED, "no")) == [ReleaseAllocation(APP, "p", "u-p", "no")]
        assert play.put(daemon) == play.wait(seconds - 1) == []
        assert the_ask(play.wait(1)).tags["yunikorn.apache.org/requiredNode"] == "n"
    assert play.allocate("p", "n") == [Bind(POD, "n")]


def test_an_ask_from_before_the_confirmed_release_is_repeated(play: Play) -> None:
    """A daemon that has lost its state meanwhile was told of the allocation, and took the ask for its resize."""
    play.put(own("p"))
    play.allocate("p", "n")
    _, ask = play.tell(BindEnded("p", "n", BindResult.FAILED, "no"))
    assert play.tell(AllocationReleased(APP, "p", "u-p")) == [ask]
    play.allocate("p", "m", "u2")
    assert play.tell(AllocationReleased(APP, "p", "u-p")) == []


def test_a_bind_of_unknown_end_is_repeated(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    assert play.tell(BindEnded("p", "n", BindResult.UNKNOWN)) == []
    assert play.wait(5) == [Bind(POD, "n")]
    assert play.tell(BindEnded("p", "n", BindResult.DONE)) == []


def test_a_pod_that_is_gone_when_it_is_bound_is_not_asked_for_again(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    (release,) = play.tell(BindEnded("p", "n", BindResult.GONE))
    assert isinstance(release, ReleaseAllocation)
    assert not of(play.gone(own("p")), ReleaseAllocation)


def test_a_preempted_pod_is_deleted_and_confirmed_when_it_is_gone(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    condition, delete = play.tell(wanted())
    assert condition == PatchPodCondition(POD, "DisruptionTarget", True, "PreemptionByScheduler", "for q", True)
    assert delete == DeletePod(POD)
    ending = terminating(placed(own("p"), "n"))
    assert play.put(ending) == []
    assert play.gone(ending)[0] == ConfirmRelease("u-p")


def test_a_server_that_knows_no_disruption_condition_gets_none() -> None:
    play = Play(has_disruption_condition=False)
    play.start(node("n", cpu="2"))
    play.put(own("p"))
    play.bind("p", "n")
    assert play.tell(wanted()) == [DeletePod(POD)]


def test_a_pod_that_ends_by_itself_confirms_the_release_too(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    ending = terminating(placed(own("p"), "n"))
    play.put(ending)
    assert play.tell(wanted()) == [], "it is being deleted already"
    assert play.gone(ending)[0] == ConfirmRelease("u-p")


def test_the_release_of_a_pod_that_is_gone_is_confirmed_at_once(play: Play) -> None:
    assert play.tell(wanted()) == [ConfirmRelease("u-p")]


def test_a_deletion_that_fails_is_repeated(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    play.tell(wanted(Cause.TIMEOUT))
    assert play.tell(DeleteEnded("p", is_done=False, message="no")) == []
    assert play.wait(5) == [DeletePod(POD)]
    assert play.tell(DeleteEnded("p", is_done=True)) == []
    assert play.wait(60) == []


def test_the_end_of_another_pod_lifts_refusals(play: Play) -> None:
    port = ports({"hostPort": 80})
    play.put(bound("a", "n", containers=port), bound("b", "m", containers=port))
    ask = the_ask(play.put(own("p", containers=port)))
    assert play.cluster.predicates("p", "n", allocate=True) is not None
    play.gone(bound("a", "n", containers=port))
    assert play.wait(1) == [ask]
    assert play.wait(60) == []


def test_foreign_pods_are_occupied(play: Play) -> None:
    foreign = bound("f", "n", containers=containers({"cpu": "1"}))
    assert play.put(foreign) == [UpdateNode("n", occupied={"vcore": 1000, "pods": 1})]
    assert play.put(foreign) == []
    assert play.put(bound("f", "n", containers=containers({"cpu": "2"}))) == [
        UpdateNode("n", occupied={"vcore": 2000, "pods": 1})
    ]
    assert play.gone(foreign) == [UpdateNode("n", occupied={})]


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    selector = {"matchLabels": {"app": app}}
    metadata = {"name": app, "namespace": "ns"}
    said = {"metadata": metadata, "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed}}
    return convert(PodDisruptionBudget, said)


def test_victims_and_budgets(play: Play) -> None:
    for name in ("p", "q"):
        play.put(own(name, cpu="1", meta={"labels": {"queue": "root.q", "app": name}}))
        play.bind(name, "n")
    play.put(own("r", cpu="2"))
    assert play.cluster.preemption_predicates("r", "n", ["p", "q"], 0) == 1
    assert play.cluster.preemption_predicates("r", "n", ["p"], 0) is None
    assert play.cluster.preemption_predicates("unknown", "n", ["p"], 0) is None
    play.put(budget("q", allowed=0))
    assert play.cluster.preemption_predicates("r", "n", ["p", "q"], 0) is None
    play.put(budget("q", allowed=1))
    assert play.cluster.preemption_predicates("r", "n", ["p", "q"], 0) == 1


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_budget_that_is_gone_or_covers_nothing_any_longer_keeps_no_victim(play: Play, is_gone: bool) -> None:
    play.put(own("q", cpu="2", meta={"labels": {"queue": "root.q", "app": "q"}}))
    play.bind("q", "n")
    play.put(own("r", cpu="2"), budget("q", allowed=0))
    assert play.cluster.preemption_predicates("r", "n", ["q"], 0) is None
    if is_gone:
        play.gone(budget("q", allowed=0))
    else:  # as servers before 1.21 mean it
        play.put(convert(BetaPodDisruptionBudget, {"metadata": {"name": "q", "namespace": "ns"}}))
    assert play.cluster.preemption_predicates("r", "n", ["q"], 0) == 0


def test_an_allocation_that_goes_with_its_node(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    play.gone(node("n"))
    assert play.tell(AllocationReleased(APP, "p", "u-p")) == []
    assert not of(play.gone(placed(own("p"), "n")), ReleaseAllocation)


def test_events_of_a_pod_that_is_assumed_change_nothing(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    assert play.all(Put(own("p", meta={"annotations": {"a": "b"}}))) == []
