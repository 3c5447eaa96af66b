"""Applications follow the annotations of their namespace, and their PodGroup: the daemon is told of them again, with
other tags."""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.cluster.effects import AddApplication
from schedulerd.kubernetes.cluster.gangs import door
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.metadata.namespaces import NO_TAGS

TELL_AGAIN_NS = 3_600 * SECOND_NS
"""The API server forgets an event after an hour."""
_TAG_PREFIX = "namespace."


def tell(model: Model, application: Application, added: AddApplication) -> None:
    """The daemon is told of the application as it is now."""
    model.unanswered[application.id] = model.unanswered.get(application.id, 0) + 1
    application.added = added
    model.effects.append(added)


def tell_problems(model: Model, application: Application, own: OwnPod) -> None:
    """Warns of annotations that are ignored: a quota with a mistake is none, which nobody else would notice."""
    application.problems_told = model.namespaces.get(application.namespace, NO_TAGS).problems
    application.problems_due_ns = model.now_ns + TELL_AGAIN_NS
    for problem in application.problems_told:
        _warn(model, own, problem)


def tell_other_problems(model: Model, application: Application) -> None:
    """The annotations have changed, and may have another mistake, also if the tags are what they were."""
    problems = model.namespaces.get(application.namespace, NO_TAGS).problems
    if application.pods and problems != application.problems_told:
        tell_problems(model, application, door.first_pod(application))


def joined(model: Model, application: Application, own: OwnPod, *, is_first: bool) -> None:
    """Another pod is one of the application, which may be weeks old. The first pod is told when it is submitted.
    `is_first`: it had no pods for a while, and has not followed its namespace meanwhile."""
    if is_first:
        tell_other_problems(model, application)
        follow(model, application)
    if application.added is not None and model.now_ns >= application.problems_due_ns:
        tell_problems(model, application, own)


def has_other_tags(model: Model, application: Application) -> bool:
    """The namespace, or what declares its gang, says something else than the daemon was told of the application."""
    return application.added is not None and _now(model, application, application.added) != application.added


def _now(model: Model, application: Application, old: AddApplication) -> AddApplication:
    """What the daemon would be told of the application now."""
    found = model.namespaces.get(application.namespace, NO_TAGS)
    tags = {name: text for name, text in old.tags.items() if not name.startswith(_TAG_PREFIX)}
    return replace(old, tags={**tags, **found.tags, **door.gang_tags(application)})


def follow(model: Model, application: Application) -> None:
    """Tells the daemon of other tags, if it has answered the last ones."""
    old = application.added
    if old is None or application.state is not ApplicationState.ACCEPTED or application.is_changing:
        return
    if not application.pods or not has_other_tags(model, application):
        return
    changed = _now(model, application, old)
    if changed == application.taken:  # to tell what the daemon has already would be an id that is in use
        application.added = changed
        return
    application.is_changing = True
    tell(model, application, changed)


def change_answered(model: Model, application: Application, problem: str = "") -> None:
    """The daemon has taken the other tags, or has not, for this reason; the application goes on in either case."""
    application.is_changing = False
    if not problem:
        application.taken = application.added
    elif application.pods:
        _warn(model, door.first_pod(application), problem)
    follow(model, application)


def _warn(model: Model, own: OwnPod, problem: str) -> None:
    model.record(own, "NamespaceAnnotation", "Scheduling", f"namespace: {problem}", is_warning=True)
