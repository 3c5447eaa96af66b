"""`config/kubernetes/rbac.yaml` allows what the shim does, and nothing else."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.shim.watches import WATCHED
from tests.kubernetes.rights import check_rights, granted, manifests

WRITES = {
    ("get", "", "pods"),
    ("create", "", "pods"),
    ("delete", "", "pods"),
    ("create", "", "pods/binding"),
    ("patch", "", "pods/status"),
    ("create", "events.k8s.io", "events"),
    ("patch", "events.k8s.io", "events"),
}
"""With `get` for answers that are lost. `tests/kubernetes/api` has the writes one by one."""
GANGS = (
    (r.POD_GROUPS.group, r.POD_GROUPS.plural),
    ("scheduling.k8s.io", "podgroups"),
    ("scheduling.k8s.io", "workloads"),
)


def test_the_role_allows_what_is_watched_and_written_and_nothing_else() -> None:
    watched = [(one.resource.group, one.resource.plural) for one in WATCHED]
    reads = {(verb, group, plural) for group, plural in (*watched, *GANGS) for verb in ("list", "watch")}
    assert granted() == reads | WRITES


def test_the_account_is_bound_to_the_role() -> None:
    objects = {one["kind"]: one for one in manifests("rbac.yaml")}
    account, role, binding = (objects[kind] for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"))
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (subject,) = binding["subjects"]
    assert subject["name"] == account["metadata"]["name"]
    assert subject["namespace"] == account["metadata"]["namespace"] == objects["Namespace"]["metadata"]["name"]


def test_a_right_that_is_missing_is_named() -> None:
    check_rights({("Python/3", "delete", "", "nodes"), ("schedulerd/1", "create", "", "pods/binding")})
    with pytest.raises(AssertionError, match="delete"):
        check_rights({("schedulerd/1", "delete", "", "nodes")})
