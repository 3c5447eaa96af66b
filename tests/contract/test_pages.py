"""The commands of docs/explain.md and docs/api.md that ask a daemon by curl, as they are there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient

DOCS = Path(__file__).parents[2] / "docs"
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
          - name: ml
            queues:
              - name: train
"""

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the pages use curl")


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess() as daemon, RawClient(daemon.target, "rm-1") as client:
        client.register(QUEUES)
        # All three streams stay open: nothing is placed for a resource manager that is away.
        nodes, applications, allocations = client.nodes(), client.applications(), client.allocations()
        nodes.send(client.node("node-0", memory=10**9, vcore=100_000))
        nodes.until(lambda got: any(response.accepted for response in got))
        applications.send(client.application("app-1"))
        applications.until(lambda got: any(response.accepted for response in got))
        allocations.send(client.asks("app-1", ["one"]))
        allocations.until(lambda got: any(response.new for response in got))
        yield daemon


def commands(page: str, to: str) -> list[str]:
    """The commands of a page that call this route."""
    lines = re.findall(r"^(?:\$ )?(curl .*)$", (DOCS / page).read_text(), re.MULTILINE)
    found = [line for line in lines if to in line]
    assert found
    return found


def run(command: str, daemon: DaemonProcess, folder: Path) -> str:
    typed = command.replace("localhost:9080", daemon.url.removeprefix("http://"))
    done = subprocess.run(
        ["bash", "-c", typed.replace("curl ", "curl --silent --max-time 2 ", 1)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode in (0, 28), done.stderr  # 28: an endless stream is cut
    return done.stdout


def test_what_if(daemon: DaemonProcess, tmp_path: Path) -> None:
    for command in commands("explain.md", "/whatif/fits"):
        answer = json.loads(run(command, daemon, tmp_path))
        assert answer["finding"]["fits"] is True, answer


def test_a_queue_file_is_validated(daemon: DaemonProcess, tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES)
    for command in commands("api.md", "/config/validate"):
        assert json.loads(run(command, daemon, tmp_path))["allowed"] is True


def test_events_are_followed(daemon: DaemonProcess, tmp_path: Path) -> None:
    for command in commands("api.md", "/events/stream"):
        assert run(command, daemon, tmp_path).startswith(": instance ")


def test_the_log_level_is_set(daemon: DaemonProcess, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("any")
    for command in commands("security.md", "/loglevel"):
        assert json.loads(run(command, daemon, tmp_path))["level"] == "debug"
