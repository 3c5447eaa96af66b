"""The door to gangs: what pods and applications have to do with them.

Each function first asks the pod or application itself whether there is a gang here. One without a gang enters no other
module of this package. The modules above (`slots`, `surplus`, `life`, `answers`) are entered only for a pod whose
`gang` is not None, or when a gang is due.
"""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.cluster.effects import AddApplication
from schedulerd.kubernetes.cluster.gangs import declaration, earlier_run, group_status, late_declaration, membership
from schedulerd.kubernetes.cluster.gangs.model import TASK_GROUPS_TAG, Gang
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.metadata.gangs import declares_task_groups, is_placeholder, task_group_name
from schedulerd.kubernetes.metadata.pods import PodMetadata
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.reasons.waiting import Waiting


def own_pod(model: Model, pod: Pod, metadata: PodMetadata) -> OwnPod:
    """A pod of ours that is new: a placeholder, a member of a PodGroup, or any other."""
    if is_placeholder(pod.metadata):
        model.placeholders.setdefault(metadata.application_id, {})[pod.metadata.uid] = None
        return OwnPod(pod.metadata.uid, pod, metadata, is_placeholder=True)
    key = declaration.group_key(model, pod) if model.gang_sources else None
    if key is not None:
        of_group = metadata.application_id._replace(name=declaration.application_id(key))
        metadata = replace(metadata, application_id=of_group)
    own = OwnPod(pod.metadata.uid, pod, metadata, group=key, declares_gang=declares_task_groups(pod.metadata))
    if own.declares_gang:
        declaration.note_pod(model, own)
    return own


def note(model: Model, own: OwnPod) -> None:
    """The pod has joined its application, or has changed."""
    application = own.application
    if application is None or own.is_placeholder:
        return
    _forget(application, own)
    about = own.pod.metadata
    if own.pod.spec.node_name:
        (application.running if about.deletion_timestamp is None else application.ending)[own.uid] = about.name
    if own.group is not None and application.running:
        group_status.running(model, application)
    if application.next_run:
        model.gangs_due[application.id] = None


def gone(model: Model, own: OwnPod) -> None:
    """The pod has ended or is deleted."""
    is_awaited = own.metadata.application_id in model.waiting_for_declaration
    if own.is_placeholder or own.declares_gang or own.group is not None or is_awaited:
        membership.gone(model, own)


def why_waits(model: Model, own: OwnPod) -> Waiting | None:
    """What the pod waits for before it can join its application; None if nothing."""
    is_kept = own.metadata.application_id in model.waiting_for_declaration
    if is_kept or own.declares_gang or own.group is not None or task_group_name(own.pod.metadata):
        return late_declaration.why_waits(model, own)
    return None


def is_kept(model: Model, own: OwnPod) -> bool:
    """The application of the pod is kept for another one, which waits for its declaration."""
    is_awaited = own.metadata.application_id in model.waiting_for_declaration
    return is_awaited and late_declaration.why_kept(model, own) is not None


def made(model: Model, application: Application) -> None:
    """The application is known now: pods that waited for its declaration are considered in this step."""
    if application.id in model.waiting_for_declaration:
        model.gangs_due[application.id] = None


def gang_of(model: Model, application: Application, own: OwnPod) -> Gang | None:
    """The gang of an application that this pod makes known: as it declares it, else as another pod does that is known
    already."""
    originator, gang = own, None
    if own.declares_gang or own.group is not None:
        gang = declaration.gang_for(model, own)
    if gang is None and application.id in model.declaring:
        for originator in late_declaration.declaring(model, application):
            if (gang := declaration.gang_for(model, originator)) is not None:
                break
    if gang is not None:
        gang.originator = originator
    return gang


def refusal(model: Model, application: Application, own: OwnPod) -> Waiting | None:
    """Why the pod has to wait for the end of a run of its application; None if it may join it."""
    if application.gang is None and not application.ending:
        return None
    return earlier_run.refusal(model, application, own)


def joined(model: Model, application: Application, own: OwnPod) -> None:
    """A real pod is one of the application."""
    note(model, own)
    if application.gang is not None or own.declares_gang:
        membership.joined(model, application, own)


def leaving(model: Model, application: Application, own: OwnPod) -> None:
    """The pod is about to leave its application: it has ended, or needs nothing any longer."""
    if application.gang is not None:
        membership.leaving(model, application, application.gang, own)


def left(model: Model, application: Application, own: OwnPod) -> None:
    """The pod is one of the application no longer."""
    _forget(application, own)
    if application.next_run or application.gang is not None:
        model.gangs_due[application.id] = None


def removed(model: Model, application: Application) -> None:
    """The daemon is told to remove the application, and may be about to place its pods."""
    if application.gang is not None:
        membership.removed(model, application)


def forget(model: Model, application: Application) -> None:
    """The application is over."""
    if application.gang is not None:
        membership.forget(model, application, application.gang)


def may_ask(own: OwnPod) -> bool:
    """Real pods of a gang wait until their placeholders are asked for."""
    gang = own.gang
    return gang is None or own.is_placeholder or membership.may_ask(gang)


def is_originator(own: OwnPod) -> bool:
    gang = own.gang
    return gang is not None and gang.originator is own


def priority(model: Model, own: OwnPod) -> int:
    """Of its PodGroup, if that has one, else its own."""
    known = declaration.known_group(model, own.group) if own.group is not None else None
    if known is not None and known.priority is not None:
        return known.priority
    return own.pod.spec.priority or 0


def first_pod(application: Application) -> OwnPod:
    """The one whose tags the application gets."""
    if application.gang is not None and application.gang.originator is not None:
        return application.gang.originator
    real = (own for own in application.pods.values() if not own.is_placeholder)
    return next(real, next(iter(application.pods.values())))  # a placeholder may be one of a gang of before


def with_gang(model: Model, application: Application, added: AddApplication) -> AddApplication:
    """The application as it is added, with what is still to be held for its gang and what it has already."""
    return added if application.gang is None else membership.with_gang(model, application.gang, added)


def gang_tags(application: Application) -> dict[str, str]:
    """The task groups of its gang, as a tag, if the daemon is to hold their room without placeholder pods."""
    gang = application.gang
    return {} if gang is None or not gang.tag else {TASK_GROUPS_TAG: gang.tag}


def _forget(application: Application, own: OwnPod) -> None:
    application.running.pop(own.uid, None)
    application.ending.pop(own.uid, None)
