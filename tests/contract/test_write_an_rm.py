"""The examples of docs/write-an-rm.md, run as they are against a real daemon: they print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess

PAGE = Path(__file__).parents[2] / "docs" / "write-an-rm.md"
EXAMPLES = re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
TARGET = "localhost:3333"

pytestmark = pytest.mark.timeout(90)


def test_both_examples_are_found_and_the_first_is_short() -> None:
    assert len(EXAMPLES) == 2
    code = [line for line in EXAMPLES[0][0].splitlines() if line.strip()]
    assert len(code) <= 22


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_does_what_it_says(daemon: DaemonProcess, tmp_path: Path, code: str, printed: str) -> None:
    assert code.count(TARGET) == 1
    program = tmp_path / "example.py"
    program.write_text(code.replace(TARGET, daemon.target), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
        cwd=PAGE.parents[1],
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", printed)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_passes_a_strict_type_check(tmp_path: Path, number: int) -> None:
    program = tmp_path / "example.py"
    program.write_text(EXAMPLES[number][0], encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * LIMIT_SECONDS,
        cwd=PAGE.parents[1],
    )
    assert checked.returncode == 0, checked.stdout
