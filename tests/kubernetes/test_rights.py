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
