"""Tags of asks and applications that mean something to the scheduler, where the interface has no field."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.facts.fact import RejectCode

PREDICATES_TAG = "schedulerd.io/predicates"
"""Tag of an ask: which predicate calls are made for it on the callback stream, if not all (SEMANTICS I18)."""
NO_PREDICATES = "none"
"""Value of that tag: no calls, neither before the ask is allocated nor before allocations are preempted for it."""
PREEMPTION_PREDICATES = "preemption"
"""Value of that tag: only calls about the victims, before allocations are preempted for the ask."""
ASKED_AT_TAG = "schedulerd.io/asked-at"
"""Tag of an ask: when it was made first; of an application: from when its age counts. In ns since the Unix epoch."""
VICTIMS_TAG = "schedulerd.io/victims"
"""Tag of an ask with a required node: which allocations may be preempted for it there. Without it: those of up to its
priority."""
LOWER_PRIORITY = "lower-priority"
"""Value of that tag: those of strictly lower priority."""

NAMESPACE_TAG = "kubernetes.io/meta/namespace"
POD_NAME_TAG = "kubernetes.io/meta/podName"
"""SI constants (`DomainK8s` with `GroupMeta`): the pod of an ask."""
_NAME_LENGTH_MAX = 400
"""Characters of a name in a sentence: those of Kubernetes have 317 at most, other resource managers may send more."""


def pod_of(tags: Mapping[str, str] | None) -> str:
    """NAMESPACE/NAME of the Kubernetes pod of the ask with these tags; '' if it is of none."""
    name = tags.get(POD_NAME_TAG, "") if tags else ""
    return f"{tags.get(NAMESPACE_TAG, '')}/{name}" if tags and name else ""


def ask_name(application_id: str, key: str, tags: Mapping[str, str] | None) -> str:
    """The ask in a sentence: its pod by its name, if it has one."""
    pod = pod_of(tags)
    return (f"pod {pod}" if pod else f"ask {key} of application {application_id}")[:_NAME_LENGTH_MAX]


def predicate_calls(tags: Mapping[str, str]) -> str:
    """The value of the tag; empty for all calls."""
    return tags.get(PREDICATES_TAG, "")


def victims_have_lower_priority(tags: Mapping[str, str] | None) -> bool:
    """For an ask with a required node: only allocations of strictly lower priority may be preempted."""
    return tags is not None and tags.get(VICTIMS_TAG) == LOWER_PRIORITY


def mistake(tags: Mapping[str, str]) -> Mistake | None:
    """The first of these tags that cannot be read."""
    predicates = tags.get(PREDICATES_TAG, NO_PREDICATES)
    if predicates not in (NO_PREDICATES, PREEMPTION_PREDICATES):
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"tags[{PREDICATES_TAG}] is {shown(predicates)}; it must be {NO_PREDICATES!r} or "
            f"{PREEMPTION_PREDICATES!r}, or not be there",
        )
    victims = tags.get(VICTIMS_TAG, LOWER_PRIORITY)
    if victims != LOWER_PRIORITY:
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"tags[{VICTIMS_TAG}] is {shown(victims)}; it must be {LOWER_PRIORITY!r}, or not be there",
        )
    return None


def tag(tags: Mapping[str, str], name: str) -> str:
    """The value of a tag; the case of its name is ignored. '' if the tag is missing."""
    return next((value for key, value in tags.items() if key.lower() == name), "")
