"""What the server adds to new objects, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

from tests.kubernetes.fake.failures import Failure, conflict, invalid
from tests.kubernetes.fake.kinds import Kind

Object = dict[str, Any]
Cause = tuple[str, str, str]

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
NOTE_BYTES_MAX = 1024
EVICTION_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
PHASES = {
    "pods": "Pending",
    "namespaces": "Active",
    "persistentvolumes": "Pending",
    "persistentvolumeclaims": "Pending",
}

GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""Without a time, as the server writes it."""


def admit_new(kind: Kind, thing: Object, priority_classes: dict[tuple[str, str], Object]) -> None:
    """Defaults and checks an object that is to be created. Raises `Failure`."""
    name, group = thing["metadata"].get("name", ""), kind.group
    causes: list[Cause] = []
    if not name:
        causes.append(("FieldValueRequired", "metadata.name", "Required value: name or generateName is required"))
    elif not SUBDOMAIN.fullmatch(name):
        causes.append(("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {SUBDOMAIN_TEXT}'))
    if kind.plural == "pods":
        _default_pod(thing, priority_classes)
        causes += _pod_causes(thing)
    elif kind.plural == "events":
        causes += _event_causes(thing)
    elif kind.plural == "namespaces":
        thing["spec"] = {"finalizers": ["kubernetes"]}
    elif kind.plural == "leases":
        causes += _lease_causes(thing)
    if causes:
        raise invalid(kind.resource.kind, name, causes, group)
    if kind.plural in PHASES:
        thing["status"] = {"phase": PHASES[kind.plural]}
        if kind.plural == "pods":
            thing["status"]["qosClass"] = _quality(thing)
            if _gates(thing["spec"]):
                thing["status"]["conditions"] = [dict(GATED)]


def admit_changed(kind: Kind, before: Object, after: Object) -> None:
    """Checks an update of the object itself. Raises `Failure`."""
    name, group = after["metadata"]["name"], kind.group
    causes: list[Cause] = []
    if kind.plural == "pods" and (new := _gates(after["spec"]) - _gates(before["spec"])):
        text = f"Forbidden: only deletion is allowed, but found new scheduling gate '{min(new)}'"
        causes.append(("FieldValueForbidden", "spec.schedulingGates", text))
    elif kind.plural == "pods" and _frozen(before["spec"]) != _frozen(after["spec"]):
        text = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
        causes.append(("FieldValueForbidden", "spec", text))
    elif kind.plural == "events":
        causes += _event_causes(after)
    elif kind.plural == "leases":
        causes += _lease_causes(after)
    if causes:
        raise invalid(kind.resource.kind, name, causes, group)


def check_identity(kind: Kind, before: Object, metadata: Object, *, must_have_version: bool) -> None:
    """Whether an update is for this object in this version. Raises `Failure`."""
    name, group = before["metadata"]["name"], kind.group
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != before["metadata"]["uid"]:
        cause = ("FieldValueInvalid", "metadata.uid", f'Invalid value: "{uid}": field is immutable')
        raise invalid(kind.resource.kind, name, [cause], group)
    if version and version != before["metadata"]["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(kind.plural, name, why, group)
    if must_have_version and not version and not kind.unconditional_update:
        text = "Invalid value: 0x0: must be specified for an update"
        raise invalid(kind.plural, name, [("FieldValueInvalid", "metadata.resourceVersion", text)], group)


def _default_pod(pod: Object, priority_classes: dict[tuple[str, str], Object]) -> None:
    spec = pod.setdefault("spec", {})
    defaults = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "securityContext": {},
        "preemptionPolicy": "PreemptLowerPriority",
    }
    for key, value in defaults.items():
        spec.setdefault(key, value)
    class_name = spec.get("priorityClassName")
    if class_name:
        found = priority_classes.get(("", class_name))
        if found is None:
            raise Failure(
                403,
                f'pods "{pod["metadata"].get("name", "")}" is forbidden: '
                f"no PriorityClass with name {class_name} was found",
                details={"name": pod["metadata"].get("name", ""), "kind": "pods"},
            )
        spec["priority"] = found["value"]
        spec["preemptionPolicy"] = found.get("preemptionPolicy", "PreemptLowerPriority")
    else:
        spec.setdefault("priority", 0)
    tolerations = spec.setdefault("tolerations", [])
    for one in EVICTION_TOLERATIONS:
        if not any(other.get("key") in ("", None, one["key"]) for other in tolerations):
            tolerations.append(dict(one))
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.setdefault("resources", {})
        for name, amount in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)
        container.setdefault("imagePullPolicy", "IfNotPresent" if ":" in container.get("image", "") else "Always")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")


def _pod_causes(pod: Object) -> list[Cause]:
    spec = pod["spec"]
    containers = spec.get("containers") or []
    causes: list[Cause] = []
    if not containers:
        causes.append(("FieldValueRequired", "spec.containers", "Required value"))
    for i, container in enumerate(containers):
        for field in ("name", "image"):
            if not container.get(field):
                causes.append(("FieldValueRequired", f"spec.containers[{i}].{field}", "Required value"))
        for name, amount in (container["resources"].get("requests") or {}).items():
            if str(amount).startswith("-"):
                text = f'Invalid value: "{amount}": must be greater than or equal to 0'
                causes.append(("FieldValueInvalid", f"spec.containers[{i}].resources.requests[{name}]", text))
    return causes


def _event_causes(event: Object) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field):
            name = "reportingController" if field == "reportingController" else field
            causes.append(("FieldValueRequired", name, "Required value"))
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(("FieldValueInvalid", "type", f'Invalid value: "{event.get("type", "")}": has invalid value'))
    if not event.get("eventTime"):
        causes.append(("FieldValueRequired", "eventTime", "Required value"))
    if len(event.get("note", "").encode()) > NOTE_BYTES_MAX:
        causes.append(("FieldValueInvalid", "message", 'Invalid value: "": can have at most 1024 characters'))
    namespace = (event.get("regarding") or {}).get("namespace")
    # 1.20 takes an event about an object without namespace in kube-system only, newer servers in default.
    if not namespace or namespace != event["metadata"].get("namespace"):
        text = 'Invalid value: "": does not match event.namespace'
        causes.append(("FieldValueInvalid", "involvedObject.namespace", text))
    return causes


def _lease_causes(lease: Object) -> list[Cause]:
    seconds = (lease.get("spec") or {}).get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        text = f"Invalid value: {seconds}: must be greater than 0"
        return [("FieldValueInvalid", "spec.leaseDurationSeconds", text)]
    return []


def _quality(pod: Object) -> str:
    amounts = [container["resources"] for container in pod["spec"]["containers"]]
    return "Burstable" if any(one.get("requests") for one in amounts) else "BestEffort"


def _gates(spec: Object) -> set[str]:
    return {one["name"] for one in spec.get("schedulingGates") or ()}


def _frozen(spec: Object) -> Object:
    free = ("tolerations", "activeDeadlineSeconds", "schedulingGates")
    rest = {key: value for key, value in spec.items() if key not in free}
    return {**rest, "containers": [{**one, "image": ""} for one in rest.get("containers") or ()]}
