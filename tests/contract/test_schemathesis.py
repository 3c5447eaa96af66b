"""Schemathesis makes requests up from the schema of the API and sends them to a real daemon that is full of objects.

The same requests each time. Streams are left out, because they do not end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.contract.busy_daemon import a_busy_daemon

SEED = 25
REQUESTS_MAX = 10
"""For each route and phase."""
SECONDS_MAX = 280
SETTINGS = """
# What is right in form may still be refused for what it says: a cursor of another list, the name of a parent queue.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "413", "422", "503"]

# A body that is too large is refused for that alone.
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "413", "422"]

[[operations]]
include-path = "/events/stream"
enabled = false
"""


def test_no_request_that_the_schema_describes_finds_a_fault(tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    flags = ("--http-tokens-file", str(a_token(tmp_path)), "--http-debug-state", "on")
    with a_busy_daemon(*flags) as (daemon, _):
        done = subprocess.run(
            [
                *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{daemon.url}/api/v1/openapi.json"),
                *("--header", f"Authorization: Bearer {TOKEN}"),
                *("--seed", str(SEED), "--generation-deterministic", "--max-examples", str(REQUESTS_MAX)),
                *("--workers", "1", "--no-color", "--url", f"{daemon.url}/api/v1"),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0, done.stdout[-8_000:] + done.stderr
        assert daemon.state()["violations"] == []
        assert not [line for line in daemon.lines if TOKEN in line or '"level": "critical"' in line]


TOKEN = "a-token-for-schemathesis"


def a_token(folder: Path) -> Path:
    file = folder / "tokens"
    file.write_text(f"tester operate {TOKEN}\n")
    return file
