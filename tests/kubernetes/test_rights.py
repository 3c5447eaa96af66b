"""The manifests of `config/kubernetes`: the role allows what the shim does and nothing else, the containers start."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from schedulerd.cli import cli
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.shim.settings import KubernetesSettings
from schedulerd.kubernetes.shim.watches import WATCHED
from tests.kubernetes.command_lines import http_port
from tests.kubernetes.rights import check_rights, granted, manifests

WRITES = {
    ("get", "", "pods"),
    ("create", "", "pods"),
    ("delete", "", "pods"),
    ("create", "", "pods/binding"),
    ("patch", "", "pods/status"),
    ("get", "", "persistentvolumes"),
    ("patch", "", "persistentvolumes"),
    ("get", "", "persistentvolumeclaims"),
    ("patch", "", "persistentvolumeclaims"),
    ("create", "events.k8s.io", "events"),
    ("patch", "events.k8s.io", "events"),
}
"""With `get` for answers that are lost. `tests/kubernetes/api` has the writes one by one."""
IN_ITS_NAMESPACE = {
    *((verb, r.LEASES.group, r.LEASES.plural) for verb in ("get", "list", "watch", "create", "update")),
    ("patch", "", "pods"),
}
"""With leader election."""
READS = {
    (verb, one.group, one.plural)
    for one in (*(one.resource for one in WATCHED), r.POD_GROUPS)
    for verb in ("list", "watch")
}


def test_the_role_allows_what_is_watched_and_written_and_nothing_else() -> None:
    assert granted("ClusterRole") == READS | WRITES
    assert granted("Role") == IN_ITS_NAMESPACE


def test_leases_are_those_of_its_namespace_and_of_its_name() -> None:
    (role,) = [one for one in manifests("rbac.yaml") if one["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "schedulerd"
    for rule in role["rules"]:
        if rule["resources"] == ["leases"] and rule["verbs"] != ["create"]:
            assert rule["resourceNames"] == [KubernetesSettings().lease_name]


def test_the_account_is_bound_to_the_role() -> None:
    objects = {one["kind"]: one for one in manifests("rbac.yaml")}
    account = objects["ServiceAccount"]
    for kind in ("ClusterRole", "Role"):
        role, binding = objects[kind], objects[f"{kind}Binding"]
        assert binding["roleRef"]["kind"] == kind
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        (subject,) = binding["subjects"]
        assert subject["name"] == account["metadata"]["name"]
        assert subject["namespace"] == account["metadata"]["namespace"] == objects["Namespace"]["metadata"]["name"]


def test_a_right_that_is_missing_is_named() -> None:
    check_rights({("Python/3", "delete", "", "nodes", ""), ("schedulerd/1", "create", "", "pods/binding", "a")})
    with pytest.raises(AssertionError, match="delete"):
        check_rights({("schedulerd/1", "delete", "", "nodes", "")})


def test_pods_are_patched_in_the_namespace_of_the_lease_alone() -> None:
    lease = ("schedulerd/1", "update", "coordination.k8s.io", "leases", "own")
    check_rights({lease, ("schedulerd/1", "patch", "", "pods", "own")})
    for foreign in (
        {("schedulerd/1", "patch", "", "pods", "own")},
        {lease, ("schedulerd/1", "patch", "", "pods", "a")},
    ):
        with pytest.raises(AssertionError, match=r"'patch', '', 'pods'"):
            check_rights(foreign)


def test_the_containers_start_with_settings_that_there_are(tmp_path: Path) -> None:
    """Their command lines are understood, and the daemon takes the queue file."""
    config, deployment, *_ = manifests("schedulerd.yaml")
    queues = tmp_path / "queues.yaml"
    queues.write_text(config["data"]["queues.yaml"])
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert [one["args"][0] for one in containers] == ["serve", "kubernetes"]
    for container in containers:
        assert http_port(container, tmp_path) == container["ports"][0]["containerPort"]
    done = CliRunner().invoke(cli, ["validate", str(queues)])
    assert done.exit_code == 0, done.output
