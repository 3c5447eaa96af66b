"""Members that have ended before the start tell that their gang has run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import annotated, app, node, placed, succeeded
from tests.kubernetes.cluster.gang_play import accepted, bound_here, grouped, made, member, pod_group, started
from tests.kubernetes.cluster.play import EPOCH_NS, Play, of

BOUND_S = EPOCH_NS // SECOND_NS + 60
"""A minute after the other pods were created."""
OLD_GROUPS = '[{"name": "g", "minMember": 2, "minResource": {"cpu": "2"}}]'


def ended(pod: Pod, phase: str = "Succeeded", bound_s: int = BOUND_S) -> Pod:
    one = succeeded(pod, bound_s)
    return replace(one, status=replace(one.status, phase=phase))


def of_three(name: str, **said: Any) -> Pod:
    return member(name, members=3, **said)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("originator", ["w0", "w2"])
def test_no_placeholder_pods_are_made_for_them_again(phase: str, originator: str) -> None:
    """Two of three were placed and have ended; the last one waits, and its placeholder is there."""
    first = started()
    others = sorted({"w0", "w1", "w2"} - {originator})
    created = accepted(first, first.put(*(of_three(name) for name in (originator, *others))))
    placeholder = placed(made(created[2]), "n")
    gone = [ended(bound_here(of_three(name), "n"), phase) for name in ("w0", "w1")]
    play = Play()
    report = play.start(node(), *gone, of_three("w2"), placeholder)
    assert report.applications[0].placeholder_ask == {"vcore": 1000, "pods": 1}
    assert [ask.key for ask in report.asks] == ["w2"]
    assert [one.key for one in report.nodes[0].existing] == [placeholder.metadata.uid]
    assert of(list(report.others), e.DeletePod) == []
    assert of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod) == []


def test_room_is_held_only_for_those_that_wait_in_a_virtual_gang() -> None:
    pods = [of_three(name, placeholders="virtual") for name in ("w0", "w1", "w2")]
    report = Play().start(node(), *(ended(bound_here(pod, "n")) for pod in pods[:2]), pods[2])
    assert report.applications[0].placeholder_ask == {"vcore": 1000, "pods": 1}
    assert [ask.is_placeholder for ask in report.asks] == [True, False]


def test_a_pod_group_that_has_run_does_not_wait_for_pods_that_have_ended() -> None:
    play = Play()
    play.tell(v.GangSourceServed(GangSource.COSCHEDULING))
    pods = [grouped(name) for name in ("w0", "w1", "w2")]
    report = play.start(node(), pod_group(3), *(ended(bound_here(pod, "n")) for pod in pods[:2]), pods[2])
    assert [ask.is_placeholder for ask in report.asks] == [True, False]


def as_user(pod: Pod, name: str) -> Pod:
    return annotated(pod, {"yunikorn.apache.org/user.info": f'{{"user": "{name}", "groups": []}}'})


def placed_before(pod: Pod) -> Pod:
    return ended(bound_here(pod, "n"), bound_s=EPOCH_NS // SECOND_NS - 1)


@pytest.mark.parametrize(
    "other",
    [
        placed_before(of_three("w0")),
        ended(placed(of_three("w0"), "n")),
        ended(bound_here(of_three("w0", task_groups=OLD_GROUPS), "n")),
        ended(bound_here(as_user(of_three("w0"), "alice"), "n")),
        ended(bound_here(of_three("w0"), "n"), bound_s=0),
    ],
    ids=["was placed before the other was created", "bound by somebody", "other task groups", "other user", "unknown"],
)
def test_a_pod_that_has_ended_may_be_of_another_run(other: Pod) -> None:
    play = Play()
    report = play.start(node(), other, of_three("w1"), of_three("w2"))
    assert report.applications[0].placeholder_ask == {"vcore": 3000, "pods": 3}
    assert report.asks == ()
    assert len(of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod)) == 3


def test_a_standby_knows_no_more_than_a_fresh_start() -> None:
    """Members that have ended are known for as long as their pods are there."""
    play = Play()
    gone = ended(bound_here(of_three("w0"), "n"))
    play.put(gone, of_three("w1"))
    play.gone(gone)
    assert play.cluster.model.ended_members == {}
    report = play.start(node())
    assert report.applications[0].placeholder_ask == {"vcore": 3000, "pods": 3}


def test_what_ends_after_the_start_is_not_remembered() -> None:
    play = Play()
    pod = ended(bound_here(of_three("w0"), "n"))
    play.put(pod)
    play.tell(v.Started(EPOCH_NS))
    assert play.cluster.model.ended_members == {}
    play.put(pod)
    assert play.cluster.model.ended_members == {}
