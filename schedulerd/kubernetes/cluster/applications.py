"""Applications: pods join and leave them, and the daemon is told of them with their first pod.

| state | entered by | left by |
|---|---|---|
| FORMING | the first pod of a gang | enough pods of the gang exist |
| SUBMITTED | the first ask of a pod | the daemon's answer |
| ACCEPTED | the daemon accepts it | Completed (forgotten, or submitted again if pods are left), Failed |
| WAITING | the daemon rejects it, or it fails | a timer, other tags of its namespace, a daemon without its state |

The daemon completes an application by itself. Only one that may never have had an ask is removed from here.

An application begins anew, as its first pod says, when no pod is left and the next one says something else, and when it
is submitted again after it was WAITING: a queue or gang that was corrected has to count.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import joining, namespace_following
from schedulerd.kubernetes.cluster.effects import AddApplication, RemoveApplication
from schedulerd.kubernetes.cluster.gangs import door, earlier_run, membership
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.metadata.gangs import task_group_name
from schedulerd.kubernetes.metadata.namespaces import NO_TAGS
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.reasons.sentences import for_pod
from schedulerd.kubernetes.reasons.waiting import Waiting

FORCE_CREATE_TAG = "application.create.force"
CREATION_TIME_TAG = "yunikorn.apache.org/creationTime"
RETRY_FIRST_NS = 60 * SECOND_NS
RETRY_MOST_NS = 30 * 60 * SECOND_NS
CORRECTED_FIRST_NS = SECOND_NS
"""From one submission to the next, if the first pod has left, and the one after it names another queue or user. Doubled
each time, as all pods that are left are asked for again."""


def join(model: Model, own: OwnPod) -> None:
    """The pod becomes one of its application, which is submitted if it is new; a pod that may not join waits for the
    end of that application."""
    if own.application is not None:
        return
    if own.is_placeholder:
        membership.adopt(model, own)
        return
    if joining.foreign_id(model, own) is not None:
        return
    application = model.applications.get(own.metadata.application_id)
    if application is None:
        if door.is_kept(model, own):
            return
        application = _made(model, own)
    elif not own.node and not application.has_real_pods and _is_another_run(model, application, own):
        application.corrections = 0
        _begin_anew(model, application, own)
    elif joining.refusal(model, application, own) is not None:
        application.others[own.uid] = own
        return
    elif door.refusal(model, application, own) is not None:
        earlier_run.wait(application, own)
        return
    else:
        application.others.pop(own.uid, None)
        application.next_run.pop(own.uid, None)
        application.pods[own.uid] = own
        namespace_following.joined(model, application, own, is_first=len(application.pods) == 1)
        joining.tell_ignored(model, application, own)
    own.application = application
    door.joined(model, application, own)


def has_joined(own: OwnPod) -> bool:
    """The pod is in an application, and that does not wait to be added again."""
    return own.application is not None and own.application.state is not ApplicationState.WAITING


def leave(model: Model, own: OwnPod) -> list[OwnPod]:
    """The pod is gone, or needs nothing any longer. Returns the pods that can be considered now."""
    application = own.application
    if application is None:
        waiting = model.applications.get(own.metadata.application_id)
        if waiting is not None:
            waiting.others.pop(own.uid, None)
            waiting.next_run.pop(own.uid, None)
        return []
    door.leaving(model, application, own)
    own.application = None
    del application.pods[own.uid]
    door.left(model, application, own)
    if application.state is ApplicationState.WAITING:
        return _left_waiting(model, application, own)
    if application.pods:
        return []
    if application.state is ApplicationState.FORMING:
        return forget(model, application)
    if application.has_started and application.state is ApplicationState.ACCEPTED:
        return []  # the daemon completes it
    model.effects.append(RemoveApplication(application.id))
    door.removed(model, application)
    return forget(model, application)


def why_waits(model: Model, own: OwnPod) -> Waiting | None:
    """Why the pod has not joined an application, though nothing is wrong with it."""
    if own.application is not None:
        return for_pod(own.application.problem, own.metadata.queue)
    application = model.applications.get(own.metadata.application_id)
    if application is None:
        return None
    return joining.refusal(model, application, own) or door.refusal(model, application, own)


def forget(model: Model, application: Application) -> list[OwnPod]:
    """The application ends; the pods that waited for that."""
    del model.applications[application.id]
    door.forget(model, application)
    others = [*application.next_run.values(), *application.others.values()]
    application.next_run.clear()
    application.others.clear()
    return others


def submit(model: Model, application: Application) -> None:
    application.state, application.submitted_ns = ApplicationState.SUBMITTED, model.now_ns
    application.has_started = application.is_changing = False
    application.problem, application.failing, application.taken = None, "", None
    namespace_following.tell(model, application, _add(model, application))


def is_last_answer(model: Model, application_id: ApplicationId) -> bool:
    """The answer is one to the newest submission: an application may be removed and made again before that."""
    left = model.unanswered.pop(application_id, 1) - 1
    if left:
        model.unanswered[application_id] = left
    return not left


def wait(model: Model, application: Application, problem: Waiting) -> None:
    """It was rejected or has failed: it is added again later, less and less often."""
    application.state = ApplicationState.WAITING
    application.problem, application.problem_ns = problem, model.now_ns
    delay_ns = _backed_off(RETRY_FIRST_NS, application.failures, RETRY_MOST_NS)
    application.failures += 1
    _try_again(model, application, model.now_ns + delay_ns)


def _backed_off(first_ns: int, times: int, most_ns: int) -> int:
    return min(first_ns << min(times, 10), most_ns)


def _try_again(model: Model, application: Application, at_ns: int) -> None:
    """Timers of earlier waits, which ring before that, say nothing."""
    application.again_ns = at_ns
    model.timers.set(at_ns, Due.ADD_APPLICATION, application.id)


def remove_and_wait(model: Model, application: Application, problem: Waiting) -> None:
    """The shim itself gives the application up, for a while."""
    model.effects.append(RemoveApplication(application.id))
    wait(model, application, problem)


def _made(model: Model, own: OwnPod) -> Application:
    application = joining.made_by(model, own)
    model.applications[application.id] = application
    application.pods[own.uid] = own
    application.gang = door.gang_of(model, application, own)
    if application.gang is None:
        submit(model, application)
    else:
        application.state = ApplicationState.FORMING
        membership.wait_for_withdrawals(model, application, application.gang)
    door.made(model, application)
    return application


def _follows_another_pod(own: OwnPod) -> bool:
    """It only names its task group."""
    return bool(task_group_name(own.pod.metadata)) and not own.declares_gang


def _left_waiting(model: Model, application: Application, left: OwnPod) -> list[OwnPod]:
    """The application is what its first pod says: without the one that had the wrong queue it may be accepted, and is
    submitted again soon. Returns the pods that can be considered now."""
    if not application.pods:
        waits = application.others or application.next_run
        return forget(model, application) if waits else []  # it waits for pods that a controller makes
    first = _first_to_place(application)
    if first is None or left.is_placeholder or left.failure is not None or _follows_another_pod(first):
        return []
    if _origin(joining.made_by(model, first)) != _origin(application):
        pause_ns = _backed_off(CORRECTED_FIRST_NS, application.corrections, RETRY_FIRST_NS)
        _try_again(model, application, max(model.now_ns, application.submitted_ns + pause_ns))
    return []


def begin_anew_if_other(model: Model, application: Application) -> bool:
    """Whether the application begins anew, as its first pod says something else than the daemon was told."""
    first = _first_to_place(application)
    if first is None or not _says_something_else(model, application, first):
        return False
    application.corrections += 1
    _begin_anew(model, application, first)
    return True


def _first_to_place(application: Application) -> OwnPod | None:
    first = next((own for own in application.pods.values() if not own.is_placeholder), None)
    return None if first is None or first.node or first.failure is not None else first


def _origin(application: Application) -> tuple[str, str, object]:
    return application.namespace, application.queue, application.user


def _is_another_run(model: Model, application: Application, own: OwnPod) -> bool:
    """No pod is left of what was there. A gang that has run is begun anew, as the daemon counts the time of a gang, and
    what is held for it, from the submission on."""
    return earlier_run.is_over(application) or _says_something_else(model, application, own)


def _says_something_else(model: Model, application: Application, own: OwnPod) -> bool:
    """As its first pod it would make another application."""
    if _follows_another_pod(own):
        return False
    made = joining.made_by(model, own)
    if _origin(made) != _origin(application):
        return True
    if own.group is not None:
        return False  # a PodGroup that has changed changes nothing
    gang, old = door.gang_of(model, made, own), application.gang
    return (gang and gang.declaration) != (old and old.declaration)


def _begin_anew(model: Model, application: Application, first: OwnPod) -> None:
    """The daemon forgets the application as it was, and is told of it as this pod says."""
    if application.state not in (ApplicationState.FORMING, ApplicationState.WAITING):
        model.effects.append(RemoveApplication(application.id))
    door.forget(model, application)
    made = joining.made_by(model, first)
    application.namespace, application.queue, application.user = made.namespace, made.queue, made.user
    application.pods[first.uid] = first
    application.others.pop(first.uid, None)
    application.next_run.pop(first.uid, None)
    application.failures, application.is_changing = 0, False
    application.gang = door.gang_of(model, application, first)
    if application.gang is None:
        submit(model, application)
    else:
        application.state, application.problem = ApplicationState.FORMING, None
        membership.form_later(model, application, application.gang, model.now_ns + membership.FORM_AGAIN_NS)
    door.made(model, application)
    for own in (*application.next_run.values(), *application.others.values()):  # it may be theirs now
        model.timers.set(model.now_ns, Due.ASK_AGAIN, own.uid)
    application.next_run.clear()
    application.others.clear()
    for own in [own for own in application.pods.values() if own is not first and not own.is_placeholder]:
        if own.node or joining.refusal(model, application, own) is None:
            joining.tell_ignored(model, application, own)
        else:  # it waits for the end of what is another user's application now
            del application.pods[own.uid]
            own.application = None
            model.timers.set(model.now_ns, Due.ASK_AGAIN, own.uid)


def _add(model: Model, application: Application) -> AddApplication:
    first = door.first_pod(application)
    found = model.namespaces.get(application.namespace, NO_TAGS)
    tags = {**found.tags, **_tags(first.pod)}
    if any(own.node and (own.slot is not None or not own.is_placeholder) for own in application.pods.values()):
        tags[FORCE_CREATE_TAG] = "true"
    namespace_following.tell_problems(model, application, first)
    user = application.user
    added = AddApplication(
        application.id, application.queue, user.name, user.groups, tags, asked_at_ns=_oldest_ns(model, application)
    )
    return door.with_gang(model, application, added)


def _oldest_ns(model: Model, application: Application) -> int:
    """When the oldest of its pods that are known was created; not in the future."""
    created_s = [epoch_seconds(own.pod.metadata.creation_timestamp) for own in application.pods.values()]
    if application.id in model.oldest_at_start:
        created_s.append(model.oldest_at_start[application.id])
    return min(min(created_s, default=0) * SECOND_NS, model.epoch_ns + model.now_ns)


def _tags(pod: Pod) -> dict[str, str]:
    tags = {"namespace": pod.metadata.namespace, CREATION_TIME_TAG: str(epoch_seconds(pod.metadata.creation_timestamp))}
    if pod.spec.image_pull_secrets:
        tags["imagePullSecrets"] = ",".join(secret.name for secret in pod.spec.image_pull_secrets)
    return tags
