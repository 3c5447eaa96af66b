"""Room that the daemon holds for members of gangs without placeholders (`schedulerd.v1` `Hold`).

It counts on its node from the answer on by which the daemon was told that the node suits it (`questions`): as the pod
that it is for, or as the pattern of its task group. When a member takes it, it counts as that member until the
allocation comes, which may be before or after the end of the hold.
"""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.cluster import questions
from schedulerd.kubernetes.cluster.events import RoomFreed, RoomHeld
from schedulerd.kubernetes.cluster.gangs.declared import pattern_key
from schedulerd.kubernetes.cluster.model import Model
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState


def held(model: Model, event: RoomHeld) -> None:
    if event.hold_id in model.holds:
        return
    if event.key:
        own = model.pods.get(event.key)
        if own is None or own.state is not PodState.ASKED:
            return  # its ask is withdrawn, and the hold with it
        uid, pod = own.uid, own.judged
        own.hold_id = event.hold_id
        model.promised.pop(uid, None)
    else:
        pattern = model.patterns.get(pattern_key(event.application_id, event.task_group))
        if pattern is None:
            return
        uid = questions.take_promise(model, pattern.uid, event.node) or f"{pattern.uid}#{event.hold_id}"
        pod = replace(pattern.judged, metadata=replace(pattern.judged.metadata, uid=uid))
    model.cache.assume(pod, event.node, for_now=True)
    model.holds[event.hold_id] = uid


def freed(model: Model, event: RoomFreed) -> None:
    uid = model.holds.pop(event.hold_id, "")
    known = model.cache.pods.get(uid)
    node = known.node.name if known is not None and known.node is not None else ""
    own, taker = model.pods.get(uid), model.pods.get(event.taken_by)
    if own is None:
        model.cache.remove_pod(uid)
    elif own.hold_id == event.hold_id:
        own.hold_id = ""
        if own.state is PodState.ASKED and own is not taker:
            model.cache.forget_assumed(uid)
    if taker is not None and node:
        questions.promise(model, taker, node)


def forget_all(model: Model) -> None:
    """The daemon tells anew what is held."""
    for hold_id in list(model.holds):
        freed(model, RoomFreed(hold_id))
