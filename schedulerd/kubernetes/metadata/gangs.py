"""What a pod says about the gang of its application: task groups, style, timeout, kind of placeholders.

Task groups are a JSON list as YuniKorn has it; its keys are matched without regard to case. One that cannot be used is
refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, NamedTuple

import msgspec

from schedulerd.kubernetes.metadata.names import OWN_PREFIX, PREFIXES, YUNIKORN_PREFIX, annotation
from schedulerd.kubernetes.objects.decode import MalformedObject, convert
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.pod import PodSpec
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import VCORE, scheduler_amounts

TASK_GROUPS = "task-groups"
TASK_GROUP_NAME = "task-group-name"
PARAMETERS = "schedulingPolicyParameters"
PLACEHOLDER = "placeholder"
PLACEHOLDERS = "placeholders"
ON_INVALID_GANG = "on-invalid-gang"
TOPOLOGY_REQUIRED = OWN_PREFIX + "topology-required"
TOPOLOGY_PREFERRED = OWN_PREFIX + "topology-preferred"
_KUEUE_TOPOLOGY = {
    "kueue.x-k8s.io/podset-required-topology": TOPOLOGY_REQUIRED,
    "kueue.x-k8s.io/podset-preferred-topology": TOPOLOGY_PREFERRED,
}
DISRUPTION = OWN_PREFIX + "disruption"
AS_A_WHOLE = "gang"
"""Value of that annotation: members of the gang are preempted all together or not at all."""
YUNIKORN_PLACEHOLDER = "internal.yunikorn.apache.org/placeholder"
COSCHEDULING_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")

MEMBERS_MAX = 10_000
"""Of all task groups together: more placeholders than an application can be meant to have."""
COPIED_CHARACTERS_MAX = 4_096
"""Of an annotation about the gang that its placeholder pods and the application show as well. Nobody reads it there,
and of thousands of such pods a kube-apiserver has each several times in memory."""
NAME_CHARACTERS_MAX = 253
"""Of a task group: it is in messages, and part of what the scheduler is asked for."""
_INT64_MAX = 2**63 - 1
_PODS = "pods"
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_PLACEHOLDER_KEYS = (OWN_PREFIX + PLACEHOLDER, YUNIKORN_PLACEHOLDER)
_TASK_GROUP_KEYS = tuple(prefix + TASK_GROUPS for prefix in PREFIXES)
_TEMPLATE_MAPS = ("labels", "annotations", "nodeSelector")
_TEMPLATE_SPEC = ("tolerations", "affinity", "topologySpreadConstraints")
_HOST_PORTS = "hostPorts"
HOST_PORTS_MAX = 100
"""Of a task group."""
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PORT_MAX = 65_535
_KEYS = {
    key.lower(): key
    for key in (
        "name", "minMember", "maxMember", "minResource", "topology", _HOST_PORTS, *_TEMPLATE_MAPS, *_TEMPLATE_SPEC,
    )
}  # fmt: skip


class GangStyle(Enum):
    """What becomes of an application whose gang does not fit in time."""

    SOFT = "Soft"
    """It continues without the gang."""
    HARD = "Hard"
    """Its pods fail."""
    REQUEUE = "Requeue"
    """Its pods stay pending, and it is added again later."""


class PlaceholderKind(StrEnum):
    """How the room of a gang by annotations is held until its pods come."""

    PODS = "pods"
    """By placeholder pods, unless all of its pods exist."""
    ALWAYS = "always"
    """By placeholder pods, also if all of its pods exist: for clusters that another scheduler shares."""
    NONE = "none"
    """By the scheduler alone."""

    @classmethod
    def _missing_(cls, value: object) -> PlaceholderKind | None:
        return cls.NONE if value == "virtual" else None  # as it was called before


class InvalidGang(ValueError):
    """The task groups cannot be used; the text says why."""


class HostPort(NamedTuple):
    port: int
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """As it was declared."""

    name: str
    members: int
    quantities: Mapping[str, str | int]
    """Of one member, as Kubernetes quantities."""
    resources: Mapping[str, int]
    """Of one member, in amounts of the scheduler interface, with the pod itself."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """What placeholders get of labels, annotations, node selector, tolerations, affinity and spread constraints."""
    host_ports: tuple[HostPort, ...] = ()
    """Those that a member uses, and that its placeholder holds for it."""
    members_max: int = 0
    """How many members may run at a time; 0: any number."""
    topology: Mapping[str, str] = field(default_factory=dict)
    """`required` or `preferred`, with the level of the topology of which one domain is to have all members."""


@dataclass(frozen=True, slots=True)
class GangParameters:
    style: GangStyle | None = None
    """None: not said."""
    timeout_s: int = 0
    """0: the scheduler's default."""


def is_placeholder(metadata: ObjectMeta) -> bool:
    annotations = metadata.annotations
    return annotations is not None and any(annotations.get(key) in _TRUE for key in _PLACEHOLDER_KEYS)


def task_group_name(metadata: ObjectMeta) -> str:
    return annotation(metadata, TASK_GROUP_NAME)


def declares_task_groups(metadata: ObjectMeta) -> bool:
    annotations = metadata.annotations
    return annotations is not None and any(annotations.get(key) for key in _TASK_GROUP_KEYS)


def wishes(metadata: ObjectMeta) -> dict[str, str]:
    """What is said of the gang as a whole: its topology, and how it is preempted; as tags of its application."""
    annotations = metadata.annotations or {}
    found = {ours: annotations[theirs] for theirs, ours in _KUEUE_TOPOLOGY.items() if annotations.get(theirs)}
    found |= {key: annotations[key] for key in (TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED) if annotations.get(key)}
    if annotations.get(DISRUPTION) == AS_A_WHOLE:
        found[DISRUPTION] = AS_A_WHOLE
    return found


def waits_if_invalid(metadata: ObjectMeta) -> bool:
    """Pods with an unusable declaration wait; otherwise they run without a gang."""
    return annotation(metadata, ON_INVALID_GANG) == "fail"


def placeholder_kind(metadata: ObjectMeta) -> PlaceholderKind | None:
    """None if nothing is said, or something unknown."""
    try:
        return PlaceholderKind(annotation(metadata, PLACEHOLDERS))
    except ValueError:
        return None


def raw_annotations(metadata: ObjectMeta) -> dict[str, str]:
    """The annotations about the gang, as they are, if they are short, by the names that YuniKorn has for them: the
    scheduler reads its own name for task groups in another form (`core.language.task_groups`)."""
    found = {}
    for name in (TASK_GROUPS, PARAMETERS):
        text = annotation(metadata, name)
        if text and len(text) <= COPIED_CHARACTERS_MAX:
            found[f"{YUNIKORN_PREFIX}{name}"] = text
    return found


def parameters(metadata: ObjectMeta) -> GangParameters:
    """Unreadable parts count as not said; a style that is none of ours is Soft, as ever."""
    return _parameters(metadata)[0]


def ignored(metadata: ObjectMeta) -> str:
    """What is said of the gang, beside its task groups, and is not understood; empty if all is."""
    said = annotation(metadata, PLACEHOLDERS)
    found = [f"{PLACEHOLDERS} {said[:80]!r}"] if said and placeholder_kind(metadata) is None else []
    found += [f"{PARAMETERS} {part[:80]!r}" for part in _parameters(metadata)[1][:10]]
    return ", ".join(found)


def _parameters(metadata: ObjectMeta) -> tuple[GangParameters, list[str]]:
    """And the parts that are not understood."""
    style, timeout_s, rest = None, 0, []
    for part in annotation(metadata, PARAMETERS).split():
        key, _, value = part.partition("=")
        if key == "placeholderTimeoutInSeconds" and value.isascii() and value.isdecimal() and len(value) < 10:
            timeout_s = int(value)
        elif key == "gangSchedulingStyle" and value:
            known = next((one for one in GangStyle if one.value.lower() == value.lower()), None)
            style = known or GangStyle.SOFT
            rest += [part] if known is None else []
        else:
            rest.append(part)
    return GangParameters(style, timeout_s), rest


def task_groups(metadata: ObjectMeta, members_max: int = MEMBERS_MAX) -> tuple[TaskGroup, ...]:
    """The task groups that have a minimum, with so many members together at most; none if nothing is declared. Pods of
    a group whose minMember is 0 belong to no group: the others are the gang. Raises InvalidGang."""
    text = annotation(metadata, TASK_GROUPS)
    if not text:
        return ()
    try:
        declared = msgspec.json.decode(text, type=list[dict[str, Any]])
    except (ValueError, RecursionError) as error:
        raise InvalidGang(f"not a JSON list of objects: {error}") from None
    if not declared:
        raise InvalidGang("the list is empty")
    groups = tuple(_task_group(number, one) for number, one in enumerate(declared))
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise InvalidGang("two task groups have the same name")
    if sum(group.members for group in groups) > members_max:
        raise InvalidGang(f"more than {members_max} members")
    if any(amount > _INT64_MAX for amount in whole(groups).values()):
        raise InvalidGang("the sum of minResource is above 2^63-1")
    return tuple(group for group in groups if group.members)


def whole(groups: tuple[TaskGroup, ...]) -> dict[str, int]:
    """What all members together need."""
    total: dict[str, int] = {}
    for group in groups:
        for name, amount in group.resources.items():
            total[name] = total.get(name, 0) + group.members * amount
    return total


def _task_group(number: int, declared: dict[str, Any]) -> TaskGroup:
    known = {_KEYS[key.lower()]: value for key, value in declared.items() if key.lower() in _KEYS}
    name, members, quantities = known.get("name"), known.get("minMember"), known.get("minResource")
    if not isinstance(name, str) or not name:
        raise InvalidGang(f"task group {number} has no name")
    where = f"task group {name[:80]!r}"
    if len(name) > NAME_CHARACTERS_MAX:
        raise InvalidGang(f"{where}: the name has more than {NAME_CHARACTERS_MAX} characters")
    if not isinstance(members, int) or isinstance(members, bool) or not 0 <= members < 2**31:
        raise InvalidGang(f"{where}: minMember is not a whole number of 0 or more")
    if not isinstance(quantities, dict) or not quantities:
        raise InvalidGang(f"{where} has no minResource")
    template = {key: known[key] for key in (*_TEMPLATE_MAPS, *_TEMPLATE_SPEC) if known.get(key)}
    _check_template(where, template)
    ports = _host_ports(where, known.get(_HOST_PORTS))
    return TaskGroup(
        name,
        members,
        quantities,
        _resources(where, quantities),
        template,
        ports,
        _members_max(where, known.get("maxMember"), members),
        _topology(where, known.get("topology")),
    )


def _members_max(where: str, declared: object, members: int) -> int:
    if declared is None:
        return 0
    if not isinstance(declared, int) or isinstance(declared, bool) or not max(1, members) <= declared < 2**31:
        raise InvalidGang(f"{where}: maxMember is not a whole number of {max(1, members)} or more")
    return declared


def _topology(where: str, declared: object) -> dict[str, str]:
    if declared is None:
        return {}
    if isinstance(declared, dict) and len(declared) == 1:
        ((kind, level),) = declared.items()
        if kind in ("required", "preferred") and isinstance(level, str) and level:
            return {str(kind): level}
    raise InvalidGang(f"{where}: topology is not one of required and preferred, with a level")


def _host_ports(where: str, declared: object) -> tuple[HostPort, ...]:
    """Numbers, or objects with `hostPort` and `protocol` as containers have them."""
    if declared is None:
        return ()
    if not isinstance(declared, list) or len(declared) > HOST_PORTS_MAX:
        raise InvalidGang(f"{where}: {_HOST_PORTS} is not a list of at most {HOST_PORTS_MAX} ports")
    return tuple(dict.fromkeys(_host_port(where, one) for one in declared))


def _host_port(where: str, declared: object) -> HostPort:
    port, protocol = (declared, "TCP")
    if isinstance(declared, dict):
        port, protocol = declared.get("hostPort"), declared.get("protocol", "TCP")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= _PORT_MAX:
        raise InvalidGang(f"{where}: {_HOST_PORTS} has a port that is not a whole number from 1 to {_PORT_MAX}")
    if protocol not in _PROTOCOLS:
        raise InvalidGang(f"{where}: {_HOST_PORTS} has a protocol that is none of {', '.join(_PROTOCOLS)}")
    return HostPort(port, str(protocol))


def _resources(where: str, quantities: dict[str, Any]) -> dict[str, int]:
    if _PODS in quantities:
        raise InvalidGang(f"{where}: minResource must not name pods")
    if "cpu" in quantities and VCORE in quantities:
        raise InvalidGang(f"{where}: minResource names both cpu and vcore")
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in quantities.values()):
        raise InvalidGang(f"{where}: minResource has an amount that is no quantity")
    try:
        amounts = scheduler_amounts({"cpu" if name == VCORE else name: value for name, value in quantities.items()})
    except MalformedQuantity as error:
        raise InvalidGang(f"{where}: {error}") from None
    if any(amount < 0 for amount in amounts.values()):
        raise InvalidGang(f"{where}: minResource has an amount below 0")
    return {**amounts, _PODS: 1}


def _check_template(where: str, template: dict[str, Any]) -> None:
    for key in _TEMPLATE_MAPS:
        values = template.get(key, {})
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise InvalidGang(f"{where}: {key} is not a map of texts")
    try:  # what the predicates read of it; the API server judges the rest, of placeholder pods
        convert(PodSpec, {key: template[key] for key in _TEMPLATE_SPEC if key in template})
    except MalformedObject as error:
        raise InvalidGang(f"{where}: {error}") from None
