"""Members of a gang that get nodes by others than the daemon, while the gang waits: what is held for them goes."""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.gang_play import (
    accepted,
    made,
    member,
    placeholders,
    started,
    whole,
    with_one_bound,
)
from tests.kubernetes.cluster.play import Play, of


def test_a_placeholder_pod_is_deleted_for_a_member_that_somebody_binds() -> None:
    play, pods = with_one_bound()
    (deleted,) = of(play.put(placed(member("w0"), "n")), e.DeletePod)
    assert deleted.pod.uid == pods[1].metadata.uid, "the one without a node"
    play.gone(pods[1])
    assert of(play.wait(300), e.CreatePod) == []


def test_a_placeholder_pod_that_is_not_made_yet_is_not_made_for_a_member_that_somebody_binds() -> None:
    play = started()
    created = accepted(play, play.put(member("w0"), member("w1")))
    play.put(made(created[0]))
    effects = play.put(placed(member("w0"), "n"))
    assert [ask.key for ask in of(effects, e.Ask)] == ["w1"], "nothing is missing any longer"
    (deleted,) = of(play.put(made(created[1])), e.DeletePod)
    assert deleted.pod.name == created[1].name


def test_a_new_shim_deletes_a_placeholder_pod_for_a_member_that_was_bound_meanwhile() -> None:
    pods = placeholders(started())
    report = Play().start(node(), placed(member("w0"), "n"), member("w1"), *pods)
    assert [one.pod.uid for one in of(report.others, e.DeletePod)] == [pods[1].metadata.uid]
    assert whole(report.applications[0]) == 1


def test_a_swap_that_is_under_way_for_another_member_leaves_no_placeholder_over() -> None:
    """The daemon had begun to give it the room of the placeholder that is deleted for a member with a node."""
    play, pods = with_one_bound()
    play.bind(pods[1].metadata.uid, "n")
    bound = {pod.metadata.uid: placed(pod, "n") for pod in pods}
    play.put(*bound.values())
    (deleted,) = of(play.put(placed(member("w0"), "n")), e.DeletePod)
    gone = bound.pop(deleted.pod.uid)
    play.tell(v.ReleaseWanted(app("a"), deleted.pod.uid, f"u-{deleted.pod.uid}", v.Cause.REPLACED, ""))
    play.gone(gone)
    assert [one.pod.uid for one in of(play.allocate("w1", "n"), e.DeletePod)] == list(bound)


def of_user(pod: Pod, user: str, second: int) -> Pod:
    annotations = {**(pod.metadata.annotations or {}), "schedulerd.io/user.info": f'{{"user": "{user}"}}'}
    created = f"2026-01-01T00:00:{second:02}Z"
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations, creation_timestamp=created))


def test_a_pod_of_another_user_takes_no_placeholder() -> None:
    """It is created with its node, and names application and task group: it is in the application to be counted."""
    play = started()
    effects = play.put(*(of_user(member(name), "ann", 0) for name in ("w0", "w1")))
    accepted(play, effects)
    play.put(placed(of_user(member("other"), "bob", 1), "n"))
    application = play.cluster.model.applications[app("a")]
    assert "other" in application.pods
    assert application.gang is not None
    assert [group.left for group in application.gang.groups.values()] == [2]


def test_a_pod_of_another_user_is_none_of_the_members_that_exist() -> None:
    mine = [of_user(member(name, members=3, placeholders="pods"), "ann", 0) for name in ("w0", "w1")]
    other = placed(of_user(member("other", members=3, placeholders="pods"), "bob", 1), "n")
    (added,) = Play().start(node(), *mine, other).applications
    assert (added.user, added.placeholder_ask) == ("ann", {"vcore": 3000, "pods": 3})
