"""Pods that name a DaemonSet as their controller, which may be seen later than they are.

Resources are watched on their own, so a pod can come before its DaemonSet: it waits 5 s for that. Then it is asked for
as an ordinary pod with a node affinity, and an event says so. If the DaemonSet is seen after all, the pod is asked for
anew.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState, Told
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.objects.cluster import DaemonSet
from schedulerd.kubernetes.reasons.waiting import Waiting, held

DAEMON_SET_WAIT_NS = 5 * SECOND_NS


def why_waits(model: Model, own: OwnPod) -> Waiting | None:
    """The pod waits for its DaemonSet to be seen; None if it need not, or no longer."""
    uid = model.cache.daemon_sets.unseen(own.pod)
    if not uid:
        return None
    waiting = model.waiting_for_daemon_sets.setdefault(uid, {})
    if own.uid not in waiting:
        can_come = model.cache.daemon_sets.is_watched
        waiting[own.uid] = model.now_ns + (DAEMON_SET_WAIT_NS if can_come else 0)
        model.timers.set(waiting[own.uid], Due.DAEMON_SET, own.uid)
    if waiting[own.uid] > model.now_ns:
        return held("waits a few seconds for the DaemonSet that it names as its controller")
    if Told.DAEMON_SET not in own.told:
        own.told |= Told.DAEMON_SET
        model.record(own, "DaemonSetUnknown", "Scheduling", _told(model, own, uid), is_warning=True)
    return None


def _told(model: Model, own: OwnPod, uid: str) -> str:
    namespace = own.pod.metadata.namespace
    if model.cache.daemon_sets.is_watched:
        why = f"no DaemonSet of namespace {namespace!r} has the uid {uid!r} that ownerReferences names as controller"
    else:
        why = f"the scheduler may not watch DaemonSets, and does not believe pods of namespace {namespace!r} without it"
    return f"{why}: it is scheduled like any other pod with a node affinity, and others are not preempted for its node"


def seen(model: Model, daemon_set: DaemonSet) -> list[OwnPod]:
    """The DaemonSet is there: the pods that are to be considered anew."""
    model.cache.daemon_sets.put(daemon_set.metadata)
    return _take_waiting(model, daemon_set.metadata.uid)


def gone(model: Model, daemon_set: DaemonSet) -> None:
    """Its pods are being deleted; one that waits stays what it is until it is considered again."""
    model.cache.daemon_sets.remove(daemon_set.metadata)


def set_watched(model: Model, *, is_watched: bool) -> list[OwnPod]:
    """Notes whether DaemonSets can be watched. Returns the pods that have to be considered again because of that."""
    if model.cache.daemon_sets.is_watched == is_watched:
        return []
    model.cache.daemon_sets.is_watched = is_watched
    return [own for uid in list(model.waiting_for_daemon_sets) for own in _take_waiting(model, uid)]


def stop_waiting(model: Model, own: OwnPod) -> None:
    """The pod has ended."""
    uid = model.cache.daemon_sets.unseen(own.pod)
    waiting = model.waiting_for_daemon_sets.get(uid)
    if waiting is not None and waiting.pop(own.uid, None) is not None and not waiting:
        del model.waiting_for_daemon_sets[uid]


def _take_waiting(model: Model, uid: str) -> list[OwnPod]:
    pods = [model.pods.get(one) for one in model.waiting_for_daemon_sets.pop(uid, {})]
    return [own for own in pods if own is not None and own.state in (PodState.HELD, PodState.ASKED)]
