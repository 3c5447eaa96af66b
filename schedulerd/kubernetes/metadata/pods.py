"""What a pod says to the scheduler beside its resources: application, queue, user, preemption, required node."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.metadata import foreign
from schedulerd.kubernetes.metadata.application_ids import ApplicationId, ApplicationIds
from schedulerd.kubernetes.metadata.names import (
    ALLOW_PREEMPTION,
    APP_ID,
    APP_ID_LABELS,
    OWN_PREFIX,
    QUEUE,
    QUEUE_LABELS,
    USER_INFO,
    Found,
    annotation,
    find,
)
from schedulerd.kubernetes.objects.cluster import PriorityClass
from schedulerd.kubernetes.objects.pod import Pod

APP_ID_LENGTH_MAX = 63
UNIQUE_SUFFIX = "-uniqueautogen"
"""Of an application id: is replaced by the uid of the pod, which an admission controller does not know yet."""
_NAMESPACE_IN_ID_MAX = 26
NOBODY = "nobody"
PLACED = OWN_PREFIX + "placed"
"""Annotation that a pod gets with its node: its uid, if schedulerd has bound it. A copy of the pod has another uid."""
_NAME_FIELD = "metadata.name"


class _UserInfo(msgspec.Struct):
    user: str = ""
    groups: tuple[str, ...] | None = None


_USER_INFO = msgspec.json.Decoder(_UserInfo)


class User(msgspec.Struct, frozen=True, gc=False):
    name: str
    groups: tuple[str, ...] = ()


class PodMetadata(msgspec.Struct, frozen=True, gc=False):
    application_id: ApplicationId
    queue: str
    """Empty: placement rules decide."""
    user: User | None
    """None: the pod names none."""
    problems: tuple[str, ...] = ()
    """Sentences for a warning: values that were ignored, and why."""


def read_metadata(
    pod: Pod, *, one_application_per_pod: bool = False, ids: ApplicationIds = ApplicationIds.NAMESPACED
) -> PodMetadata:
    """`one_application_per_pod`: pods that name no application get one each, not one for their namespace."""
    metadata = pod.metadata
    application, queue = find(metadata, APP_ID, APP_ID_LABELS), find(metadata, QUEUE, QUEUE_LABELS)
    user, user_problem = _user(annotation(metadata, USER_INFO))
    problems = [*_ignored(application, "application id"), *_ignored(queue, "queue"), *foreign.ignored(metadata)]
    if user_problem:
        problems.append(user_problem)
    namespace = metadata.namespace if ids is ApplicationIds.NAMESPACED else ""
    application_id = ApplicationId(namespace, _name(pod, application.value, one_application_per_pod))
    return PodMetadata(application_id, queue.value, user, tuple(problems))


def may_be_preempted(pod: Pod, priority_class: PriorityClass | None) -> bool:
    """The annotation of the pod decides; without one, `false` at its priority class opts out."""
    said = annotation(pod.metadata, ALLOW_PREEMPTION)
    if said in ("true", "false"):
        return said == "true"
    return priority_class is None or annotation(priority_class.metadata, ALLOW_PREEMPTION) != "false"


def may_preempt(pod: Pod) -> bool:
    return pod.spec.preemption_policy != "Never"


def daemon_set_named(pod: Pod) -> str:
    """Uid of the DaemonSet that the pod names as its controller; empty if it names none. Whoever creates a pod can
    write that, so it says nothing without a look at the DaemonSet (`DaemonSets.required_node`)."""
    for owner in pod.metadata.owner_references or ():
        if owner.controller:
            return owner.uid if owner.kind == "DaemonSet" and owner.api_version.startswith("apps/") else ""
    return ""


def only_node(pod: Pod) -> str:
    """The node that every term of the required node affinity names, as the controller of DaemonSets writes them; empty
    if they name none, or different ones."""
    node_affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = node_affinity.required if node_affinity is not None else None
    found = ""
    for term in (required.node_selector_terms or ()) if required is not None else ():
        fields = [one for one in term.match_fields or () if one.key == _NAME_FIELD and one.operator == "In"]
        values = {value for one in fields for value in one.values or ()}
        if len(values) != 1 or found not in ("", *values):
            return ""
        (found,) = values
    return found


def is_placed(pod: Pod) -> bool:
    """The pod says that schedulerd has bound it."""
    annotations = pod.metadata.annotations
    return annotations is not None and annotations.get(PLACED) == pod.metadata.uid and bool(pod.spec.node_name)


def default_application_ids(namespace: str) -> tuple[str, str]:
    """Of all pods of the namespace that name no application: as it is made here, and as the label that admission
    webhooks write."""
    whole = f"yunikorn-{namespace}-autogen"[:APP_ID_LENGTH_MAX]
    return whole, whole.rstrip("-._")  # a label has to end with a letter or digit


def _name(pod: Pod, given: str, one_per_pod: bool) -> str:
    metadata = pod.metadata
    if given.endswith(UNIQUE_SUFFIX):
        own = f"-{metadata.uid}"
        return given.removesuffix(UNIQUE_SUFFIX)[: max(0, APP_ID_LENGTH_MAX - len(own))] + own
    if given:
        return given[:APP_ID_LENGTH_MAX]
    if one_per_pod:
        return f"{metadata.namespace[:_NAMESPACE_IN_ID_MAX]}-{metadata.uid}"[:APP_ID_LENGTH_MAX]
    return default_application_ids(metadata.namespace)[0]


def _ignored(found: Found, what: str) -> list[str]:
    if not found.ignored:
        return []
    return [f"{what} {found.value!r} of {found.source} is used; {', '.join(found.ignored)} differ and are ignored"]


def _user(text: str) -> tuple[User | None, str]:
    """The user that the annotation names, and what is wrong with it."""
    if not text:
        return None, ""
    try:
        said = _USER_INFO.decode(text)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return None, f"annotation {USER_INFO} cannot be read and is ignored: {error}"
    if not said.user:
        return None, f"annotation {USER_INFO} names no user and is ignored"
    return User(said.user, said.groups or ()), ""
