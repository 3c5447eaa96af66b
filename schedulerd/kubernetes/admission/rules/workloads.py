"""Which kinds of objects make pods, and where in them the annotations of these pods are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schedulerd.kubernetes.admission.rules.json_patch import Path

PODS = ("", "pods")
BINDINGS = ("", "bindings")
CONFIG_MAPS = ("", "configmaps")
POD_TEMPLATES_MAX = 1_000
"""Of one object."""
ANNOTATIONS = "annotations"
SPARK_CONF = "sparkConf"
_SPARK_ANNOTATION = "spark.kubernetes.{}.annotation."
_SPARK_TEMPLATE = "spark.kubernetes.driver.podTemplateFile"
ANY = "*"
_NAMES = ("name", "groupName")
"""By one of these keys, elements of a list are told apart; otherwise by their positions."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of objects from which a controller makes pods."""

    group: str
    resource: str
    paths: tuple[tuple[str, ...], ...]
    """Of pod templates, or of the annotations of pods if the last step is `annotations`. If it is `sparkConf`, of
    properties of Spark, of which some become annotations. `*` is every element."""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    identity: tuple[str, ...]
    """The same for the same template of the object before and after an update."""
    annotations_path: Path
    content: dict[str, Any]
    """The pod template, or the object that has the annotations."""
    scheduler_name: str
    """Of its pods, where the template says so."""
    annotations: dict[str, Any]
    is_usable: bool
    """False if nothing can be written there, as a value above the annotations is of a type that no pod template has."""
    unread: str = ""
    """Where pods get more annotations from, if that cannot be read here."""


def _workload(group: str, resource: str, *paths: str) -> Workload:
    return Workload(group, resource, tuple(tuple(path.split(".")) for path in paths))


BUILT_IN = (
    _workload("", "replicationcontrollers", "spec.template"),
    _workload("apps", "deployments", "spec.template"),
    _workload("apps", "replicasets", "spec.template"),
    _workload("apps", "statefulsets", "spec.template"),
    _workload("apps", "daemonsets", "spec.template"),
    _workload("batch", "jobs", "spec.template"),
    _workload("batch", "cronjobs", "spec.jobTemplate.spec.template"),
)


def parse_workload(text: str) -> Workload:
    """`GROUP/RESOURCE=PATH+PATH`, like `ray.io/rayclusters=spec.headGroupSpec.template`. Raises ValueError."""
    name, _, paths = text.partition("=")
    group, _, resource = name.partition("/")
    steps = tuple(tuple(path.split(".")) for path in paths.split("+"))
    if not group or not resource or "/" in resource or len(text) > 2_000 or not all(all(path) for path in steps):
        raise ValueError(
            "must be GROUP/RESOURCE=PATH, like example.com/batches=spec.template, with + between several paths and * "
            "for each element of a list or map"
        )
    if any(path[-1] == ANY for path in steps):
        raise ValueError("a path ends with the name of a pod template or with annotations, not with *")
    return Workload(group, resource, steps)


def pod_templates(workload: Workload, document: dict[str, Any]) -> list[PodTemplate] | None:
    """The templates that the object has; none where a path leads nowhere. None: there are too many of them."""
    found: list[PodTemplate] = []
    for path in workload.paths:
        if path[-1] == SPARK_CONF:
            for identity, at, content in _walk(document, path):
                found += [_of_spark(identity, at, content, role) for role in ("driver", "executor")]
            continue
        is_template = path[-1] != ANNOTATIONS
        for identity, at, content in _walk(document, path if is_template else path[:-1]):
            if len(found) == POD_TEMPLATES_MAX:
                return None
            found.append(_template(identity, at, content, is_template=is_template))
    return found if len(found) <= POD_TEMPLATES_MAX else None


def _of_spark(identity: tuple[str, ...], at: Path, properties: dict[str, Any], role: str) -> PodTemplate:
    """Annotations that the operator, whom everybody trusts, makes of properties. Only the driver's template is unread:
    executors are made by the driver, with an account that may not write other users."""
    prefix = _SPARK_ANNOTATION.format(role)
    annotations = {key.removeprefix(prefix): one for key, one in properties.items() if key.startswith(prefix)}
    # The operator writes KEY=VALUE, which Spark splits at the first "=": a key may have a value in it.
    files = (f"{key}={one}" for key, one in properties.items() if key.partition("=")[0] == _SPARK_TEMPLATE)
    unread = next(files, "") if role == "driver" else ""
    return PodTemplate((*identity, role), at, properties, "", annotations, is_usable=False, unread=unread)


def _template(identity: tuple[str, ...], at: Path, content: dict[str, Any], *, is_template: bool) -> PodTemplate:
    owner = content.get("metadata") if is_template else content
    spec = content.get("spec") if is_template else content
    annotations = owner.get(ANNOTATIONS) if isinstance(owner, dict) else None
    name = spec.get("schedulerName") if isinstance(spec, dict) else None
    return PodTemplate(
        identity,
        (*at, "metadata", ANNOTATIONS) if is_template else (*at, ANNOTATIONS),
        content,
        name if isinstance(name, str) else "",
        annotations if isinstance(annotations, dict) else {},
        is_usable=isinstance(owner, dict | None) and isinstance(annotations, dict | None),
    )


def _walk(value: Any, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Path, dict[str, Any]]]:
    """The objects at a path, each with its identity and its place."""
    if not steps:
        if isinstance(value, dict):
            yield (), (), value
        return
    for identity, key, child in _children(value, steps[0]):
        for inner, at, found in _walk(child, steps[1:]):
            yield (identity, *inner), (key, *at), found


def _children(value: Any, step: str) -> Iterator[tuple[str, str | int, Any]]:
    if isinstance(value, dict):
        if step == ANY:
            yield from ((key, key, child) for key, child in value.items())
        elif step in value:
            yield step, step, value[step]
    elif isinstance(value, list) and step == ANY:
        yield from ((_name(child, index), index, child) for index, child in enumerate(value))


def _name(element: Any, index: int) -> str:
    names = (element.get(key) for key in _NAMES) if isinstance(element, dict) else ()
    return next((f"={name}" for name in names if isinstance(name, str) and name), str(index))
