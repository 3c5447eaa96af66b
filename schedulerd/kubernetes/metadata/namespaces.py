"""Quotas that a namespace carries in its annotations, as tags of its applications.

An annotation that cannot be read sets nothing, and is told as a problem. A quota of zero is a quota of nothing, also if
all of it is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from schedulerd.kubernetes.metadata.names import annotation
from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import scheduler_amounts

QUOTA, GUARANTEED = "namespace.quota", "namespace.guaranteed"
MAX_CPU, MAX_MEMORY = "namespace.max.cpu", "namespace.max.memory"
MAX_APPS = "namespace.maxApps"
PARENT_QUEUE = "parentqueue"

NAMES_MAX, NAME_LENGTH_MAX = 64, 256
"""Resources of a quota. The daemon rejects an application with more or longer names, or an empty one, and would hold
back all pods of the namespace for it."""

APPS_DIGITS = 19
"""The daemon reads a number of applications below 2^64."""

_QUANTITIES = msgspec.json.Decoder(dict[str, str | int])


@dataclass(frozen=True, slots=True)
class NamespaceTags:
    tags: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


NO_TAGS = NamespaceTags()
"""Of a namespace that is not known."""


def namespace_tags(namespace: Namespace) -> NamespaceTags:
    """The tags that every application of the namespace gets."""
    problems: list[str] = []
    tags: dict[str, str] = {}
    quota = _amounts(namespace, QUOTA, problems) or _older_quota(namespace, problems)
    for tag, amounts in (
        ("namespace.resourcequota", quota),
        ("namespace.resourceguaranteed", _amounts(namespace, GUARANTEED, problems)),
    ):
        if amounts:
            tags[tag] = _as_resource(amounts)
    most = annotation(namespace.metadata, MAX_APPS)
    if most.isascii() and most.isdecimal() and len(most) < APPS_DIGITS:
        tags["namespace.resourcemaxapps"] = most
    elif most:
        allowed = f"a whole number from 0 on with fewer than {APPS_DIGITS} digits"
        problems.append(f"annotation {MAX_APPS} is {most[:80]!r}, which is not {allowed}: ignored")
    if parent := annotation(namespace.metadata, PARENT_QUEUE):
        tags["namespace.parentqueue"] = parent
    return NamespaceTags(tags, tuple(problems))


def _amounts(namespace: Namespace, name: str, problems: list[str]) -> dict[str, int] | None:
    text = annotation(namespace.metadata, name)
    if not text:
        return None
    try:
        amounts = scheduler_amounts(_QUANTITIES.decode(text))
    except (MalformedQuantity, ValueError, RecursionError) as error:
        problems.append(f"annotation {name} cannot be read and is ignored: {error}")
        return None
    return _checked(amounts, name, problems)


def _older_quota(namespace: Namespace, problems: list[str]) -> dict[str, int] | None:
    given = {
        resource: text
        for resource, name in (("cpu", MAX_CPU), ("memory", MAX_MEMORY))
        if (text := annotation(namespace.metadata, name))
    }
    try:
        return _checked(scheduler_amounts(given), MAX_CPU, problems)
    except MalformedQuantity as error:
        problems.append(f"annotation {MAX_CPU} or {MAX_MEMORY} cannot be read, both are ignored: {error}")
        return None


def _checked(amounts: dict[str, int], name: str, problems: list[str]) -> dict[str, int] | None:
    if wrong := _wrong_names(amounts):
        problems.append(f"annotation {name} {wrong}: ignored")
        return None
    if any(amount < 0 for amount in amounts.values()):
        problems.append(f"annotation {name} has an amount below 0: ignored")
        return None
    return amounts


def _wrong_names(amounts: dict[str, int]) -> str:
    if len(amounts) > NAMES_MAX:
        return f"has more than {NAMES_MAX} resources"
    if "" in amounts:
        return "has a resource without a name"
    long = next((name for name in amounts if len(name) > NAME_LENGTH_MAX), "")
    return f"names the resource {long[:80]!r}..., which has more than {NAME_LENGTH_MAX} characters" if long else ""


def _as_resource(amounts: dict[str, int]) -> str:
    """A Resource of the scheduler interface as JSON."""
    resources = {name: {"value": amount} for name, amount in sorted(amounts.items())}
    return msgspec.json.encode({"resources": resources}).decode()
