"""Gangs without placeholder pods: what the daemon is told of them, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import ALL_MEMBERS, TASK_GROUPS_TAG, GangSource
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.reasons.waiting import State, Waiting
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.gang_play import (
    accepted,
    bound_here,
    grouped,
    grouping,
    made,
    member,
    pod_group,
    started,
)
from tests.kubernetes.cluster.play import Play, of, own
from tests.kubernetes.reasons.reader import Reader

RAW = "ResourceReservationTimeout: after 100 s task group g has 1 of 2 members: the next one wants vcore 1000"


def declared(added: e.AddApplication) -> list[dict[str, Any]]:
    """The task groups of which the daemon is told."""
    groups: list[dict[str, Any]] = json.loads(added.tags.get(TASK_GROUPS_TAG, "[]"))
    return groups


def told(effects: list[e.Effect] | tuple[e.AddApplication, ...]) -> list[dict[str, Any]]:
    (added,) = of(effects, e.AddApplication)
    assert added.placeholder_ask is None
    return declared(added)


def pair(style: str = "Soft", kind: str = "none") -> list[Pod]:
    return [member(name, style=style, placeholders=kind) for name in ("w0", "w1")]


def running(play: Play, *pods: Pod) -> list[e.Effect]:
    effects = play.put(*pods)
    play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Accepted", ""))
    return effects


def test_its_pods_are_asked_for_at_once() -> None:
    play = started()
    effects = play.put(*pair())
    (added,) = of(effects, e.AddApplication)
    assert (added.placeholder_ask, added.gang_style, added.gang_timeout_s) == (None, "Soft", 100)
    assert declared(added) == [{"name": "g", "min": 2}]
    asks = of(effects, e.Ask)
    assert [(ask.key, ask.task_group, ask.is_placeholder) for ask in asks] == [("w0", "g", False), ("w1", "g", False)]
    assert accepted(play, effects) == []


@pytest.mark.parametrize(
    ("kind", "count", "has_placeholders"),
    [("pods", 1, True), ("pods", 2, False), ("always", 2, True), ("none", 1, False), ("", 2, False)],
)
def test_placeholder_pods_are_made_for_members_that_do_not_exist(kind: str, count: int, has_placeholders: bool) -> None:
    play = started()
    effects = play.put(*pair(kind=kind)[:count])
    assert bool(accepted(play, effects)) is has_placeholders
    (added,) = of(effects, e.AddApplication)
    assert (TASK_GROUPS_TAG in added.tags) is not has_placeholders


def test_placeholder_pods_that_are_there_are_adopted_also_if_all_members_exist() -> None:
    (created, _) = accepted(first := started(), first.put(*pair(kind="always")))
    report = Play().start(node(), *pair(kind="pods"), made(created))
    assert [ask.key for ask in report.asks] == [made(created).metadata.uid], "real pods wait for the other one"
    assert TASK_GROUPS_TAG not in report.applications[0].tags


def test_members_that_do_not_exist_are_declared_as_their_task_group_says() -> None:
    play = started()
    groups = [
        {"name": "driver", "minMember": 1, "minResource": {"cpu": "1"}},
        {"name": "g", "minMember": 3, "minResource": {"cpu": "2", "memory": "1Ki"}, "nodeSelector": {"disk": "ssd"}},
    ]
    said = {"task-groups": json.dumps(groups), "task-group-name": "driver", "placeholders": "none"}
    meta = {"labels": {"applicationId": "a"}, "annotations": {f"schedulerd.io/{key}": said[key] for key in said}}
    driver, others = told(play.put(own("d", meta=meta, priority=7, preemptionPolicy="Never")))
    assert driver == {"name": "driver", "min": 1}
    tags = others.pop("tags")
    assert tags.keys() == {"schedulerd.io/node-selector", "schedulerd.io/predicates"}
    assert tags["schedulerd.io/node-selector"].startswith("disk=ssd,")
    assert others == {
        "name": "g",
        "min": 3,
        "resources": {"vcore": 2000, "memory": 1024, "pods": 1},
        "priority": 7,
        "allowPreemptSelf": True,
        "allowPreemptOther": False,
    }


@pytest.mark.parametrize(
    ("first", "begun"),
    [(placed, {}), (bound_here, {"begun": True}), (lambda pod, at: pod, {})],
    ids=["somebody else", "here", "nobody"],
)
def test_a_new_shim_says_whether_the_gang_has_begun(first: Callable[[Pod, str], Pod], begun: dict[str, bool]) -> None:
    one, other = pair()
    report = Play().start(node(), first(one, "n"), other)
    assert told(report.applications) == [{"name": "g", "min": 2, **begun}]
    assert {ask.key for ask in report.asks} >= {"w1"}


def test_a_new_daemon_is_told_that_the_gang_has_begun() -> None:
    play = started()
    assert play.cluster.task_groups(app("a")) == ""
    running(play, *pair())
    assert json.loads(play.cluster.task_groups(app("a"))) == [{"name": "g", "min": 2}]
    play.bind("w0", "n")
    assert json.loads(play.cluster.task_groups(app("a"))) == [{"name": "g", "min": 2, "begun": True}]


def test_a_pod_group_of_which_a_pod_runs_is_formed_with_fewer_pods() -> None:
    play = Play()
    play.tell(v.GangSourceServed(GangSource.COSCHEDULING))
    report = play.start(node(), pod_group(3), bound_here(grouped("p0"), "n"), grouped("p1"))
    assert told(report.applications) == [{"name": ALL_MEMBERS, "min": 3, "begun": True}]
    assert [ask.key for ask in report.asks] == ["p1"]


def test_the_daemon_is_told_of_another_number_of_members_when_it_has_answered() -> None:
    play = grouping()
    (added,) = of(play.put(pod_group(2), grouped("p0"), grouped("p1")), e.AddApplication)
    assert play.put(pod_group(3)) == []
    effects = play.tell(v.ApplicationAccepted(added.application_id))
    assert told(effects) == [{"name": ALL_MEMBERS, "min": 3}]
    assert play.put(pod_group(4)) == []
    assert told(play.tell(v.ApplicationAccepted(added.application_id))) == [{"name": ALL_MEMBERS, "min": 4}]
    assert play.tell(v.ApplicationAccepted(added.application_id)) == []
    assert play.put(pod_group(4)) == []


def test_each_pod_shows_what_the_daemon_says_of_it() -> None:
    reader = Reader()
    reader.start(node("n", cpu="8"))
    running(reader, *pair())
    reader.say("w0", Waiting(State.UNSCHEDULABLE, queue="root.q"))
    reader.say("w1", Waiting(State.QUOTA_BLOCKED, queue="root.q"))
    reader.pass_time(5)
    assert [reader.told(name)[0] for name in ("w0", "w1")] == ["Unschedulable", "SchedulingSkipped"]


def test_a_soft_gang_goes_on_without_it_when_its_time_is_over() -> None:
    play = started()
    running(play, *pair())
    effects = play.all(v.ApplicationUpdated(app("a"), "Resuming", RAW), v.ApplicationUpdated(app("a"), "Accepted", ""))
    assert [(one.reason, one.note) for one in of(effects, e.RecordEvent)] == [("GangSchedulingFailed", RAW)]
    assert of(effects, e.ReleaseAsk) == [], "they are ordinary asks now"
    play.bind("w0", "n")


def test_pods_of_a_hard_gang_fail_once() -> None:
    play = started()
    running(play, *pair("Hard"))
    over = [v.ApplicationUpdated(app("a"), state, RAW) for state in ("Failing", "Failed")]
    effects = play.all(*over)
    assert {(one.pod.name, one.message) for one in of(effects, e.FailPod)} == {("w0", RAW), ("w1", RAW)}
    play.gone(*pair("Hard"))
    assert play.put(*(member(name, style="Hard", placeholders="none") for name in ("x0", "x1"))) == []
    assert told(play.wait(61)) == [{"name": "g", "min": 2}]
    play.tell(v.ApplicationAccepted(app("a")))
    assert of(play.all(*over), e.FailPod) == []


def test_its_pods_wait_for_withdrawals_when_their_application_has_completed() -> None:
    """Asks of before may be under way, on another stream."""
    play = started()
    running(play, *pair())
    effects = play.tell(v.ApplicationUpdated(app("a"), "Completed", ""))
    assert [one.key for one in of(effects, e.ReleaseAsk)] == ["w0", "w1"]
    assert of(effects, e.AddApplication) == of(play.wait(0.9), e.AddApplication) == [], "it could overtake them"
    effects = play.wait(0.1)
    assert told(effects) == [{"name": "g", "min": 2}]
    assert [ask.key for ask in of(effects, e.Ask)] == ["w0", "w1"]


def test_what_the_shim_has_made_of_a_task_group_goes_with_its_gang() -> None:
    play = started()
    alone = member("w0", placeholders="none")
    running(play, alone)
    model = play.cluster.model
    assert [own.task_group for own in model.patterns.values()] == ["g"]
    play.gone(alone)
    play.tell(v.ApplicationUpdated(app("a"), "Completed", ""))
    assert (model.applications, model.patterns) == ({}, {})
    assert model.cache.pods == {}
