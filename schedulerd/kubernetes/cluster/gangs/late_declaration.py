"""Pods of an application whose gang another pod declares, which may be seen later.

A controller makes the workers first, or a list has another order. Whatever pod makes the application known, the gang
is that of the oldest pod that declares one. A pod that names a task group waits a little for that pod, if there is none
yet, and nobody else takes its application meanwhile. None of this is so in the application of all pods of a namespace
that name none: one of them would decide for all others.

A wait ends by its timer alone, so after all events of a step: pods that are told together have no order, however late
they are told. A pod that declares a gang and is told after that is too late, by however little: no wait that ends can
exclude it. It joins, and an event says that its task groups are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.kubernetes.cluster import joining
from schedulerd.kubernetes.cluster.gangs import declaration, earlier_run
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.metadata.gangs import task_group_name
from schedulerd.kubernetes.metadata.pods import default_application_ids
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.reasons.waiting import Waiting, held

if TYPE_CHECKING:
    from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod

DECLARATION_WAIT_NS = 5 * SECOND_NS
"""From the creation of a pod on. Controllers make the pods of one application within a second or two."""
_OVER_NS = -1
"""Until when a pod waits that has waited long enough."""


def why_waits(model: Model, own: OwnPod) -> Waiting | None:
    """What the pod waits for before it can join its application; None if nothing."""
    if (why := why_kept(model, own)) is not None:
        return why
    if own.declares_gang or own.group is not None:
        problem = declaration.check(model, own) or declaration.missing_group(model, own)
        return held(problem) if problem else None
    problem = missing_declaration(model, own)
    return held(problem, declaration.FORMING_REASON, is_about_nodes=False) if problem else None


def missing_declaration(model: Model, own: OwnPod) -> str:
    """Why the pod has to wait for the one that declares its task group; empty if it need not, or no longer."""
    application_id = own.metadata.application_id
    if own.is_placeholder or own.application is not None:
        return ""
    group = task_group_name(own.pod.metadata)
    known = model.applications.get(application_id)
    if not group or (known is not None and not earlier_run.is_over(known)) or not _is_shared(own):
        return ""
    if application_id in model.declaring and _is_declared(model, own):
        return ""
    if _has_waited(model, own):
        return ""
    return (
        f"waits a few seconds for the pod that declares task group {group!r} of application {application_id.name!r}, "
        "and is scheduled without a gang if there is none"
    )


def _is_declared(model: Model, own: OwnPod) -> bool:
    """For each user once until another pod declares a gang: pods of others that do may be thousands."""
    made = joining.made_by(model, own)
    undeclared_for = model.undeclared_for.setdefault(made.id, set())
    if (made.namespace, made.user) in undeclared_for:
        return False
    if declaring(model, made):
        return True
    undeclared_for.add((made.namespace, made.user))
    return False


def _has_waited(model: Model, own: OwnPod) -> bool:
    """The pod has waited long enough; if it is new, its wait begins. By the clock of the API server, which may be
    ahead: no longer than from now on. A pod that is older waits until the end of this step, but not at a start, as all
    pods are known then."""
    application_id = own.metadata.application_id
    if own.uid not in model.waiting_for_declaration.get(application_id, {}):
        created_ns = epoch_seconds(own.pod.metadata.creation_timestamp) * SECOND_NS - model.epoch_ns
        due_ns = min(created_ns, model.now_ns) + DECLARATION_WAIT_NS
        if due_ns <= model.now_ns and not model.is_started:
            return True
        _wait(model, own, max(due_ns, model.now_ns))
    return _is_over(model, application_id, own.uid)


def _wait(model: Model, own: OwnPod, due_ns: int) -> None:
    model.waiting_for_declaration.setdefault(own.metadata.application_id, {})[own.uid] = due_ns
    model.timers.set(due_ns, Due.DECLARATION, own.uid)


def _is_over(model: Model, application_id: ApplicationId, uid: str) -> bool:
    return model.waiting_for_declaration[application_id][uid] == _OVER_NS


def due(model: Model, own: OwnPod) -> None:
    """The timer of the pod has rung. It may be that of an earlier wait."""
    waiting = model.waiting_for_declaration.get(own.metadata.application_id, {})
    if waiting.get(own.uid, model.now_ns + 1) <= model.now_ns:
        waiting[own.uid] = _OVER_NS


def _is_shared(own: OwnPod) -> bool:
    """Another pod may declare a gang for the application of this one."""
    application_id = own.metadata.application_id
    is_of_namespace = application_id.name in default_application_ids(own.pod.metadata.namespace)
    return not is_of_namespace and not application_id.name.endswith(f"-{own.uid}")


def why_kept(model: Model, own: OwnPod) -> Waiting | None:
    """A pod that waits for its declaration will make the application known: nobody else takes it meanwhile, with a node
    or without."""
    application_id = own.metadata.application_id
    waiting = model.waiting_for_declaration.get(application_id)
    if not waiting or own.is_placeholder or own.application is not None or application_id in model.applications:
        return None
    first, due_ns = next(iter(waiting.items()))
    if first == own.uid or _is_over(model, application_id, first):
        return None
    why = joining.refusal(model, joining.made_by(model, model.pods[first]), own, is_known=False)
    if why is not None and waiting.get(own.uid, _OVER_NS) == _OVER_NS:
        _wait(model, own, max(due_ns, model.now_ns + SECOND_NS))  # the first one may go before
    return why


def declaring(model: Model, application: Application) -> list[OwnPod]:
    """Pods that declare task groups for the application and may join it, oldest first."""
    if application.id.name in default_application_ids(application.namespace):
        return []
    uids = model.declaring.get(application.id, {})
    pods = [own for uid in uids if (own := model.pods.get(uid)) is not None]
    return sorted((own for own in pods if _may_declare(model, application, own)), key=declaration.age)


def _may_declare(model: Model, application: Application, own: OwnPod) -> bool:
    """Not a pod of somebody else, nor one that leaves without having run: that may be one of an earlier run."""
    about = own.pod.metadata
    is_leaving = about.deletion_timestamp is not None or own.failure is not None
    if about.namespace != application.namespace or (is_leaving and not own.pod.spec.node_name):
        return False
    return joining.refusal(model, application, own) is None


def take_waiting(model: Model, application: Application) -> list[OwnPod]:
    """These pods wait for the declaration no longer."""
    uids = model.waiting_for_declaration.pop(application.id, {})
    pods = [own for uid in uids if (own := model.pods.get(uid)) is not None]
    for own in pods:
        own.reason.waiting = None
    return pods
