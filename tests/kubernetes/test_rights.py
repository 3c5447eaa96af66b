"""The manifests of `config/kubernetes`: the role allows what the shim does and nothing else, the containers start."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from schedulerd.address import split_address
from schedulerd.cli import cli
from schedulerd.config.settings import Settings
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.shim.settings import ENVIRONMENT_PREFIX, KubernetesSettings
from schedulerd.kubernetes.shim.watches import WATCHED
from schedulerd.settings.layers import load_layers
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
IN_ITS_NAMESPACE = {
    *((verb, r.LEASES.group, r.LEASES.plural) for verb in ("get", "list", "watch", "create", "update")),
    ("patch", "", "pods"),
}
"""With leader election."""
"""With `get` for answers that are lost. `tests/kubernetes/api` has the writes one by one."""
GANGS = (
    (r.POD_GROUPS.group, r.POD_GROUPS.plural),
    ("scheduling.k8s.io", "podgroups"),
    ("scheduling.k8s.io", "workloads"),
)


def test_the_role_allows_what_is_watched_and_written_and_nothing_else() -> None:
    watched = [(one.resource.group, one.resource.plural) for one in WATCHED]
    reads = {(verb, group, plural) for group, plural in (*watched, *GANGS) for verb in ("list", "watch")}
    assert granted() == reads | WRITES | IN_ITS_NAMESPACE


def test_leases_are_those_of_its_namespace_and_of_its_name() -> None:
    """Rights of the leader election are none of the cluster's."""
    (cluster,) = [one for one in manifests("rbac.yaml") if one["kind"] == "ClusterRole"]
    (role,) = [one for one in manifests("rbac.yaml") if one["kind"] == "Role"]
    everywhere = {(verb, rule["resources"][0]) for rule in cluster["rules"] for verb in rule["verbs"]}
    assert not {("patch", "pods"), ("update", "leases"), ("create", "leases")} & everywhere
    assert role["metadata"]["namespace"] == cluster["metadata"]["name"] == "schedulerd"
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
    check_rights({("Python/3", "delete", "", "nodes"), ("schedulerd/1", "create", "", "pods/binding")})
    with pytest.raises(AssertionError, match="delete"):
        check_rights({("schedulerd/1", "delete", "", "nodes")})


def test_the_containers_start_with_settings_that_there_are(tmp_path: Path) -> None:
    """Their command lines are understood, and the daemon takes the queue file."""
    config, deployment, _ = manifests("schedulerd.yaml")
    queues = tmp_path / "queues.yaml"
    queues.write_text(config["data"]["queues.yaml"])
    models: dict[str, tuple[type[BaseModel], str]] = {
        "serve": (Settings, "SCHEDULERD_"),
        "kubernetes": (KubernetesSettings, ENVIRONMENT_PREFIX),
    }
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert [one["args"][0] for one in containers] == list(models)
    for container in containers:
        name, *flags = (one.replace("/etc/schedulerd", str(tmp_path)) for one in container["args"])
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        given = command.make_context(name, list(flags)).params
        model, prefix = models[name]
        file = given.pop("settings")
        settings = load_layers(model, prefix, given, {}, file)
        port = split_address(getattr(settings, "http_bind"))[1]  # noqa: B009 - both models have it
        assert port == container["ports"][0]["containerPort"]
    done = CliRunner().invoke(cli, ["validate", str(queues)])
    assert done.exit_code == 0, done.output
