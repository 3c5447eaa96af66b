"""`schedulerd demo` as a user runs it: the real daemon and the simulated resource manager, both gone at the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

TIMEOUT_S = 60.0
SHORT = ("--duration", "3", "--nodes", "20", "--seed", "5")

pytestmark = pytest.mark.timeout(90)


@contextmanager
def a_demo(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Starts the demo, with its temporary files in `tmp_path`; whatever a failed test leaves of it is killed.

    SIGINT is ignored where it starts, as for all that a script starts in the background.
    """
    process = subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m", "schedulerd", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "120", "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        for left in offspring(tmp_path):
            left.kill()
        process.communicate()


def offspring(tmp_path: Path) -> list[psutil.Process]:
    """Every process that the demo started, even one that it no longer has for a child: they share its TMPDIR."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("TMPDIR") == str(tmp_path):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def test_the_numbers_add_up_and_no_process_is_left(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    with a_demo(tmp_path, *SHORT, "--json", str(file)) as process:
        printed, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, printed
        assert offspring(tmp_path) == []
    summary = json.loads(file.read_text())
    parts = ("placed", "pending", "released_asks", "rejected")
    assert summary["asks_sent"] == sum(summary[part] for part in parts) > 500
    assert summary["pending"] == summary["held"] == summary["rejected"] == 0
    assert summary["placed"] == summary["releases_confirmed"] + summary["stopped_by_scheduler"] > 500
    assert summary["nodes_used_peak"] == summary["nodes"] == 20
    assert summary["vcore_used_peak_share"] > 0.7
    assert list(tmp_path.glob("schedulerd-demo-*.log")) == []


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """All that was printed until a line holds `text`."""
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if text in line:
            return printed
    raise AssertionError(f"ended without printing {text!r}:\n{printed}")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with a_demo(tmp_path, "--duration", "600", "--nodes", "5") as process:
        wait_for(process, "arriving")
        assert len(offspring(tmp_path)) == 4, "the command, the daemon, its reader of queue files, the resource manager"
        process.send_signal(number)
        printed, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 130, printed
        assert "asks sent" in printed
        assert offspring(tmp_path) == []


def test_a_demo_that_is_killed_takes_its_processes_along(tmp_path: Path) -> None:
    with a_demo(tmp_path, "--duration", "600", "--nodes", "5") as process:
        wait_for(process, "arriving")
        orphans = [child for child in offspring(tmp_path) if child.pid != process.pid]
        assert len(orphans) == 3
        process.kill()
        _, alive = psutil.wait_procs(orphans, timeout=TIMEOUT_S)
        assert alive == []


def test_keep_repeats_the_load_until_it_is_interrupted(tmp_path: Path) -> None:
    with a_demo(tmp_path, "--duration", "0.5", "--nodes", "7", "--keep") as process:
        printed = wait_for(process, "asks sent")
        explain = re.search(r"schedulerd (explain queue root --server http://\S+)", printed)
        assert explain is not None
        wait_for(process, "asks sent")
        said = subprocess.run(
            [sys.executable, "-m", "schedulerd", *explain[1].split()],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "SCHEDULERD_CONTEXTS": str(tmp_path / "none")},
        )
        assert said.stdout.startswith("Queue root runs "), said.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 130
        assert offspring(tmp_path) == []


def test_a_daemon_that_does_not_start_is_said_with_its_log(tmp_path: Path) -> None:
    broken = tmp_path / "queues.yaml"
    broken.write_text("partitions: [{name: default, queues: [{name: root, unknown: 1}]}]\n")
    with a_demo(tmp_path, *SHORT, "--queues", str(broken)) as process:
        printed, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 1
        (log,) = tmp_path.glob("schedulerd-demo-*.log")
        assert f"its log is {log}" in printed
        assert "unknown" in printed
        assert "Traceback" not in printed
        assert offspring(tmp_path) == []
