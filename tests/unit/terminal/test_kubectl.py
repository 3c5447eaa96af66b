"""`kubectl schedulerd` uses the namespace that kubectl would use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from schedulerd.cli import kubectl as group
from schedulerd.terminal import kubectl
from schedulerd.terminal.api_client import ApiClient, ApiProblem

CONFIG = """
apiVersion: v1
kind: Config
current-context: work
contexts:
- name: other
  context: {cluster: c, user: u, namespace: elsewhere}
- name: work
  context: {cluster: c, user: u, namespace: team-a}
- name: plain
  context: {cluster: c, user: u}
"""
ANSWER = {"summary": ["Waits."], "details": [], "explanation": None}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", str(tmp_path / "contexts.yaml"))
    monkeypatch.setattr(kubectl, "_IN_CLUSTER", tmp_path / "namespace")


def written(tmp_path: Path, text: str, name: str = "config") -> str:
    file = tmp_path / name
    file.write_text(text)
    return str(file)


def test_the_namespace_is_that_of_the_current_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert kubectl.current_namespace() == "default"
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    written(tmp_path, CONFIG, "home/.kube/config")
    assert kubectl.current_namespace() == "team-a"
    monkeypatch.setenv(
        "KUBECONFIG", written(tmp_path, CONFIG.replace("current-context: work", "current-context: other"))
    )
    assert kubectl.current_namespace() == "elsewhere"
    monkeypatch.setenv(
        "KUBECONFIG", written(tmp_path, CONFIG.replace("current-context: work", "current-context: plain"))
    )
    assert kubectl.current_namespace() == "default"


def test_of_several_files_the_first_one_that_says_something_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = written(tmp_path, "contexts: [{name: work, context: {namespace: mine}}]", "first")
    broken = written(tmp_path, "{", "broken")
    odd = written(tmp_path, "contexts: [1, {name: 2, context: x}]\ncurrent-context: [work]", "odd")
    files = [str(tmp_path / "missing"), broken, odd, first, written(tmp_path, CONFIG)]
    monkeypatch.setenv("KUBECONFIG", ":".join(files))
    assert kubectl.current_namespace() == "mine"


def test_in_a_pod_it_is_the_namespace_of_the_pod(tmp_path: Path) -> None:
    written(tmp_path, "here\n", "namespace")
    assert kubectl.current_namespace() == "here"


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Result, list[tuple[str, dict[str, Any]]]]:
    asked = []

    def get(_client: ApiClient, path: str, query: dict[str, Any]) -> Any:
        asked.append((path, {key: value for key, value in query.items() if key in ("namespace", "pod")}))
        return ANSWER if path.startswith("/explain") else {"items": [], "next": ""}

    monkeypatch.setattr(ApiClient, "get", get)
    return CliRunner().invoke(group, list(words)), asked


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("explain pod p", ("/explain/pod", {"namespace": "team-a", "pod": "p"})),
        ("explain pod p -n b", ("/explain/pod", {"namespace": "b", "pod": "p"})),
        ("explain pod b/p", ("/explain/pod", {"namespace": "b", "pod": "p"})),
        ("explain web", ("/explain/application", {"namespace": "team-a"})),
        ("explain web k -n b", ("/explain/ask", {"namespace": "b"})),
        ("get apps", ("/applications", {"namespace": "team-a"})),
        ("get asks -n b", ("/asks", {"namespace": "b"})),
        ("get asks -A", ("/asks", {})),
        ("get nodes", ("/nodes", {})),
    ],
)
def test_commands_of_kubectl_follow_its_namespace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, asked: tuple[str, dict[str, str]]
) -> None:
    monkeypatch.setenv("KUBECONFIG", written(tmp_path, CONFIG))
    result, found = run(monkeypatch, *words.split())
    assert (result.exit_code, found) == (0, [asked]), result.output


@pytest.mark.parametrize("words", ["explain pod a/p -n b", "explain queue root.a -n b", "get apps -A -n b"])
def test_namespaces_that_contradict_each_other_are_wrong_usage(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    result, asked = run(monkeypatch, *words.split())
    assert (result.exit_code != 0, asked) == (True, [])


def test_an_application_of_another_namespace_is_found_after_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", written(tmp_path, CONFIG))
    asked = []

    def get(_client: ApiClient, _path: str, query: dict[str, Any]) -> Any:
        asked.append(query["namespace"])
        if query["namespace"]:
            raise ApiProblem(404, "application: 'b.web' is not there")
        return ANSWER

    monkeypatch.setattr(ApiClient, "get", get)
    assert CliRunner().invoke(group, ["explain", "b.web"]).exit_code == 0
    assert asked == ["team-a", ""]
