"""The copy of a kube-apiserver differs from it in a few bytes of one function, and other programs are left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kubernetes.contract.real_server import assets
from tests.kubernetes.contract.repaired import repaired


@pytest.mark.parametrize("content", [b"#!/bin/sh\n" + b" " * 64, b"\x7fELF\x01\x01" + bytes(100)])
def test_what_is_no_program_of_go_is_left_alone(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "kube-apiserver"
    file.write_bytes(content)
    assert repaired(file) == file


def test_other_programs_are_left_alone() -> None:
    shell = Path(shutil.which("sh") or "/bin/sh").resolve()
    assert repaired(shell) == shell


def test_one_jump_is_the_difference() -> None:
    folder = assets()
    if folder is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    server = folder / "kube-apiserver"
    copy = repaired(server)
    if copy == server:
        pytest.skip("this kube-apiserver has no library that reads maps wrongly")
    before, after = server.read_bytes(), copy.read_bytes()
    assert len(before) == len(after)
    size = 1 << 20
    parts = [at for at in range(0, len(before), size) if before[at : at + size] != after[at : at + size]]
    changed = [at + i for at in parts for i in range(size) if before[at + i : at + i + 1] != after[at + i : at + i + 1]]
    assert changed
    assert changed[-1] - changed[0] < 11
