"""Pods with one application id and different users or queues."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster.effects import AddApplication, Ask, Bind, RecordEvent
from schedulerd.kubernetes.cluster.events import ApplicationAccepted, QueueNameUnused
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.objects.meta import OwnerReference
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import annotated, app, node, placed
from tests.kubernetes.cluster.gang_play import member
from tests.kubernetes.cluster.play import Play, of, own, the_ask

EXECUTOR = "system:serviceaccount:ns:spark"


def by(user: str, name: str, groups: tuple[str, ...] = (), app: str = "a", queue: str = "root.q", **spec: Any) -> Pod:
    labels = {label: value for label, value in (("applicationId", app), ("queue", queue)) if value}
    said = {"yunikorn.apache.org/user.info": json.dumps({"user": user, "groups": groups})} if user else {}
    return own(name, meta={"labels": labels, "annotations": said}, **spec)


def warnings(effects: list[Any]) -> list[tuple[str, str]]:
    return [(one.reason, one.note) for one in of(effects, RecordEvent) if one.is_warning]


@pytest.fixture
def play() -> Play:
    """Ann's application."""
    play = Play()
    play.start(node("n"))
    play.put(by("ann", "p", ("x", "y")))
    play.tell(ApplicationAccepted(app("a")))
    return play


def test_a_pod_of_another_user_waits_until_the_application_has_ended(play: Play) -> None:
    effects = play.all_put(by("bob", "q"))
    assert of(effects, Ask) == []
    ((reason, note),) = warnings(effects)
    assert reason == "ApplicationOfOtherUser"
    assert note.startswith(
        "application 'a' is one of user 'ann', not 'bob': the pod waits until it has ended, or needs"
    )
    assert play.cluster.model.pods["q"].state is PodState.HELD
    assert play.all_put(by("bob", "q")) == []
    effects = play.gone(by("ann", "p"))
    assert [one.user for one in of(effects, AddApplication)] == ["bob"]
    assert the_ask(effects).key == "q"


def test_a_pod_that_waits_and_goes_leaves_nothing(play: Play) -> None:
    play.put(by("bob", "q"))
    play.gone(by("bob", "q"))
    assert play.cluster.model.applications[app("a")].others == {}


@pytest.mark.parametrize("user", ["ann", "", EXECUTOR])
def test_pods_of_the_user_of_none_and_of_a_service_account_of_the_namespace_join(play: Play, user: str) -> None:
    effects = play.all_put(by(user, "q", ("y", "x")))
    assert the_ask(effects).application_id.name == "a"
    assert warnings(effects) == []


def test_a_service_account_of_another_namespace_is_another_user(play: Play) -> None:
    assert of(play.put(by("system:serviceaccount:other:spark", "q")), Ask) == []


def test_an_application_that_names_no_user_holds_nobody_up() -> None:
    play = Play()
    play.start(node("n"))
    play.put(by("", "p"))
    effects = play.all_put(by("bob", "q"))
    assert the_ask(effects).key == "q"
    assert warnings(effects) == [("UserIgnored", "user 'bob' is ignored: application 'a' is one of user 'nobody'")]


@pytest.mark.parametrize("label", ["", "yunikorn-ns-autogen"])
def test_pods_that_name_no_application_join_that_of_their_namespace_with_a_warning(label: str) -> None:
    play = Play()
    play.start(node("n"))
    play.put(by("ann", "p", app=""))
    effects = play.all_put(by("bob", "q", app=label))
    assert the_ask(effects).application_id.name == "yunikorn-ns-autogen"
    (warning,) = warnings(effects)
    assert warning == ("UserIgnored", "user 'bob' is ignored: application 'yunikorn-ns-autogen' is one of user 'ann'")


def test_a_setting_lets_pods_of_other_users_join() -> None:
    play = Play(shares_users=True)
    play.start(node("n"))
    play.put(by("ann", "p"))
    effects = play.all_put(by("bob", "q"))
    assert the_ask(effects).key == "q"
    assert [reason for reason, _ in warnings(effects)] == ["UserIgnored"]


def owned_by_the_driver(play: Play, user: str) -> str:
    """The user of the application of a pod that ann's driver has made, and that names this user."""
    play.put(by("ann", "driver", app="driver"))
    pod = by(user, "executor", app="group")
    owner = OwnerReference("v1", "Pod", "driver", "driver")
    play.put(replace(pod, metadata=replace(pod.metadata, owner_references=(owner,))))
    return play.cluster.model.applications[app("group")].user.name


@pytest.mark.parametrize("user", ["", EXECUTOR])
def test_executors_have_the_user_of_the_driver_that_owns_them(play: Play, user: str) -> None:
    assert owned_by_the_driver(play, user) == "ann"


@pytest.mark.parametrize("user", ["bob", "system:serviceaccount:elsewhere:spark"])
def test_a_pod_that_names_a_user_of_its_own_does_not_get_that_of_its_owner(play: Play, user: str) -> None:
    assert owned_by_the_driver(play, user) == user


def test_pods_that_run_are_reported_whoever_made_them() -> None:
    play = Play()
    report = play.start(node("n"), by("ann", "p", nodeName="n"), by("bob", "q", queue="root.r", nodeName="n"))
    (added,), (created,) = report.applications, report.nodes
    assert added.user == "ann"
    assert [one.key for one in created.existing] == ["p", "q"]
    assert warnings(play.cluster.model.effects) == []


def at(second: int, pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=f"2026-01-01T00:00:{second:02}Z"))


def test_an_older_pod_keeps_its_application_at_a_start_when_somebody_has_bound_one_of_another_user() -> None:
    play = Play()
    report = play.start(node("n"), at(1, by("ann", "p")), at(5, by("bob", "q", nodeName="n")))
    assert [one.user for one in report.applications] == ["ann"]
    assert the_ask(report.asks).key == "p"
    assert [one.key for one in report.nodes[0].existing] == ["q"], "it is counted"


def test_a_gated_pod_of_the_other_user_does_not_matter() -> None:
    play = Play()
    gated = at(0, by("bob", "g", schedulingGates=[{"name": "later"}]))
    play.start(node("n"), gated, at(1, by("ann", "p")), at(5, by("bob", "q", nodeName="n")))
    assert play.cluster.model.applications[app("a")].user.name == "ann"


def test_who_owns_an_application_at_a_start_is_what_it_was_before() -> None:
    before = Play()
    before.start(node("n"))
    before.put(at(1, by("ann", "p")))
    before.put(at(5, by("bob", "q", nodeName="n")))
    assert before.cluster.model.applications[app("a")].user.name == "ann"


@pytest.mark.parametrize(
    "older",
    [
        at(5, by("ann", "p")),
        at(6, by("ann", "p")),
        at(1, by("ann", "p", schedulingGates=[{"name": "later"}])),
        at(1, by("ann", "p", app="b")),
    ],
)
def test_other_pods_do_not_keep_it(older: Pod) -> None:
    """One that is no older, has no part in it yet, or names another one."""
    play = Play()
    play.start(node("n"), older, at(5, by("bob", "q", nodeName="n")))
    assert play.cluster.model.applications[app("a")].user.name == "bob"


def test_a_pod_that_the_shim_before_has_bound_owns_its_application_before_an_older_one_that_waits() -> None:
    """Bob's application was there first: its first pod has ended since, and ann's has waited for its end."""
    before = Play()
    before.start(node("n"))
    bobs, waits = at(5, by("bob", "q")), at(1, by("ann", "p"))
    before.put(at(0, by("bob", "first")))
    before.put(waits, bobs)
    (bind,) = of(before.allocate("q", "n"), Bind)
    play = Play()
    report = play.start(node("n"), waits, annotated(placed(bobs, "n"), bind.annotations))
    assert [one.user for one in report.applications] == ["bob"]
    assert report.asks == ()


def test_a_pod_that_waits_and_turns_up_on_a_node_joins(play: Play) -> None:
    play.put(by("bob", "q"))
    (update,) = play.put(by("bob", "q", nodeName="n"))
    assert [one.key for one in update.existing] == ["q"]  # type: ignore[union-attr]
    assert play.cluster.model.applications[app("a")].others == {}


def test_members_of_a_gang_are_pods_of_one_user() -> None:
    play = Play()
    play.start(node("n"))

    def of_user(user: str, name: str) -> Pod:
        pod = member(name)
        assert pod.metadata.annotations is not None
        pod.metadata.annotations["schedulerd.io/user.info"] = json.dumps({"user": user})
        return pod

    play.put(of_user("ann", "w0"))
    assert warnings(play.all_put(of_user("bob", "w1")))[0][0] == "ApplicationOfOtherUser"
    assert warnings(play.all_put(of_user("ann", "w2"))) == []


@pytest.mark.parametrize(
    ("first", "second", "note"),
    [
        ("root.q", "root.r", "queue 'root.r' is ignored: application 'a' is in queue 'root.q'"),
        ("", "root.r", "queue 'root.r' is ignored: application 'a' is where placement rules have put it"),
        ("root.q", "root.Q", None),
        ("root.q", "", None),
    ],
)
def test_the_queue_of_the_first_pod_counts(first: str, second: str, note: str | None) -> None:
    play = Play()
    play.start(node("n"))
    play.put(by("", "p", queue=first))
    effects = play.all_put(by("", "q", queue=second))
    assert the_ask(effects).key == "q"
    assert warnings(effects) == ([("QueueIgnored", note)] if note else [])
    assert warnings(play.all_put(by("", "q", queue=second, priority=3))) == [], "once"


def test_a_queue_that_no_rule_takes_is_told_to_a_pod_that_names_it(play: Play) -> None:
    effects = play.all(QueueNameUnused(app("a"), "root.other", "queueName 'root.q' is not used"))
    assert warnings(effects) == [
        ("QueueIgnored", "the application is in queue 'root.other': queueName 'root.q' is not used")
    ]
    assert play.all(QueueNameUnused(app("gone"), "root.other", "no")) == []
