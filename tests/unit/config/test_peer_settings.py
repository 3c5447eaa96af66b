"""`schedulerd validate` on the ConfigMaps of a YuniKorn installation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedulerd.cli import cli
from schedulerd.config.peer_settings import BECOMES, peer_maps, what_becomes

CONFIGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: yunikorn-configs}
data:
  service.clusterId: mycluster
  service.placeHolderImage: pause
  log.core.scheduler.level: DEBUG
  queues.yaml: |
    partitions:
      - name: default
        queues:
          - {name: root, submitacl: "*"}
"""
DEFAULTS = """
kind: ConfigMap
metadata: {name: yunikorn-defaults}
data: {admissionController.filtering.bypassNamespaces: "^kube-system$", kubernetes.qps: 100}
"""


def run(tmp_path: Path, text: str, *flags: str) -> tuple[int, list[str]]:
    file = tmp_path / "maps.yaml"
    file.write_text(text)
    result = CliRunner().invoke(cli, ["validate", str(file), *flags])
    return result.exit_code, result.output.replace(str(file), "FILE").splitlines()


def test_every_key_is_told_what_has_its_place(tmp_path: Path) -> None:
    code, said = run(tmp_path, f"{CONFIGS}---\n{DEFAULTS}")
    unknown = 'unknown, and read by nothing here; did you mean "service.placeholderImage"?'
    assert code == 0
    assert said[:3] == [
        "FILE: yunikorn-configs queues.yaml: valid",
        "yunikorn-configs service.clusterId: --rm-id of schedulerd kubernetes",
        f"yunikorn-configs service.placeHolderImage: {unknown}",
    ]
    assert said[3] == "yunikorn-configs log.core.scheduler.level: no levels of single loggers: --log-level is for all"
    assert said[4].startswith(
        "yunikorn-defaults admissionController.filtering.bypassNamespaces: --bypass-namespaces of"
    )
    assert said[5:] == ["yunikorn-defaults kubernetes.qps: --writes-per-s of schedulerd kubernetes"]


def test_a_list_of_them_is_read_too(tmp_path: Path) -> None:
    items = "".join(f"- {one.strip()}\n".replace("\n", "\n  ").rstrip() + "\n" for one in (CONFIGS, DEFAULTS))
    assert run(tmp_path, f"kind: List\nitems:\n{items}") == run(tmp_path, f"{CONFIGS}---\n{DEFAULTS}")


def test_a_queue_file_in_a_map_is_checked(tmp_path: Path) -> None:
    code, said = run(tmp_path, CONFIGS.replace("name: root", "name: a b"))
    assert code == 3
    assert "name = 'a b'" in " ".join(said)


@pytest.mark.parametrize("text", ["partitions: []", "", "kind: Deployment", "a: {", "- 1", "kind: List\nitems: 3"])
def test_all_else_is_a_queue_file(text: str) -> None:
    assert peer_maps(text) is None


def test_a_manifest_changes_no_daemon(tmp_path: Path) -> None:
    code, said = run(tmp_path, CONFIGS, "--against", "127.0.0.1:1")
    assert (code != 0, "manifest of ConfigMaps" in " ".join(said)) == (True, True)


def test_the_flags_that_are_named_exist() -> None:
    help_of = {name: CliRunner().invoke(cli, [name, "--help"]).output for name in ("kubernetes", "admission", "serve")}
    for key, here in what_becomes(BECOMES):
        for flag in re.findall(r"--[a-z-]+", here):
            named = re.findall(r"schedulerd (\w+)", here) or list(help_of)
            assert any(f"{flag} " in help_of[name] or f"{flag}\n" in help_of[name] for name in named), (key, flag)
