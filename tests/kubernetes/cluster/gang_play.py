"""Members, groups and placeholders for plays with gangs."""

from __future__ import annotations

import json
from typing import Any

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import TASK_GROUPS_TAG, GangSource
from schedulerd.kubernetes.metadata.pods import PLACED
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import (
    CoschedulingPodGroup,
)
from tests.kubernetes.builders import JSON, annotated, app, node, placed
from tests.kubernetes.cluster.play import Play, of, own


def member(name: str, members: int = 2, style: str = "Soft", cpu: str = "1", **annotations: str) -> Pod:
    """A pod of the application `a`, with the task group `g` of 1 processor each and with placeholder pods."""
    group = {"name": "g", "minMember": members, "minResource": {"cpu": "1"}}
    said = {
        "schedulerd.io/task-groups": json.dumps([group]),
        "schedulerd.io/task-group-name": "g",
        "schedulerd.io/schedulingPolicyParameters": f"placeholderTimeoutInSeconds=100 gangSchedulingStyle={style}",
        "schedulerd.io/placeholders": "always",
        **{f"schedulerd.io/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    return own(name, cpu=cpu, meta={"labels": {"applicationId": "a"}, "annotations": said})


def bound_here(pod: Pod, at: str) -> Pod:
    """The pod as it is when schedulerd has bound it."""
    return annotated(placed(pod, at), {PLACED: pod.metadata.uid})


def grouped(name: str, cpu: str = "1", at: int = 0, **spec: Any) -> Pod:
    meta: JSON = {
        "labels": {"scheduling.x-k8s.io/pod-group": "pg"},
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
    }
    return own(name, cpu=cpu, meta=meta, **spec)


def conditions(effects: list[e.Effect]) -> list[tuple[str, str]]:
    """Pods and reasons."""
    return [(one.pod.name, one.reason) for one in of(effects, e.PatchPodCondition) if one.type == "PodScheduled"]


def pod_group(members: int) -> CoschedulingPodGroup:
    return CoschedulingPodGroup(own("pg").metadata, {"minMember": members})


def made(effect: e.CreatePod, uid: str = "") -> Pod:
    """The pod as the server has made it."""
    body = json.loads(json.dumps(effect.body))
    body["metadata"]["uid"] = uid or f"{effect.name}!"
    return convert(Pod, body)


def accepted(play: Play, effects: list[e.Effect]) -> list[e.CreatePod]:
    """The daemon accepts the applications that are added: the placeholder pods that are created then."""
    added = of(effects, e.AddApplication)
    return of(play.tell(*(v.ApplicationAccepted(one.application_id) for one in added)), e.CreatePod)


def placeholders(play: Play) -> list[Pod]:
    """Starts a gang of two pods, and answers the creations."""
    created = accepted(play, play.put(member("w0"), member("w1")))
    pods = [made(one) for one in created]
    for one in created:
        assert play.tell(v.CreateEnded(app("a"), one.name, v.CreateResult.DONE)) == []
    return pods


def whole(added: e.AddApplication) -> int:
    """The members that the gang of the application needs."""
    if added.placeholder_ask is not None:
        return added.placeholder_ask["pods"]
    return sum(group["min"] for group in json.loads(added.tags.get(TASK_GROUPS_TAG, "[]")))


def started(**settings: Any) -> Play:
    play = Play(**settings)
    play.start(node())
    return play


def reserving() -> tuple[Play, list[Pod]]:
    """A gang of two pods, and its two placeholder pods, which are asked for."""
    play = started()
    pods = placeholders(play)
    play.put(*pods)
    return play, pods


def with_one_bound() -> tuple[Play, list[Pod]]:
    """The same, with the first placeholder pod bound."""
    play, pods = reserving()
    play.bind(pods[0].metadata.uid, "n")
    play.put(placed(pods[0], "n"))
    return play, pods


def grouping(*sources: GangSource) -> Play:
    play = Play()
    for source in sources or (GangSource.COSCHEDULING,):
        play.tell(v.GangSourceServed(source))
    play.start(node())
    return play


def the_placeholder(effects: list[e.Effect] | tuple[Any, ...]) -> e.Ask:
    """The first ask of a placeholder."""
    return next(ask for ask in of(effects, e.Ask) if ask.is_placeholder)
