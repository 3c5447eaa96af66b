"""What the daemon says of applications and asks."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, asking
from schedulerd.kubernetes.cluster.effects import ReleaseAsk, RemoveApplication
from schedulerd.kubernetes.cluster.events import (
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    AskRejected,
    AskTimedOut,
)
from schedulerd.kubernetes.cluster.gangs import answers as gang_answers
from schedulerd.kubernetes.cluster.gangs import life
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod, PodState
from schedulerd.kubernetes.cluster.timers import Due

ASKS_AGAIN_MAX = 100
"""Refused pods that are asked for again at once."""
ASKS_AGAIN_EVERY_NS = 1_000_000_000

_COMPLETED = "Completed"
_FAILED = frozenset({"Failed", "Rejected", "Expired"})
_NEW = "New"
_RUN_STATES = frozenset({"Starting", "Running"})
"""A gang that only waits has not succeeded yet."""


def application_accepted(model: Model, event: ApplicationAccepted) -> None:
    if not applications.is_last_answer(model, event.application_id):
        return
    application = model.applications.get(event.application_id)
    if application is not None and application.state is ApplicationState.SUBMITTED:
        application.state = ApplicationState.ACCEPTED


def application_rejected(model: Model, event: ApplicationRejected) -> None:
    if not applications.is_last_answer(model, event.application_id):
        return
    application = model.applications.get(event.application_id)
    if application is not None and application.state is not ApplicationState.WAITING:
        _fail(model, application, "ApplicationRejected", event.reason, is_rejected=True)


def resynced(model: Model) -> None:
    """The daemon was told everything anew: an application without pods has nothing that would end it there."""
    for application in model.applications.values():
        if application.gang is not None and application.gang.is_abandoned:
            application.has_started = False  # only placeholders are left, and they do not end it there
    for application in [one for one in model.applications.values() if not one.pods]:
        if application.state is ApplicationState.ACCEPTED:
            model.effects.append(RemoveApplication(application.id))
            asking.consider_all(model, applications.forget(model, application))


def application_updated(model: Model, event: ApplicationUpdated) -> None:
    application = model.applications.get(event.application_id)
    if application is None or application.state is ApplicationState.WAITING:
        return
    if event.application_id in model.unanswered:
        return  # an earlier application of this id
    if event.state == _COMPLETED:
        _completed(model, application)
    elif event.state in _FAILED:
        _fail(model, application, "ApplicationFailed", event.message or f"the application is {event.state}")
    elif event.state != _NEW:
        application.has_started = True
        if application.gang is None or event.state in _RUN_STATES:
            application.failures = 0
        life.updated(model, application, event.state, event.message)


def add_application_again(model: Model, application_id: str) -> None:
    """The back-off of an application is over."""
    application = model.applications.get(application_id)
    if application is None or application.state is not ApplicationState.WAITING:
        return
    if application.pods:
        _resubmit(model, application)
    else:
        asking.consider_all(model, applications.forget(model, application))


def ask_rejected(model: Model, event: AskRejected) -> None:
    if gang_answers.ask_rejected(model, event):
        return
    own = _asked(model, event.application_id, event.key)
    if own is not None:
        asking.rejected(model, own, event.reason)


def ask_timed_out(model: Model, event: AskTimedOut) -> None:
    if gang_answers.ask_timed_out(model, event):
        return
    own = _asked(model, event.application_id, event.key)
    if own is not None:
        asking.rejected(model, own, "the scheduler has given up the ask")


def ask_again(model: Model, uid: str) -> None:
    """A wait is over: after a rejection, or because a node need not be left out any longer."""
    own = model.pods.get(uid)
    if own is None:
        return
    for node in [node for node, until_ns in own.left_out.items() if until_ns <= model.now_ns]:
        del own.left_out[node]
    if own.state is PodState.ASKED:
        asking.consider(model, own, again=True)


def ask_refused_again(model: Model) -> None:
    """Pods that nodes refused because of other pods: some of those are gone."""
    for uid in list(model.refused)[:ASKS_AGAIN_MAX]:
        del model.refused[uid]
        own = model.pods.get(uid)
        if own is not None and own.state is PodState.ASKED:
            asking.consider(model, own, again=True)
    if model.refused:
        model.timers.set(model.now_ns + ASKS_AGAIN_EVERY_NS, Due.ASK_REFUSED)


def _asked(model: Model, application_id: str, key: str) -> OwnPod | None:
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
        application.state = ApplicationState.FORMING
        for own in application.pods.values():
            if own.state is PodState.ASKED and not own.is_placeholder:
                # Its ask may be on the way to the application of before, and must not wait for the next one.
                model.effects.append(ReleaseAsk(application.id, own.uid))
                own.state, own.ask = PodState.HELD, None
                asking.stop_using_class(model, own)
        life.start_over(model, application)
        return
    applications.submit(model, application)
    for own in list(application.pods.values()):
        if own.state in (PodState.ASKED, PodState.HELD):
            own.state, own.ask = PodState.HELD, None
            asking.consider(model, own)


def _fail(model: Model, application: Application, reason: str, message: str, *, is_rejected: bool = False) -> None:
    """Pods without a node keep waiting, and the application is added again later."""
    applications.wait(model, application)
    for own in application.pods.values():
        waits_for_gang = own.state is PodState.HELD and application.gang is not None
        if own.state is PodState.ASKED:
            own.state, own.ask = PodState.HELD, None
            asking.stop_using_class(model, own)
        elif not waits_for_gang:
            continue
        if not own.is_placeholder:
            model.record(own, reason, "Scheduling", message, is_warning=True)
    life.failed(model, application, message, is_rejected=is_rejected)
