"""protos/generate.py --check sees every way in which the checked-in code can differ from the .proto files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("protos", "schedulerd/_generated"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def generate(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "protos" / "generate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_what_is_checked_in_is_fresh(checkout: Path) -> None:
    done = generate(checkout, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_a_missing_and_a_leftover_file_are_named_then_mended(checkout: Path) -> None:
    generated = checkout / "schedulerd" / "_generated"
    admin = checkout / "protos" / "schedulerd" / "v1" / "admin.proto"
    admin.write_text(admin.read_text().replace("string rmID = 1;", "string rmID = 2;", 1))
    (generated / "si" / "v1" / "si_pb2.pyi").unlink()
    (generated / "si" / "v1" / "old_pb2.py").write_text("")

    done = generate(checkout, "--check")

    assert done.returncode == 1
    named = [line.split()[0] for line in done.stderr.splitlines()]
    assert named == [
        "schedulerd/_generated/schedulerd/v1/admin_pb2.py",
        "schedulerd/_generated/si/v1/old_pb2.py",
        "schedulerd/_generated/si/v1/si_pb2.pyi",
    ]
    assert generate(checkout).returncode == 0
    assert generate(checkout, "--check").returncode == 0
