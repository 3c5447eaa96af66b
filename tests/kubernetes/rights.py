"""What `config/kubernetes/rbac.yaml` lets the shim do. Every test with a shim on the fake server compares."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from schedulerd.kubernetes.api.resources import LEASES

MANIFESTS = Path(__file__).parents[2] / "config" / "kubernetes"
AGENT = "schedulerd/"
"""How the `User-Agent` of the shim begins."""

Right = tuple[str, str, str]
"""Verb, group and resource."""
Access = tuple[str, str, str, str, str]
"""Who sends, what it needs a right for, and in which namespace."""

SCHEDULING_GROUPS = frozenset(
    [
        *((verb, "scheduling.k8s.io", kind) for verb in ("list", "watch") for kind in ("podgroups", "workloads")),
        ("patch", "scheduling.k8s.io", "podgroups/status"),
    ]
)
"""What the chart adds with `gangs.schedulingGroups`, which the manifests leave off."""


def manifests(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all((MANIFESTS / name).read_text()))


def rights_of(objects: Iterable[dict[str, Any]], *kinds: str) -> frozenset[Right]:
    """What roles of these kinds among the objects allow; without kinds, what all do."""
    return frozenset(
        (verb, group, resource)
        for role in objects
        if role["kind"] in (kinds or ("ClusterRole", "Role"))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


@cache
def granted(*kinds: str) -> frozenset[Right]:
    return rights_of(manifests("rbac.yaml"), *kinds)


def check_rights(accesses: Iterable[Access]) -> None:
    """Fails if a shim was among those who sent requests, and did what the manifest does not allow: the cluster role
    everywhere, the role in the namespace of its lease alone."""
    used = {access[1:] for access in accesses if access[0].startswith(AGENT)}
    own = {namespace for *_, resource, namespace in used if resource == LEASES.plural}
    everywhere, there = granted("ClusterRole") | SCHEDULING_GROUPS, granted("Role")
    missing = sorted(
        (*right, namespace)
        for *right, namespace in used
        if tuple(right) not in everywhere and not (tuple(right) in there and namespace in own)
    )
    assert not missing, f"config/kubernetes/rbac.yaml does not allow {missing}"
    assert len(own) <= 1, f"leases are those of one namespace, not of {sorted(own)}"
