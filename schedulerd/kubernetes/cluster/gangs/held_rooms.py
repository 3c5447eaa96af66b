"""The room that placeholders hold, for the predicates: as which pod it counts, and who gets it.

A placeholder counts as the oldest pod of its task group that exists, else as it was declared (`held_room`). The cache
knows it from the moment it is asked for, and it is on its node from its allocation on, as an assumed pod is; this holds
for every placeholder pod. When a member replaces it, its room goes on counting until the member has
it: the daemon places the member only after the placeholder is gone, and nobody may take its port in between.
"""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from schedulerd.kubernetes.cluster.events import Cause
from schedulerd.kubernetes.cluster.gangs.declaration import age
from schedulerd.kubernetes.cluster.gangs.model import Gang, Group, KeptRoom
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.gangs import task_group_name
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.held_room import counts_alike, counts_as

TAKEN_WITHIN_NS = 10 * SECOND_NS
"""A member that replaces a placeholder is placed by then; if not, its swap has failed, and the room is free."""


def note_placeholder(own: OwnPod, pod: Pod) -> Pod:
    """Notes a placeholder pod that is new or has changed. Returns the pod as which it counts on its node."""
    own.pod = pod
    own.counted_as = counts_as(pod, _member_of(own), is_replaced=own.cause is Cause.REPLACED)
    return own.counted_as


def count(model: Model, own: OwnPod) -> None:
    """The placeholder has a slot from now on, or its task group has another oldest pod."""
    counted = note_placeholder(own, own.pod)
    # Volumes are not held: those of the oldest member would be in the way of that member.
    model.cache.put_pod(replace(counted, spec=replace(counted.spec, volumes=None)) if counted.spec.volumes else counted)


def find_oldest(gang: Gang, members: list[OwnPod]) -> None:
    """The gang is being formed of these pods."""
    for own in members:
        group = gang.groups.get(task_group_name(own.pod.metadata))
        if group is not None and (group.oldest is None or age(own) < age(group.oldest)):
            group.oldest = own


def member_joined(model: Model, gang: Gang, own: OwnPod) -> None:
    """The real pod is one of the gang now."""
    group = gang.groups.get(task_group_name(own.pod.metadata))
    if group is None or group.has_lost_oldest:
        return
    if group.oldest is None or age(own) < age(group.oldest):
        _stand_for(model, gang, group, own)


def member_left(model: Model, application: Application, gang: Gang, own: OwnPod) -> None:
    """The real pod is about to leave its application.

    Where nothing is held for its task group any more, the oldest of the others is looked for when it is needed: pods
    mostly end in the order of their age, and each would look through all that are left.
    """
    for group in gang.groups.values():
        if group.oldest is not own:
            continue
        if group.left:
            _stand_for(model, gang, group, _oldest_of(application, gang, group, leaving=own))
        else:
            group.oldest, group.has_lost_oldest = None, True


def idle_on(model: Model, own: OwnPod, node: str) -> list[str]:
    """What holds room on the node that the member takes if it goes there: a placeholder, or room that the daemon holds
    for any member of its task group; nothing if there is none."""
    application = own.application
    there = model.cache.state.nodes.get(node)
    if own.is_placeholder or not own.task_group or application is None or application.gang is None or there is None:
        return []
    group = application.gang.groups.get(own.task_group)
    if group is not None and group.pattern is not None:
        return [uid for uid in there.pods if uid.startswith(f"{group.pattern.uid}#")][:1]
    for uid in there.pods:
        one = model.pods.get(uid)
        if one is None or not one.is_placeholder or one.application is not application:
            continue
        if one.task_group == own.task_group and one.uuid and not one.is_release_wanted:
            return [uid]
    return []


def keep(model: Model, own: OwnPod) -> None:
    """A member is about to get the room of this placeholder, which is gone."""
    gang = own.application.gang if own.application is not None else None
    if gang is None or not own.node:
        model.cache.remove_pod(own.uid)
        return
    counted = note_placeholder(own, own.pod)
    model.cache.put_pod(replace(counted, spec=replace(counted.spec, node_name=own.node, volumes=None)))
    room = KeptRoom(gang, own.task_group, own.node)
    gang.kept_rooms.setdefault((room.group, room.node), {})[own.uid] = None
    model.kept_rooms[own.uid] = room
    model.timers.set(model.now_ns + TAKEN_WITHIN_NS, Due.KEPT_ROOM, own.uid)


def kept_on(model: Model, gang: Gang, own: OwnPod, node: str) -> list[str]:
    """The room that is kept or held for the member, which is placed there; nothing if there is none on this node."""
    if own.is_placeholder:
        return []
    if not gang.has_placeholders:
        return idle_on(model, own, node)
    return list(islice(gang.kept_rooms.get((own.task_group, node), ()), 1))


def taken(model: Model, gang: Gang, own: OwnPod, node: str) -> None:
    """The member is placed: in the room that was kept for it, or elsewhere, and then that room is free."""
    rooms = gang.kept_rooms if not own.is_placeholder else {}
    here = rooms.get((own.task_group, node)) or next(
        (one for key, one in rooms.items() if key[0] == own.task_group), {}
    )
    for uid in islice(here, 1):
        end(model, uid)


def end(model: Model, uid: str) -> None:
    """The room is kept for nobody any longer."""
    room = model.kept_rooms.pop(uid, None)
    if room is None:
        return
    key = room.group, room.node
    del room.gang.kept_rooms[key][uid]
    if not room.gang.kept_rooms[key]:
        del room.gang.kept_rooms[key]
    model.cache.remove_pod(uid)


def _stand_for(model: Model, gang: Gang, group: Group, oldest: OwnPod | None) -> None:
    """The placeholders of the task group stand for another pod from now on: none, if no pod of it exists."""
    before, group.oldest = group.oldest, oldest
    if before is not None and oldest is not None and counts_alike(before.pod, oldest.pod):
        return
    for slot in gang.slots.values():
        if slot.group == group.name and slot.own is not None:
            count(model, slot.own)


def _oldest_of(application: Application, gang: Gang, group: Group, leaving: OwnPod | None = None) -> OwnPod | None:
    others = (one for one in application.pods.values() if one is not leaving and not one.is_placeholder)
    return min((one for one in others if task_group_name(one.pod.metadata) == group.name), key=age, default=None)


def _member_of(own: OwnPod) -> Pod | None:
    """The pod that the placeholder stands for."""
    application = own.application
    gang = application.gang if application is not None else None
    group = gang.groups.get(own.task_group) if gang is not None else None
    if application is None or gang is None or group is None:
        return None
    if group.has_lost_oldest:
        group.oldest, group.has_lost_oldest = _oldest_of(application, gang, group), False
    return group.oldest.pod if group.oldest is not None else None
