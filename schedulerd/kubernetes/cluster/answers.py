"""What the daemon says of applications and asks."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, asking, conditions, namespace_following, pods
from schedulerd.kubernetes.cluster.effects import RemoveApplication
from schedulerd.kubernetes.cluster.events import (
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    AskRejected,
    AskReleased,
    AskTimedOut,
    QueueNameUnused,
    ReportBegun,
)
from schedulerd.kubernetes.cluster.gangs import answers as gang_answers
from schedulerd.kubernetes.cluster.gangs import life, slots
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangStage
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import UNALLOCATED, PodState, PodTrigger
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.reasons.sentences import REJECTED, for_pod
from schedulerd.kubernetes.reasons.waiting import held

_COMPLETED = "Completed"
_FAILED = frozenset({"Failed", "Rejected"})
_EXPIRED = "Expired"
"""An application that has ended days before is forgotten. Its id may be that of another one now."""
_FAILING = "Failing"
_NEW = "New"
_RUN_STATES = frozenset({"Starting", "Running"})
"""A gang that only waits has not succeeded yet."""


def application_accepted(model: Model, event: ApplicationAccepted) -> None:
    if not applications.is_last_answer(model, event.application_id):
        return
    application = model.applications.get(event.application_id)
    if application is None:
        return
    if application.is_changing:
        namespace_following.change_answered(model, application)
        return
    if application.state is ApplicationState.SUBMITTED:
        application.state, application.taken = ApplicationState.ACCEPTED, application.added
        if application.gang is not None or application.next_run:
            model.gangs_due[application.id] = None
    namespace_following.follow(model, application)  # its annotations may have changed before the daemon lost its state


def application_rejected(model: Model, event: ApplicationRejected) -> None:
    if not applications.is_last_answer(model, event.application_id):
        return
    application = model.applications.get(event.application_id)
    if application is None:
        return
    if application.is_changing:
        namespace_following.change_answered(model, application, event.reason)
    elif application.state not in (ApplicationState.WAITING, ApplicationState.FORMING):
        _fail(model, application, REJECTED, event.reason, is_rejected=True)


def queue_name_unused(model: Model, event: QueueNameUnused) -> None:
    """A pod of the application is told, the first one that names a queue."""
    application = model.applications.get(event.application_id)
    own = next((one for one in application.pods.values() if one.metadata.queue), None) if application else None
    if own is not None:
        note = f"the application is in queue {event.queue!r}: {event.message}"
        model.record(own, "QueueIgnored", "Scheduling", note, is_warning=True)


def report_begun(model: Model, event: ReportBegun) -> None:
    """What the daemon has not answered yet it will never answer; but it answers the whole report. What it has rejected
    is tried at once, as its queue file may be another one."""
    model.unanswered = dict.fromkeys(event.applications, 1)
    for application in model.applications.values():
        if application.is_changing:
            application.taken = application.added  # the change is in the report
        application.has_started = application.is_changing = False
    nodes = model.nodes
    nodes.unanswered = set(event.nodes)
    nodes.to_remove &= nodes.unanswered
    for report in nodes.known.values():
        if not report.is_created:
            report.failures = 0
            nodes.changed[report.name] = None
    for application in [one for one in model.applications.values() if one.state is ApplicationState.WAITING]:
        application.failures = application.corrections = 0
        _add_again(model, application)


def resynced(model: Model) -> None:
    """The daemon was told everything anew: an application without pods has nothing that would end it there."""
    for application in model.applications.values():
        if application.gang is not None and application.gang.stage is GangStage.ABANDONED:
            application.has_started = False  # only placeholders are left, and they do not end it there
    for application in [one for one in model.applications.values() if not one.pods]:
        if application.state is ApplicationState.ACCEPTED:
            model.effects.append(RemoveApplication(application.id))
            asking.consider_all(model, applications.forget(model, application))


def application_updated(model: Model, event: ApplicationUpdated) -> None:
    application = model.applications.get(event.application_id)
    if application is None or event.state == _EXPIRED:
        return
    if application.state in (ApplicationState.WAITING, ApplicationState.FORMING):
        return  # the daemon has been told of none, or means the one before
    if event.application_id in model.unanswered and not application.is_changing:
        return  # an earlier application of this id
    if application.is_changing and (event.state == _COMPLETED or event.state in _FAILED):
        # The other tags come to the daemon behind that end, and make a new application that nothing would end.
        application.is_changing = False
        model.effects.append(RemoveApplication(application.id))
    said = event.message if application.gang is None else life.in_words(model, application, event.message)
    if event.state == _COMPLETED:
        _completed(model, application)
    elif event.state in _FAILED:
        message = application.failing or said or f"the application is {event.state}"
        _fail(model, application, "ApplicationFailed", message)
    elif event.state != _NEW:
        application.has_started = True
        application.failing = said if event.state == _FAILING else ""
        if application.gang is None or event.state in _RUN_STATES:
            application.failures = application.corrections = 0
        if application.gang is not None:
            life.updated(model, application, application.gang, event.state, said)


def add_application_again(model: Model, application_id: ApplicationId) -> None:
    """The back-off of an application is over, unless this is the timer of an earlier one."""
    application = model.applications.get(application_id)
    if application is not None and application.again_ns <= model.now_ns:
        _add_again(model, application)


def _add_again(model: Model, application: Application) -> None:
    if application.state is not ApplicationState.WAITING:
        return
    if not application.pods:
        asking.consider_all(model, applications.forget(model, application))
    elif applications.begin_anew_if_other(model, application):
        asking.consider_all(model, list(application.pods.values()))
    else:
        _resubmit(model, application)


def namespace_changed(model: Model, namespace: str) -> None:
    """Applications of the namespace follow its annotations. One that waits is tried at once, as the daemon has rejected
    it with other ones."""
    for application in [one for one in model.applications.values() if one.namespace == namespace]:
        namespace_following.tell_other_problems(model, application)
        if application.state is not ApplicationState.WAITING:
            namespace_following.follow(model, application)
        else:
            _follow_while_waiting(model, application)


def _follow_while_waiting(model: Model, application: Application) -> None:
    if namespace_following.has_other_tags(model, application):
        application.failures = 0
        _add_again(model, application)


def ask_rejected(model: Model, event: AskRejected) -> None:
    own = _asked(model, event.application_id, event.key)
    if own is not None:
        if own.slot is not None:
            slots.stand_in(model, own)
        asking.rejected(model, own, event.reason)
        return
    own = model.pods.get(event.key)
    if own is not None and own.uuid:
        own.amounts = {}  # they may be those of an earlier ask
        asking.rejected(model, own, event.reason)


def ask_released(model: Model, event: AskReleased) -> None:
    """A pod that still needs a node was asked for before the removal of an earlier application of this id had come, or
    is asked for again already; to repeat an ask changes nothing."""
    own = _asked(model, event.application_id, event.key)
    if own is not None:
        asking.consider(model, own, again=True)


def ask_timed_out(model: Model, event: AskTimedOut) -> None:
    if gang_answers.ask_timed_out(model, event):
        return
    own = _asked(model, event.application_id, event.key)
    if own is not None:
        asking.rejected(model, own, "the scheduler has given up the ask")


def ask_again(model: Model, uid: str) -> None:
    """A wait is over: after a rejection, or because a node need not be avoided any longer."""
    own = model.pods.get(uid)
    if own is None:
        return
    for node in [node for node, until_ns in own.avoided_nodes.items() if until_ns <= model.now_ns]:
        del own.avoided_nodes[node]
    if own.state in (PodState.ASKED, PodState.HELD):
        asking.consider(model, own, again=True)
    elif own.state is PodState.BOUND:
        pods.follow_resize(model, own)
    elif own.state is PodState.UNREPORTED and own.application is None:
        model.nodes.arrive(own.uid, own.node)  # the application that it names may be its own now


def _asked(model: Model, application_id: ApplicationId, key: str) -> OwnPod | None:
    own = model.pods.get(key)
    if own is None or own.state is not PodState.ASKED or own.application is None:
        return None
    return own if own.application.id == application_id else None


def _completed(model: Model, application: Application) -> None:
    """The daemon has forgotten it. Pods that came in that moment make it a new one."""
    if application.pods:
        _resubmit(model, application)
    else:
        asking.consider_all(model, applications.forget(model, application))


def _resubmit(model: Model, application: Application) -> None:
    if application.gang is not None:
        life.form_anew(model, application, application.gang)
        return
    applications.submit(model, application)
    for own in list(application.pods.values()):
        if own.state in (PodState.ASKED, PodState.HELD):
            model.stop_asking(own, PodTrigger.WAIT)
            asking.consider(model, own)
        elif own.state in UNALLOCATED:
            model.nodes.arrive(own.uid, own.node)


def _fail(model: Model, application: Application, reason: str, message: str, *, is_rejected: bool = False) -> None:
    """Pods without a node keep waiting, and the application is added again later. One without pods, for whose end
    others wait, is forgotten instead."""
    if not application.pods and (application.others or application.next_run):
        asking.consider_all(model, applications.forget(model, application))
        return
    why = held(message, reason, is_about_nodes=False)
    applications.wait(model, application, why)
    for own in application.pods.values():
        waits_for_gang = own.state is PodState.HELD and application.gang is not None
        if own.state is PodState.ASKED:
            model.stop_asking(own, PodTrigger.WAIT)
            model.stop_using_class(own)
        elif not waits_for_gang:
            continue
        if not own.is_placeholder:
            conditions.waits(model, own, for_pod(why, own.metadata.queue) or why)
    if application.gang is not None:
        life.failed(model, application, application.gang, message, is_rejected=is_rejected)
    if is_rejected:
        _follow_while_waiting(model, application)  # its namespace may have changed before the daemon answered
