"""Which pods may join an application, and what they say that does not count there.

An application has the namespace, the user and the queue of its first pod: its pods use that queue, and the limits of
that user. A pod of another user that names the application waits. A pod that names no application, and so belongs to
the one of its namespace, joins it, as it could wait for ever. A pod without a user, or with a service account of its
namespace as user, counts as one of the application's user: Spark makes executors with such an account.

A pod that has its node is there, and always joins an application of its namespace. So pods of other users are there
only with a node, which somebody else has given them: the daemon has placed none. That decides at a start whose
application it is. Age alone does not: an older pod without a node may be one that waits for the end of that very
application.
"""

from __future__ import annotations

import re

from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.metadata.pods import NOBODY, User, default_application_ids, is_placed
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.reasons.waiting import Waiting, held

_SERVICE_ACCOUNT = "system:serviceaccount"
_NAMESPACE_ID = re.compile(r"yunikorn-(.+-autogen|.{52,54})")
"""Ids of applications of whole namespaces; those of long names are cut at 63 characters, and lose what no label may
end with."""
_UID_LENGTH = 36


def made_by(model: Model, own: OwnPod) -> Application:
    """The application that the pod makes known as its first one."""
    said = own.metadata
    return Application(said.application_id, own.pod.metadata.namespace, said.queue, _user(model, own))


def _user(model: Model, own: OwnPod) -> User:
    """The user that the pod names. One that names none, or a service account of its namespace, has the user of the pod
    that owns it: Spark's driver makes executors, which may be in a PodGroup without the driver."""
    user = own.metadata.user
    if user is not None and not _is_service_account(user, own):
        return user
    for reference in own.pod.metadata.owner_references or ():
        owner = model.pods.get(reference.uid) if reference.kind == "Pod" else None
        if owner is not None and owner.pod.metadata.namespace == own.pod.metadata.namespace and owner.metadata.user:
            return owner.metadata.user
    return user or User(NOBODY)


def _is_service_account(user: User, own: OwnPod) -> bool:
    """The user is a service account of the namespace of the pod."""
    return user.name.startswith(f"{_SERVICE_ACCOUNT}:{own.pod.metadata.namespace}:")


def refusal(model: Model, application: Application, own: OwnPod, *, is_known: bool = True) -> Waiting | None:
    """Why the pod may not join the application; None if it may. While no pod has made it known, one with a node can
    wait as well: there is nothing that it would be counted for."""
    namespace = own.pod.metadata.namespace
    what_to_do = "the pod waits until it has ended, or needs another application id"
    if application.namespace != namespace and not model.settings.shares_applications:
        note = f"application {application.id.name!r} is one of namespace {application.namespace!r}: {what_to_do}"
        return held(note, "ApplicationOfOtherNamespace", is_about_nodes=False)
    if (own.node and is_known) or not is_of_other_user(model, application, own):
        return None
    user = _other_user(application, own)
    note = f"application {application.id.name!r} is one of user {application.user.name!r}, not {user!r}: {what_to_do}"
    return held(note, "ApplicationOfOtherUser", is_about_nodes=False)


def foreign_id(model: Model, own: OwnPod) -> Waiting | None:
    """Why the pod may not name its application: where ids are bare, those that are made for the pods of another
    namespace are kept for them, as anybody could guess and take them."""
    settings, name, namespace = model.settings, own.metadata.application_id.name, own.pod.metadata.namespace
    if settings.application_ids is not ApplicationIds.BARE or settings.shares_applications:
        return None
    if own.group is not None or not _is_made_for_others(model, name, namespace):
        return None
    note = f"application id {name!r} is kept for pods of another namespace: the pod needs another application id"
    return held(note, "ApplicationOfOtherNamespace", is_about_nodes=False)


def _is_made_for_others(model: Model, name: str, namespace: str) -> bool:
    for source in (GangSource.COSCHEDULING, GangSource.KUBERNETES):
        if name.startswith(f"{source.value}."):
            return not name.startswith(f"{source.value}.{namespace}.")
    if _NAMESPACE_ID.fullmatch(name):
        return name not in default_application_ids(namespace)
    pod = model.pods.get(name[-_UID_LENGTH:])
    return pod is not None and pod.metadata.application_id.name == name and pod.pod.metadata.namespace != namespace


def is_of_other_user(model: Model, application: Application, own: OwnPod) -> bool:
    """The pod may not join the application without a node, and is none of its gang with one."""
    if model.settings.shares_users or application.id.name in default_application_ids(own.pod.metadata.namespace):
        return False
    return application.user.name != NOBODY and bool(_other_user(application, own))


def joins_after(model: Model, own: OwnPod, older: OwnPod) -> bool:
    """Whether the pod, which has a node, has to join after the older one, which waits and would lose its application:
    somebody else has bound it."""
    if is_placed(own.pod) or _created(older) >= _created(own):
        return False
    return is_of_other_user(model, made_by(model, own), older)


def _created(own: OwnPod) -> int:
    return epoch_seconds(own.pod.metadata.creation_timestamp)


def tell_ignored(model: Model, application: Application, own: OwnPod) -> None:
    """Warns of a user and a queue that the pod names, and that its application does not have."""
    if own.node:
        return  # it was told before it got its node
    if user := _other_user(application, own):
        note = f"user {user!r} is ignored: application {application.id.name!r} is one of user {application.user.name!r}"
        model.record(own, "UserIgnored", "Scheduling", note, is_warning=True)
    queue = own.metadata.queue
    if queue and queue.lower() != application.queue.lower():
        where = f"in queue {application.queue!r}" if application.queue else "where placement rules have put it"
        note = f"queue {queue!r} is ignored: application {application.id.name!r} is {where}"
        model.record(own, "QueueIgnored", "Scheduling", note, is_warning=True)


def _other_user(application: Application, own: OwnPod) -> str:
    """The user that the pod names, if it is not the application's; empty otherwise."""
    user = own.metadata.user
    if user is None or user.name == application.user.name:
        return ""
    return "" if _is_service_account(user, own) else user.name
