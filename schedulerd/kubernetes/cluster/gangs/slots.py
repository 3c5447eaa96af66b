"""Placeholders come and go: each has a slot, which says what is to be done about it.

WANTED ──────────created───────▶ THERE ──replaced, or no longer needed──▶ SPENT
  ▲    CREATING, until the watch tells the pod │
  └──────── evicted, drained, preempted ───────┘
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import asking
from schedulerd.kubernetes.cluster.asking import NO_PREDICATES, NODE_SELECTOR_TAG, PREDICATES_TAG
from schedulerd.kubernetes.cluster.effects import (
    Ask,
    CreatePod,
    DeletePod,
    PodName,
    ReleaseAsk,
)
from schedulerd.kubernetes.cluster.events import CreateEnded, CreateResult
from schedulerd.kubernetes.cluster.gangs import placeholder_pods
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangStage
from schedulerd.kubernetes.cluster.gangs.membership import back_off, is_made_again, rename, timeout_ns
from schedulerd.kubernetes.cluster.gangs.model import Gang, Slot, SlotState
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState, PodTrigger
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata import gangs as metadata
from schedulerd.kubernetes.objects.pod import Pod, is_terminal
from schedulerd.kubernetes.predicates.node_class import HOST_NAME_ATTRIBUTE

TOLD_WITHIN_NS = 60 * SECOND_NS
"""A pod that was created and that the watch has not told by then is created again, which finds it."""


def place(model: Model, application: Application, gang: Gang) -> None:
    """Creates every placeholder pod that is due, once the daemon has accepted the application: it rejects a gang that
    the quotas and limits of its queue would never let in."""
    if application.state is not ApplicationState.ACCEPTED:
        return
    if gang.originator is None:
        return  # no pod is left
    for slot in list(gang.to_come):
        if slot.not_before_ns <= model.now_ns:
            _create(model, application, gang, slot)


def remove_pod(model: Model, own: OwnPod) -> None:
    """Nobody wants the placeholder pod: it is deleted, and its allocation is given back when it is gone."""
    if own.is_unwanted:
        return
    own.is_unwanted = True
    if own.slot is not None:
        own.slot.state = SlotState.SPENT
    if own.pod.metadata.deletion_timestamp is None and not own.is_release_wanted:
        model.effects.append(DeletePod(own.name))
    if own.state in (PodState.NEW, PodState.HELD, PodState.ASKED):
        asking.withdraw(model, own, PodTrigger.LEAVE)


def clear(model: Model, application: Application, gang: Gang) -> None:
    """Gives up all placeholders."""
    for slot in list(gang.slots.values()):
        _give_up(model, slot)
    end_stand_ins(model, application, gang)


def give_up(model: Model, application: Application, gang: Gang, slot: Slot) -> None:
    """The gang needs one placeholder less."""
    _give_up(model, slot)
    end_stand_ins(model, application, gang)
    model.gangs_due[application.id] = None


def _give_up(model: Model, slot: Slot) -> None:
    if slot.own is not None:
        remove_pod(model, slot.own)
    slot.state = SlotState.SPENT


def create_ended(model: Model, event: CreateEnded) -> None:
    application = model.applications.get(event.application_id)
    gang = application.gang if application is not None else None
    slot = gang.slots.get(event.name) if gang is not None else None
    if application is None or gang is None or slot is None or slot.state is not SlotState.CREATING:
        return  # the watch was faster, or nobody wants it any longer
    match event.result:
        case CreateResult.DONE:
            return  # the watch tells it
        case CreateResult.EXISTS if event.pod is not None and _is_ours(gang, event.pod):
            if is_terminal(event.pod):
                about = event.pod.metadata
                model.effects.append(DeletePod(PodName(about.namespace, about.name, about.uid)))
            elif event.pod.metadata.deletion_timestamp is None:
                return  # the watch tells it
        case CreateResult.EXISTS:
            _tell(model, gang, slot, f"pod {event.name!r} exists and is none of this gang", event.name)
        case _:
            note = f"placeholder {event.name!r} could not be created: {event.message}"
            _tell(model, gang, slot, note, event.message)
    slot.state = SlotState.WANTED
    back_off(model, application, slot)
    if gang.short_since_ns is None:
        gang.short_since_ns = model.now_ns
        model.timers.set(model.now_ns + timeout_ns(model, gang), Due.GANG, application.id)
    model.gangs_due[application.id] = None


def _create(model: Model, application: Application, gang: Gang, slot: Slot) -> None:
    group = gang.groups[slot.group]
    originator, declared = gang.originator, group.declared
    assert originator is not None
    assert declared is not None
    rename(gang, slot, placeholder_pods.name(originator.uid, application.id.name, slot.group, slot.index))
    body = placeholder_pods.body(
        slot.name,
        originator.pod,
        application.id.name,
        application.queue,
        declared,
        gang.annotations,
        scheduler_name=originator.pod.spec.scheduler_name,
        image=model.settings.placeholder_image,
        user=model.settings.placeholder_user,
        member=group.oldest.pod if group.oldest is not None else None,
    )
    slot.state, slot.not_before_ns = SlotState.CREATING, model.now_ns + TOLD_WITHIN_NS
    model.timers.set(slot.not_before_ns, Due.GANG, application.id)
    model.effects.append(CreatePod(application.id, application.namespace, slot.name, body))


def stand_in(model: Model, own: OwnPod) -> None:
    """A placeholder pod is about to lose its allocation, and will have one again, or its ask was rejected: until it is
    asked for again, an ask that no node can take makes the real pods wait."""
    slot, application = own.slot, own.application
    gang = application.gang if application is not None else None
    if slot is None or application is None or gang is None or slot.own is not own or slot.stand_in:
        return
    if is_made_again(gang, own):
        _stand_in(model, application, gang, slot, own)


def _stand_in(model: Model, application: Application, gang: Gang, slot: Slot, own: OwnPod) -> None:
    if slot.stand_in or gang.was_complete or gang.stage is not GangStage.OPEN:
        return
    slot.stand_in = f"{slot.name}-stand-in"
    model.gangs_due[application.id] = None
    tags = {NODE_SELECTOR_TAG: f"{HOST_NAME_ATTRIBUTE} in ({slot.name})", PREDICATES_TAG: NO_PREDICATES}
    resources = gang.groups[slot.group].resources
    priority = own.pod.spec.priority or 0
    model.effects.append(
        Ask(application.id, slot.stand_in, resources, priority, tags, True, False, 0, slot.group, True)
    )


def replace_pod(model: Model, own: OwnPod) -> None:
    """The placeholder pod has no allocation and will have none: it holds nothing, and another one is made, unless a
    real pod has replaced it already."""
    slot, application = own.slot, own.application
    if slot is None or application is None or own.is_unwanted or own.is_release_wanted:
        return
    if application.gang is not None and not is_made_again(application.gang, own):
        remove_pod(model, own)
        return
    slot.own, own.slot, own.is_unwanted = None, None, True
    slot.state = SlotState.WANTED
    back_off(model, application, slot)
    model.effects.append(DeletePod(own.name))


def end_stand_ins(model: Model, application: Application, gang: Gang) -> None:
    """The placeholder is asked for again, or not wanted any longer."""
    for slot in list(gang.standing_in):
        if not slot.is_missing:
            model.effects.append(ReleaseAsk(application.id, slot.stand_in))
            slot.stand_in = ""


def _is_ours(gang: Gang, pod: Pod) -> bool:
    uid = gang.originator.uid if gang.originator is not None else ""
    owners = pod.metadata.owner_references or ()
    return metadata.is_placeholder(pod.metadata) and any(owner.uid == uid for owner in owners)


def _tell(model: Model, gang: Gang, slot: Slot, note: str, cause: str) -> None:
    """An event of the originator, and the conditions of all pods of the gang, show what the server says. It says the
    same of all placeholders that a quota keeps out: that is one event."""
    if slot.problem == note or gang.originator is None:
        return
    slot.problem = note
    if gang.refusal_told != cause:
        gang.refusal_told = cause
        model.record(gang.originator, "PlaceholderCreateFailed", "CreatingPlaceholders", note, is_warning=True)
