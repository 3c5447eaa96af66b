"""Writes about pods that did not reach the API server: they are made again, as long as they are true."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.reasons.waiting import State, Waiting
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.gang_play import made, member, started
from tests.kubernetes.cluster.play import Play, of, own
from tests.kubernetes.reasons.reader import FAILED, Reader

TURN = Waiting(State.READY, queue="root.q")


def failed_gang() -> tuple[Play, list[e.FailPod]]:
    """Two pods of a Hard gang whose time is over."""
    play = started()
    pods = [member(name, style="Hard") for name in ("w0", "w1")]
    effects = play.put(*pods) + play.tell(v.ApplicationAccepted(app("a")))
    play.put(*(made(one) for one in of(effects, e.CreatePod)))
    return play, of(play.tell(v.ApplicationUpdated(app("a"), "Failed", "no room")), e.FailPod)


def test_a_pod_is_failed_again_until_it_has_ended() -> None:
    play, (first, second) = failed_gang()
    assert play.tell(v.FailEnded("w0", False, "denied"), v.FailEnded("w1", True)) == []
    assert play.wait(4) == []
    assert of(play.wait(2), e.FailPod) == [first]
    play.tell(v.FailEnded("w0", False, "denied"))
    assert of(play.wait(9), e.FailPod) == [], "less and less often"
    assert of(play.wait(2), e.FailPod) == [first]
    assert (first.pod.name, second.pod.name) == ("w0", "w1")
    play.tell(v.FailEnded("w0", False, "denied"))
    play.gone(member("w0", style="Hard"))
    assert of(play.wait(1_000), e.FailPod) == []


def test_a_pod_that_is_to_fail_is_not_asked_for_and_gets_no_condition() -> None:
    play, _ = failed_gang()
    effects = play.all(v.FailEnded("w0", False), v.Put(member("w0", style="Hard", cpu="2")))
    for _ in range(100):
        play.now_ns = play.cluster.next_due_ns or play.now_ns
        effects += play.all(v.Tick())
    assert not [one for one in effects if isinstance(one, e.PatchPodCondition | e.Ask | e.AddApplication)]
    assert play.cluster.model.pods["w0"].state is PodState.LEAVING


@pytest.fixture
def reader() -> Reader:
    """A pod whose condition says that no node has room."""
    reader = Reader()
    reader.start(node("n", cpu="1"), node("m"))
    reader.pod()
    reader.say("p", FAILED)
    reader.pass_time(1)
    assert reader.told()[0] == "Unschedulable"
    reader.writes.clear()
    return reader


def lost(reader: Reader, name: str = "p") -> v.ConditionLost:
    """The last condition of the pod."""
    reason, message = reader.told(name)
    return v.ConditionLost(name, "PodScheduled", reason, message)


def test_a_condition_that_was_lost_is_written_again(reader: Reader) -> None:
    reader.all(lost(reader))
    reader.pass_time(9)
    assert reader.writes == [], "the server may refuse it for a while"
    reader.pass_time(100)
    assert [kind for _, kind, _ in reader.writes] == ["condition"]


def test_a_condition_that_was_lost_before_a_newer_one_is_over(reader: Reader) -> None:
    old = lost(reader)
    reader.pass_time(5)
    reader.say("p", TURN)
    reader.writes.clear()
    reader.all(old, v.ConditionLost("gone", *old.__struct_fields__[1:]))
    reader.pass_time(100)
    assert [kind for _, kind, _ in reader.writes] == []
    assert reader.told()[0] == "SchedulingSkipped"


def test_a_condition_that_a_binding_has_withdrawn_is_written_when_the_binding_fails(reader: Reader) -> None:
    reader.allocate("p", "m")
    reader.all(lost(reader))
    reader.pass_time(20)
    reader.all(v.BindEnded("p", "m", v.BindResult.FAILED, "denied"))
    reader.writes.clear()
    reader.say("p", FAILED)
    reader.pass_time(5)
    assert [kind for _, kind, _ in reader.writes] == ["condition"], "it is the same as before"


def test_a_binding_that_is_done_leaves_nothing_to_be_written(reader: Reader) -> None:
    old = lost(reader)
    reader.bind("p", "m")
    reader.writes.clear()
    reader.all(old, v.Put(placed(own(), "m")))
    reader.pass_time(100)
    assert reader.writes == []


def test_what_a_pod_waited_for_before_it_was_allocated_is_not_told_again(reader: Reader) -> None:
    reader.allocate("p", "m")
    reader.writes.clear()
    reader.all(v.BindEnded("p", "m", v.BindResult.FAILED, "denied"))
    reader.pass_time(9)
    assert "condition" not in [kind for _, kind, _ in reader.writes]
    reader.pass_time(2)
    assert reader.told()[1] == "Waiting for the scheduler to look at it."


def test_a_lost_condition_about_task_groups_is_written_again() -> None:
    play = started()
    bad = own(meta={"labels": {"applicationId": "a"}, "annotations": {"schedulerd.io/task-groups": "[{}]"}})
    (told,) = of(play.put(bad), e.PatchPodCondition)
    assert told.type == "schedulerd.io/Gang"
    play.tell(v.ConditionLost("p", told.type, told.reason, told.message))
    assert of(play.wait(9), e.PatchPodCondition) == []
    assert of(play.wait(2), e.PatchPodCondition) == [told]
    assert of(play.wait(100), e.PatchPodCondition) == []
