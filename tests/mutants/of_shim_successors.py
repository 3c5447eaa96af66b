"""Mutants of the Kubernetes shim: pods that come in the place of others, and what is left of an application before."""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.cluster import answers, applications, asking, joining
from schedulerd.kubernetes.cluster.events import ApplicationUpdated
from schedulerd.kubernetes.cluster.gangs import answers as gang_answers
from schedulerd.kubernetes.cluster.gangs import door, late_declaration, membership
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from tests.kubernetes.cluster import (
    test_begun_anew,
    test_gang_bound_elsewhere,
    test_successors,
)
from tests.mutants.changes import By, Replaced, Within, gives, left_out, nothing
from tests.mutants.finders import TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule

SUCCESSORS = TestsOf(test_successors)
BEGUN_ANEW = TestsOf(test_begun_anew)


def without_originator(original: By, model: Model, application: Application, own: OwnPod) -> None:
    gang = application.gang
    had_none = gang is not None and gang.originator is None
    original(model, application, own)
    if gang is not None and had_none:
        gang.originator = None


def any_pod(original: By, application: Application) -> OwnPod:
    return next(iter(application.pods.values()))


def also_while_it_forms(original: By, model: Model, event: ApplicationUpdated) -> None:
    application = model.applications.get(event.application_id)
    if application is not None and application.state is ApplicationState.FORMING:
        application.state = ApplicationState.ACCEPTED
    original(model, event)


def also_when_forgotten(original: By, model: Model, event: ApplicationUpdated) -> None:
    original(model, replace(event, state="Failed") if event.state == "Expired" else event)


MUTANTS = (
    Mutant(
        "a gang whose last pod left together with the arrival of another one has no originator",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(membership.joined, without_originator),
        (SUCCESSORS,),
    ),
    Mutant(
        "an application is added with the tags of a placeholder that is left",
        Rule.SHIM_APPLICATIONS,
        Replaced(door.first_pod, any_pod),
        (SUCCESSORS,),
    ),
    Mutant(
        "a late end of the application before counts for a gang that is being formed",
        Rule.SHIM_APPLICATIONS,
        Replaced(answers.application_updated, also_while_it_forms),
        (SUCCESSORS,),
    ),
    Mutant(
        "an application fails when one of its id that has ended days before is forgotten",
        Rule.SHIM_APPLICATIONS,
        Replaced(answers.application_updated, also_when_forgotten),
        (SUCCESSORS,),
    ),
    Mutant(
        "pods of other users stay in an application that has become somebody's",
        Rule.SHIM_APPLICATIONS,
        Within(applications._begin_anew, joining.refusal, gives(None)),
        (SUCCESSORS,),
    ),
    Mutant(
        "a pod waits for ever for one that waited for a declaration and is gone",
        Rule.SHIM_GANGS,
        left_out(late_declaration.why_kept, late_declaration._wait),
        (SUCCESSORS,),
    ),
    Mutant(
        "each pod that leaves a rejected application has all others asked for again at once",
        Rule.SHIM_APPLICATIONS,
        Within(applications._left_waiting, applications._backed_off, gives(0)),
        (BEGUN_ANEW,),
    ),
    Mutant(
        "pods that wait for an application without pods wait until it is tried again",
        Rule.SHIM_APPLICATIONS,
        Within(answers._fail, asking.consider_all, nothing),
        (SUCCESSORS,),
    ),
    Mutant(
        "a gang goes on after its time if only stand-ins are left of it",
        Rule.SHIM_GANG_TIME,
        Replaced(gang_answers._stand_in_timed_out, gives(False)),
        (TestsOf(test_gang_bound_elsewhere),),
    ),
)
