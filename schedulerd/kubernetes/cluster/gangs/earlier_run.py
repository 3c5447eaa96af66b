"""A gang whose application id is still in use: by an earlier run that ends, or by one of other task groups.

A controller that makes all pods of a gang again, or a user who deletes and applies, uses the id of the application
again while the pods of before still end. The gang is formed when these are gone: joined to the earlier run, the new
pods would be placed one by one. Whether a run ends is told by its pods that have a node: all of them are being deleted.
One pod that is made again while others run is no new run. Pods that have ended are in no run.

In the application of all pods of a namespace that name none, only pods of gangs wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangStage
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangSource
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.gangs import InvalidGang, TaskGroup, task_group_name, task_groups
from schedulerd.kubernetes.metadata.pods import default_application_ids
from schedulerd.kubernetes.reasons.waiting import Waiting, held

IN_USE_REASON = "ApplicationInUse"
SAID_EVERY_NS = SECOND_NS
"""Between two looks at all pods that wait for the end of a run, to say for which of its pods."""
_NAMED_MAX = 3
"""Pods of a run that a reason names."""


def is_over(application: Application) -> bool:
    """A gang has run, and no pod of it is left: whatever comes next is another run."""
    gang = application.gang
    if gang is None or application.has_real_pods:
        return False
    return gang.has_run or gang.stage is GangStage.OVER


def refusal(model: Model, application: Application, own: OwnPod) -> Waiting | None:
    """Why the pod has to wait for the end of a run of its application; None if it may join it."""
    if own.node or own.is_placeholder:
        return None
    if application.is_ending and _waits_for_end(application, own):
        return _end_awaited(application)
    gang = application.gang
    if application.pods and gang is not None and _declares_others(model, application, gang, own):
        return _others_awaited(application)
    return None


def wait(application: Application, own: OwnPod) -> None:
    """The pod may not join: it is considered again when that changes."""
    if not application.next_run:
        application.was_ending = application.is_ending
    application.next_run[own.uid] = own


def review(model: Model, application: Application) -> list[OwnPod]:
    """The pods that need not wait any longer. The others say for which pods they wait."""
    was_ending, application.was_ending = application.was_ending, application.is_ending
    free: list[OwnPod] = []
    if was_ending is not application.is_ending or not application.has_real_pods:
        free = [own for own in application.next_run.values() if refusal(model, application, own) is None]
        for own in free:
            del application.next_run[own.uid]
    if application.next_run:
        _say(model, application)
    return free


def _say(model: Model, application: Application) -> None:
    due_ns = application.next_run_said_ns + SAID_EVERY_NS
    if model.now_ns < due_ns:
        if application.next_run_due_ns < model.now_ns:
            application.next_run_due_ns = due_ns
            model.timers.set(due_ns, Due.GANG, application.id)
        return
    application.next_run_said_ns = model.now_ns
    for own in application.next_run.values():
        if (why := refusal(model, application, own)) is not None:
            conditions.waits(model, own, why)


def _waits_for_end(application: Application, own: OwnPod) -> bool:
    if own.declares_gang or own.group is not None or task_group_name(own.pod.metadata):
        return True
    return application.gang is not None and not _is_of_namespace(application, own)


def _declares_others(model: Model, application: Application, gang: Gang, own: OwnPod) -> bool:
    if not own.declares_gang or gang.source is not GangSource.ANNOTATIONS or _is_of_namespace(application, own):
        return False
    try:
        declared = task_groups(own.pod.metadata, model.settings.gang_members_max)
    except InvalidGang:
        return False
    return bool(declared) and _needs(declared) != _needs(gang.declared)


def _needs(groups: tuple[TaskGroup, ...]) -> dict[str, tuple[int, dict[str, int]]]:
    return {one.name: (one.members, dict(one.resources)) for one in groups}


def _is_of_namespace(application: Application, own: OwnPod) -> bool:
    return application.id.name in default_application_ids(own.pod.metadata.namespace)


def _end_awaited(application: Application) -> Waiting:
    number = len(application.ending)
    pods = "1 pod has" if number == 1 else f"{number} pods have"
    what = f"was used by pods that are being deleted: the pod waits until {pods} ended"
    return _held(application, what, application.ending.values())


def _others_awaited(application: Application) -> Waiting:
    names = (own.pod.metadata.name for own in application.pods.values() if not own.is_placeholder)
    what = "has other task groups: the pod needs another application id, or waits until its pods have ended"
    return _held(application, what, application.running.values() or names)


def _held(application: Application, what: str, names: Iterable[str]) -> Waiting:
    *some, more = [*islice(names, _NAMED_MAX + 1), *[""] * (_NAMED_MAX + 1)][: _NAMED_MAX + 1]
    listed = ", ".join(one for one in (*some, "..." if more else "") if one)
    return held(f"application {application.id.name!r} {what}: {listed}", IN_USE_REASON, is_about_nodes=False)
