"""Pods that come in the place of others while much of the application of before is still there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.applications import CREATION_TIME_TAG, FORCE_CREATE_TAG
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import app, placed
from tests.kubernetes.cluster.gang_play import accepted, made, member, started
from tests.kubernetes.cluster.play import Play, of, own


def named(name: str, user: str = "", namespace: str = "ns", at: int = 0, **annotations: str) -> Pod:
    said = {f"schedulerd.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    if user:
        said["schedulerd.io/user.info"] = json.dumps({"user": user})
    meta: dict[str, Any] = {"labels": {"applicationId": "a", "queue": "root.q"}, "annotations": said}
    return own(name, meta={**meta, "namespace": namespace, "creationTimestamp": f"2026-01-01T00:00:{at:02}Z"})


def waiting() -> tuple[Play, Pod]:
    """A gang of one pod, w0, and its placeholder, which is bound."""
    play = started()
    effects = play.put(member("w0", members=1))
    (pod,) = map(made, accepted(play, effects))
    play.put(pod)
    play.tell(v.ApplicationUpdated(app("a"), "Accepted", ""))
    play.bind(pod.metadata.uid, "n")
    play.put(placed(pod, "n"))
    return play, pod


def test_an_equal_pod_that_comes_with_the_end_of_the_last_one_gets_placeholders() -> None:
    """As with `kubectl delete` and `apply`, which the shim hears of together."""
    play, pod = waiting()
    old, new = (member(name, members=1) for name in ("w0", "w1"))
    play.all(v.Gone(old), v.Put(new))
    (created,) = of([*play.gone(placed(pod, "n")), *play.wait(1)], e.CreatePod)
    assert created.body["metadata"]["ownerReferences"][0]["name"] == "w1"


@pytest.mark.parametrize("namespace", ["ns", "other"])
def test_a_successor_is_added_as_it_says_and_not_as_a_placeholder_that_is_left(namespace: str) -> None:
    """With the force tag no quota and no ACL of its queue would count."""
    play, _ = waiting()
    play.gone(member("w0", members=1))
    successor = named("p", "bob", namespace, at=30)
    (added,) = of(play.put(successor), e.AddApplication)
    assert (added.user, added.tags["namespace"]) == ("bob", namespace)
    assert added.tags[CREATION_TIME_TAG] == str(epoch_seconds(successor.metadata.creation_timestamp))
    assert FORCE_CREATE_TAG not in added.tags


def test_a_late_end_of_the_application_of_before_fails_no_pod_of_its_successor() -> None:
    play = started()
    old = named("p")
    play.put(old)
    play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Running", ""))
    play.gone(old)
    play.put(member("w0", members=1, style="Hard"))
    assert play.all(v.ApplicationUpdated(app("a"), "Failed", "its queue was removed")) == []
    assert len(of(play.wait(1), e.AddApplication)) == 1


@pytest.mark.parametrize("is_quiet", [True, False])
def test_that_the_application_of_before_is_forgotten_is_nothing_to_its_successor(is_quiet: bool) -> None:
    """The daemon says so three days after its end, and its id may be in use."""
    play = started()
    play.put(named("p"))
    play.tell(v.ApplicationAccepted(app("a")))
    if not is_quiet:
        play.tell(v.ApplicationUpdated(app("a"), "Running", ""))
    assert play.all(v.ApplicationUpdated(app("a"), "Expired", "expireApplication")) == []
    assert of(play.wait(120), e.AddApplication) == []
    assert play.cluster.model.applications[app("a")].has_started is not is_quiet


def test_a_pod_of_another_user_does_not_stay_when_the_application_becomes_somebodys() -> None:
    play = started()
    first = named("p0")
    play.put(first, named("p1", "ann"), named("p2", "bob"))
    play.tell(v.ApplicationRejected(app("a"), "no"))
    effects = [*play.gone(first), *play.wait(1)]
    assert [one.user for one in of(effects, e.AddApplication)] == ["ann"]
    assert [ask.key for ask in of(effects, e.Ask)] == ["p1"]
    assert "p2" in play.cluster.model.applications[app("a")].others


def test_pods_that_wait_for_an_application_without_pods_come_at_once_when_the_daemon_does_not_take_it() -> None:
    play = started()
    first = named("p0", "ann")
    play.put(first, named("p1", "bob"))
    play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Running", ""))
    play.gone(first)
    effects = play.tell(v.ReportBegun((app("a"),), ()), v.ApplicationRejected(app("a"), "no such queue"))
    assert [(one.user, one.tags["namespace"]) for one in of(effects, e.AddApplication)] == [("bob", "ns")]


def test_a_pod_with_a_node_joins_the_application_when_it_becomes_one_of_its_namespace() -> None:
    play = started(application_ids=ApplicationIds.BARE)
    first = named("x", namespace="ns1")
    play.put(first)
    play.tell(v.ApplicationAccepted(app("a", "")), v.ApplicationUpdated(app("a", ""), "Running", ""))
    play.put(placed(named("y0", namespace="ns2"), "n"))
    play.gone(first)
    play.put(named("y1", namespace="ns2"))
    play.wait(1)
    assert list(play.cluster.model.applications[app("a", "")].pods) == ["y1", "y0"]


def test_a_pod_that_was_kept_by_one_that_is_gone_does_not_wait_for_ever() -> None:
    play = started()
    play.wait(30)
    said = (("A", "", 30), ("B", "ann", 30), ("C", "bob", 27))
    pods = [named(name, user, at=at, task_group_name="g") for name, user, at in said]
    for pod in pods:
        play.put(pod)
    play.wait(1)
    play.gone(pods[0])
    play.wait(1.5)
    play.gone(pods[1])
    assert [ask.key for ask in of(play.wait(10), e.Ask)] == ["C"]
    assert play.cluster.model.waiting_for_declaration == {}
