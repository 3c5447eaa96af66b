"""What the shim says of a pod that somebody asks the daemon about, and that the daemon has no ask of."""

from __future__ import annotations

import msgspec
import pytest

from schedulerd.kubernetes.cluster import ended_pods, pod_enquiry
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import node, terminating
from tests.kubernetes.cluster.gang_play import grouped, grouping, pod_group
from tests.kubernetes.cluster.play import Play, own


def asked(play: Play, name: str, namespace: str = "ns") -> str:
    work = play.cluster.about_pod(namespace, name)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)


def in_phase(pod: Pod, phase: str) -> Pod:
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))


def test_a_pod_waits_for_its_group_and_then_for_the_other_members() -> None:
    play = grouping()
    play.put(grouped("p0"))
    assert asked(play, "p0") == "Waits: 0/1 nodes are available: PodGroup 'pg' not found."
    play.put(pod_group(3))
    play.wait(3)
    assert "1 of 3" in asked(play, "p0")
    assert asked(play, "p1") == asked(play, "p0", "other") == ""


def test_a_pod_waits_for_its_gates() -> None:
    play = Play()
    play.start(node("n"))
    play.put(own("p", schedulingGates=[{"name": "a.io/x"}, {"name": "b.io/y"}]))
    assert asked(play, "p") == "Waits until its scheduling gates are removed: a.io/x, b.io/y."


def test_a_pod_that_is_being_deleted_says_so() -> None:
    play = Play()
    play.start(node("n"))
    play.put(own("p"))
    play.put(terminating(own("p")))
    assert asked(play, "p").startswith("Is being deleted.")


def test_a_pod_whose_application_was_rejected_says_why() -> None:
    play = Play()
    play.start(node("n"))
    play.put(own("p", meta={"labels": {"queue": "root.nosuch"}}))
    (application,) = play.cluster.model.applications
    play.tell(v.ApplicationRejected(application, "queue root.nosuch does not exist; leaf queues are root.free"))
    assert asked(play, "p") == (
        "ns/p was rejected at 00:00: queue root.nosuch does not exist. Correct its label queue; tried again in 60 s. "
        "Its application is yunikorn-ns-autogen."
    )


def test_a_pod_that_has_ended_or_was_deleted_is_not_unknown() -> None:
    play = Play()
    play.start(node("n"))
    for name in ("done", "deleted", "waiting"):
        play.put(own(name))
    for name in ("done", "deleted"):
        play.bind(name, "n")
        assert asked(play, name).startswith("Has its node: n.")
    there = play.cluster.model.pods
    play.put(in_phase(there["done"].pod, "Succeeded"))
    play.gone(there["deleted"].pod, there["waiting"].pod)
    assert asked(play, "done").startswith("Has ended on node n: Succeeded. Its application was ")
    assert asked(play, "deleted").startswith("Was deleted on node n. Its application was ")
    assert asked(play, "waiting").startswith("Was deleted before it had a node. ")
    play.put(own("waiting"))
    assert asked(play, "waiting").startswith("Waits")


def test_the_newest_pods_that_have_ended_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_pods, "ENDED_MAX", 2)
    play = Play()
    play.start(node("n"))
    for name in ("a", "b", "c"):
        play.put(own(name))
        play.gone(own(name))
    assert len(play.cluster.model.ended_pods) == 2
    assert [bool(asked(play, name)) for name in ("a", "b", "c")] == [False, True, True]


def test_looking_for_a_pod_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_enquiry, "PODS_A_TURN", 10)
    play = Play()
    play.start(*(own(f"p{number}") for number in range(35)))
    assert sum(1 for _ in play.cluster.about_pod("ns", "nobody")) == 3
