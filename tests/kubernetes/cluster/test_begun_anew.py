"""Applications whose pods have left, and pods that come then and say something else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import app
from tests.kubernetes.cluster.gang_play import accepted, made, member, started, whole
from tests.kubernetes.cluster.play import Play, of, own


def in_queue(name: str, queue: str, **meta: Any) -> Pod:
    return own(name, meta={"labels": {"applicationId": "a", "queue": queue}, **meta})


def declaring(name: str, cpu: str, placeholders: str = "none", queue: str = "root.q") -> Pod:
    group = {"name": "g", "minMember": 1, "minResource": {"cpu": cpu}}
    said = {"task-groups": json.dumps([group]), "task-group-name": "g", "placeholders": placeholders}
    return in_queue(name, queue, annotations={f"schedulerd.io/{key}": text for key, text in said.items()})


def added(effects: list[e.Effect]) -> list[tuple[str, int]]:
    return [(one.queue, whole(one)) for one in of(effects, e.AddApplication)]


def rejected(*pods: Pod) -> Play:
    play = started()
    play.put(*pods)
    play.tell(v.ApplicationRejected(app("a"), "queue root.wrong does not exist"))
    return play


def waiting_gang(placeholders: str) -> Play:
    """Its placeholder fits nowhere, and its only pod has left."""
    play = started()
    pod = declaring("p0", "500", placeholders)
    created = accepted(play, play.put(pod))
    play.put(*(made(one) for one in created))
    play.tell(v.ApplicationUpdated(app("a"), "Accepted", ""))
    play.gone(pod)
    return play


def test_a_corrected_queue_counts_at_once() -> None:
    wrong = in_queue("p0", "root.wrong")
    play = rejected(wrong)
    play.gone(wrong)
    effects = play.put(in_queue("p1", "root.q"))
    assert added(effects) == [("root.q", 0)]
    assert [ask.key for ask in of(effects, e.Ask)] == ["p1"]


def test_without_the_pod_with_the_wrong_queue_the_others_are_placed() -> None:
    wrong = in_queue("p0", "root.wrong")
    play = rejected(wrong, in_queue("p1", ""), in_queue("p2", ""))
    effects = [*play.gone(wrong), *play.wait(1)]
    assert added(effects) == [("", 0)], "placement rules decide"
    assert [ask.key for ask in of(effects, e.Ask)] == ["p1", "p2"]


def test_a_rejected_application_is_submitted_again_as_its_first_pod_says() -> None:
    play = rejected(declaring("p0", "500"), in_queue("p1", "root.wrong"), in_queue("p2", "root.q"))
    play.gone(declaring("p0", "500"))
    play.tell(v.ApplicationRejected(app("a"), "it does not exist"))
    effects = [*play.gone(in_queue("p1", "root.wrong")), *play.wait(2)]
    assert added(effects) == [("root.q", 0)]
    assert [ask.key for ask in of(effects, e.Ask)] == ["p2"]


def test_a_rejected_application_without_the_pods_of_before_is_submitted_again_less_and_less_often() -> None:
    """A controller that makes pods with two wrong queues would have all of them asked for with each that it deletes."""
    pods = [in_queue(f"p{number}", f"root.wrong{number % 2}") for number in range(20)]
    play = rejected(*pods)
    times_s: list[float] = []
    for wrong in pods[:8]:
        effects = play.gone(wrong)
        while not added(effects):
            play.now_ns += SECOND_NS // 2
            effects = play.tell(v.Tick())
        times_s.append(play.now_ns / SECOND_NS)
        play.tell(v.ApplicationRejected(app("a"), "it does not exist"))
    assert times_s == [1, 3, 7, 15, 31, 63, 123, 183]


def test_a_corrected_application_that_is_rejected_waits_as_a_new_one() -> None:
    pods = [in_queue(f"p{number}", f"root.wrong{number}") for number in range(3)]
    play = rejected(*pods)
    for _ in range(4):
        play.wait(1800)
        play.tell(v.ApplicationRejected(app("a"), "it does not exist"))
    assert added([*play.gone(pods[0]), *play.wait(0)]) == [("root.wrong1", 0)], "the last try was long ago"
    play.tell(v.ApplicationRejected(app("a"), "it does not exist"))
    assert added(play.wait(59)) == []
    assert added(play.wait(1)) == [("root.wrong1", 0)]


def test_pods_of_another_user_that_wait_join_an_application_that_has_become_theirs() -> None:
    def of_user(name: str, user: str) -> Pod:
        return in_queue(name, "root.q", annotations={"schedulerd.io/user.info": json.dumps({"user": user})})

    play = started()
    first = of_user("a0", "ann")
    play.put(first, of_user("b0", "bob"))
    play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Running", ""))
    play.gone(first)
    effects = [*play.put(of_user("b1", "bob")), *play.wait(0)]
    assert [ask.key for ask in of(effects, e.Ask)] == ["b1", "b0"]


def test_the_answer_to_an_earlier_submission_does_not_reject_a_gang_that_is_formed() -> None:
    play = started()
    wrong = declaring("p0", "500", queue="root.wrong")
    play.put(wrong)
    play.gone(wrong)
    play.put(declaring("p1", "1"))
    play.tell(v.ApplicationRejected(app("a"), "queue root.wrong does not exist"))
    assert added(play.wait(1)) == [("root.q", 1)]


def test_timers_of_earlier_waits_do_not_count() -> None:
    play = rejected(in_queue("p0", "root.wrong"))
    quota = {"metadata": {"name": "ns", "annotations": {"schedulerd.io/namespace.quota": '{"cpu": "1"}'}}}
    play.wait(30)
    play.put(convert(Namespace, quota))
    play.tell(v.ApplicationRejected(app("a"), "queue root.wrong does not exist"))
    assert added(play.wait(59)) == []
    assert len(added(play.wait(1))) == 1
    play.tell(v.ApplicationRejected(app("a"), "queue root.wrong does not exist"))
    assert added(play.wait(119)) == []
    assert len(added(play.wait(1))) == 1


def test_a_pod_of_another_user_that_waits_takes_over_a_rejected_application_without_pods() -> None:
    wrong = in_queue("p0", "root.wrong", annotations={"schedulerd.io/user.info": '{"user": "ann"}'})
    other = in_queue("p1", "root.q", annotations={"schedulerd.io/user.info": '{"user": "bob"}'})
    play = rejected(wrong, other)
    assert added(play.gone(wrong)) == [("root.q", 0)]


def test_the_same_wrong_queue_waits_for_its_turn() -> None:
    wrong = in_queue("p0", "root.wrong")
    play = rejected(wrong)
    play.gone(wrong)
    assert added(play.put(in_queue("p1", "root.wrong"))) == [], "a controller may make pods without end"
    assert added(play.wait(60)) == [("root.wrong", 0)]


def test_corrected_task_groups_count() -> None:
    play = waiting_gang("always")
    effects = play.put(declaring("p1", "1", "always"))
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication(app("a"))]
    assert added(effects) == [], "asks of before may be under way"
    effects = play.wait(1)
    assert added(effects) == [("root.q", 1)]
    asks = of([*effects, *play.put(*map(made, accepted(play, effects)))], e.Ask)
    assert [(ask.is_placeholder, ask.resources["vcore"]) for ask in asks] == [(True, 1000), (False, 1000)]


def test_pods_that_declare_a_gang_no_longer_run_without_one() -> None:
    play = waiting_gang("none")
    effects = play.put(in_queue("p1", "root.q"))
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication(app("a"))]
    assert added(effects) == [("root.q", 0)]
    assert [(ask.key, ask.task_group) for ask in of(effects, e.Ask)] == [("p1", "")]


@pytest.mark.parametrize("again", [declaring("p1", "500"), member("p1", task_groups="")])
def test_the_same_gang_goes_on(again: Pod) -> None:
    """Declared alike, or joined by a pod that only names its task group."""
    play = waiting_gang("none")
    effects = play.put(again)
    assert of(effects, e.RemoveApplication) == []
    assert added(effects) == []


@pytest.mark.parametrize("placeholders", ["always", "none"])
def test_in_one_step_with_the_end_of_the_last_pod(placeholders: str) -> None:
    play = started()
    first = declaring("p0", "500", placeholders)
    held = [made(one) for one in accepted(play, play.put(first))]
    play.put(*held)
    play.tell(v.ApplicationUpdated(app("a"), "Accepted", ""))
    effects = play.tell(v.Gone(first), v.Put(declaring("p1", "1", placeholders)))
    assert [one.pod.uid for one in of(effects, e.DeletePod)] == [one.metadata.uid for one in held]
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication(app("a"))]
    assert {one.key for one in of(effects, e.ReleaseAsk)} == {"p0", *(one.metadata.uid for one in held)}
    assert added(play.wait(1)) == [("root.q", 1)]
