"""The commands of the terminal as users run them: processes, over the port of a real daemon."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from schedulerd.terminal.words import clean
from tests.contract.busy_daemon import HOSTILE, a_busy_daemon
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.interruptible import interruptible

ROOT = Path(__file__).parents[2]
VIEW, OPERATE = "view-token-0123456789", "operate-token-0123456789"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text(f"ann view {VIEW}\nbob operate {OPERATE}\n")
    return file


@pytest.fixture(scope="module")
def busy(tokens: Path) -> Iterator[DaemonProcess]:
    with a_busy_daemon("--http-tokens-file", str(tokens)) as (daemon, _):
        yield daemon


class Terminal:
    """Runs commands with contexts of its own."""

    def __init__(self, folder: Path, daemon: DaemonProcess) -> None:
        self.contexts = folder / "contexts.yaml"
        self.environment = {**os.environ, "SCHEDULERD_CONTEXTS": str(self.contexts), "PYTHONPATH": str(ROOT)}
        self.run("context", "set", "view", "--server", daemon.url, "--token-stdin", stdin=f"{VIEW}\n")
        self.run("context", "set", "operate", "--server", daemon.url, "--token-stdin", stdin=f"{OPERATE}\n")

    def run(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        done = subprocess.run(
            self._command(words),
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=LIMIT_SECONDS,
        )
        return done.returncode, done.stdout, done.stderr

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            interruptible(self._command(words)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def json(self, *words: str) -> Any:
        status, text, error = self.run(*words, "-o", "json")
        assert status == 0, error
        return json.loads(text)

    @staticmethod
    def _command(words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "schedulerd", *words]


@pytest.fixture
def terminal(tmp_path: Path, busy: DaemonProcess) -> Terminal:
    return Terminal(tmp_path, busy)


def test_an_ask_that_waits_is_explained(terminal: Terminal) -> None:
    status, text, _ = terminal.run("explain", "app-1", "k-12")
    assert status == 0
    assert text.splitlines()[0].startswith("Queue root.a is at its quota: 100 of 100 memory used, 10 more asked.")
    assert terminal.json("explain", "app-1", "k-12")["explanation"]["application_id"] == "app-1"
    status, text, _ = terminal.run("explain", "queue", "root", "-o", "yaml")
    found = YAML(typ="safe").load(text)
    assert (status, found["explanation"]["queue"]) == (0, "root")


def test_a_queue_is_stopped_by_an_operator_only(terminal: Terminal) -> None:
    status, text, _ = terminal.run("queue", "root.a")
    assert (status, text.splitlines()[0]) == (0, "root.a: active (leaf)")
    assert "  memory: used 100, guaranteed 10, max 100, pending 30" in text.splitlines()
    status, text, error = terminal.run("queue", "root.a", "stop", "--context", "view")
    assert (status, text, error) == (5, "", "Error: token ann may view; this needs the role operate\n")
    status, text, _ = terminal.run("queue", "root.a", "stop", "--context", "operate")
    assert (status, text.splitlines()[0]) == (0, "root.a: stopped (leaf)")
    status, text, _ = terminal.run("get", "events", "root.a", "-o", "json")
    messages = [json.loads(line)["message"] for line in text.splitlines()]
    assert messages[-1] == "stopped by bob: takes no new applications, and finishes those it has"
    assert terminal.json("queue", "root.a", "start")["state"] == "active"


def test_exit_codes(terminal: Terminal) -> None:
    assert terminal.run("explain", "nothing")[0] == 3
    assert terminal.run("get", "rabbits")[0] == 1
    assert terminal.run("queue", "root.a", "halt")[0] == 1
    assert terminal.run("get", "apps", "--server", "http://127.0.0.1:1")[0] == 4
    terminal.environment["SCHEDULERD_CONTEXTS"] = "/nonexistent/contexts.yaml"
    assert terminal.run("get", "apps", "--server", "http://127.0.0.1:1")[0] == 4


def test_contexts_are_for_their_owner_only_and_tokens_are_shown_nowhere(terminal: Terminal) -> None:
    assert stat.S_IMODE(terminal.contexts.stat().st_mode) == 0o600
    status, text, _ = terminal.run("context", "list")
    assert (status, "operate" in text, OPERATE in text) == (0, True, False)
    terminal.contexts.chmod(0o644)
    status, _, error = terminal.run("get", "apps")
    assert (status, "chmod 600" in error) == (1, True)


def test_watching_asks_again_until_it_is_stopped(terminal: Terminal) -> None:
    process = terminal.start("queue", "root.b", "--watch")
    assert process.stdout is not None
    try:
        heads: list[str] = []
        while len(heads) < 2:
            line = process.stdout.readline()
            assert line, "it ended by itself"
            if line.startswith("root.b: "):
                heads.append(line)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 130
    finally:
        process.kill()
        process.communicate()


def test_events_are_followed(terminal: Terminal) -> None:
    process = terminal.start("get", "events", "root.b", "--watch", "-o", "json")
    assert process.stdout is not None
    try:
        while json.loads(process.stdout.readline())["object"] != "root.b":
            pass
        assert terminal.run("queue", "root.b", "stop")[0] == 0
        while "stopped by bob" not in json.loads(process.stdout.readline())["message"]:
            pass
        assert terminal.run("queue", "root.b", "start")[0] == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "words",
    [
        ("get", "nodes"),
        ("get", "apps"),
        ("get", "asks"),
        ("get", "events"),
        ("get", "queues", "-o", "yaml"),
        ("get", "apps", "-o", "json"),
        ("top",),
        ("explain", "queue", "root.b"),
        ("explain", "hostile-0 " + HOSTILE[0]),
        ("explain", "hostile-2 " + HOSTILE[2], HOSTILE[2]),
        ("explain", "pod", f"{HOSTILE[1]}/{HOSTILE[1]}", "-o", "yaml"),
        ("explain", "nothing" + HOSTILE[3]),
        ("queue", "root." + HOSTILE[4].replace("\0", "")),
    ],
)
def test_names_of_tenants_control_no_terminal(terminal: Terminal, words: tuple[str, ...]) -> None:
    status, text, error = terminal.run(*words)
    assert status in (0, 3)
    for line in (text + error).split("\n"):
        assert clean(line) == line, words
    assert "\nError: forged" not in text + error


@pytest.mark.smoke
def test_markup_is_shown_as_it_is(terminal: Terminal) -> None:
    assert "[bold red]markup[/bold red][link=file:///etc/passwd]x[/link]" in terminal.run("get", "nodes")[1]


def test_the_scripts_are_installed_with_the_package() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"schedulerd": "schedulerd.cli:main", "kubectl-schedulerd": "schedulerd.cli:kubectl_main"}


def a_script(folder: Path, name: str, function: str) -> Path:
    """What an installation makes of an entry point."""
    folder.mkdir(exist_ok=True)
    script = folder / name
    script.write_text(f"#!{sys.executable}\nfrom schedulerd.cli import {function}\n{function}()\n")
    script.chmod(0o755)
    return script


@pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason="KUBEBUILDER_ASSETS names no folder with kubectl")
def test_kubectl_finds_its_plugin(terminal: Terminal, tmp_path: Path) -> None:
    kubectl = str(Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl")
    script = a_script(tmp_path / "bin", "kubectl-schedulerd", "kubectl_main")
    environment = {**terminal.environment, "PATH": f"{script.parent}:/usr/bin:/bin"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([kubectl, *words], capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS)

    assert str(script) in run("plugin", "list").stdout
    name = HOSTILE[6]
    explained = run("schedulerd", "explain", "pod", f"{name}/{name}", "-o", "json")
    assert explained.returncode == 0, explained.stderr
    assert json.loads(explained.stdout)["explanation"]["pod"] == f"{name}/{name}"
    refused = run("schedulerd", "explain", "pod", "ns/nothing")
    assert refused.stderr.startswith(
        "Error: pod: there is no ask of 'ns/nothing', and the resource manager could not be"
    )
    assert refused.returncode == 3
    assert run("schedulerd", "serve").returncode == 1


def completions(terminal: Terminal, tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    script = a_script(tmp_path / "bin", "schedulerd", "main")
    written = terminal.run("completion", "bash")[1]
    asks = "\n".join(
        (
            written,
            f"COMP_WORDS=({' '.join(repr(word) for word in words)})",
            f"COMP_CWORD={len(words) - 1}",
            "_schedulerd_completion schedulerd",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        )
    )
    environment = {**terminal.environment, "PATH": f"{script.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", asks], capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_kinds_verbs_and_contexts(terminal: Terminal, tmp_path: Path) -> None:
    assert completions(terminal, tmp_path, "schedulerd", "ex") == ["explain"]
    assert completions(terminal, tmp_path, "schedulerd", "get", "no") == ["nodes"]
    assert completions(terminal, tmp_path, "schedulerd", "queue", "root.a", "st") == ["stop", "start"]
    assert completions(terminal, tmp_path, "schedulerd", "get", "nodes", "--context", "op") == ["operate"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_other_shells(terminal: Terminal, shell: str) -> None:
    status, text, _ = terminal.run("completion", shell)
    assert (status, f"_SCHEDULERD_COMPLETE={shell}_complete" in text) == (0, True)
