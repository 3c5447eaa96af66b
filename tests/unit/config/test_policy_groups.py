from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from schedulerd.config import PolicyGroupUnknown, Settings, read_policy_group
from schedulerd.config.default_file import default_queue_file_text


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    groups = tmp_path / "groups"
    groups.mkdir()
    (tmp_path / "secret.yaml").write_text("secret")
    (groups / "gpu.yaml").write_text("gpu: ä", encoding="utf-8")
    return groups


@pytest.mark.parametrize("group", ["", "queues"])
def test_without_settings_the_shipped_file_is_used(group: str) -> None:
    found = read_policy_group(Settings(), group)
    assert found.text == default_queue_file_text()
    assert found.source == "shipped queue file"


@pytest.mark.parametrize("group", ["", "queues"])
def test_the_configured_file_is_that_of_the_default_group(group: str, directory: Path) -> None:
    own = directory / "gpu.yaml"
    (directory / "queues.yaml").write_text("from the directory")
    assert read_policy_group(Settings(config=own, policy_groups_dir=directory), group).text == "gpu: ä"
    assert read_policy_group(Settings(policy_groups_dir=directory), group).text == "from the directory"


def test_a_group_is_a_file_of_the_directory(directory: Path) -> None:
    found = read_policy_group(Settings(policy_groups_dir=directory), "gpu")
    assert (found.text, found.source) == ("gpu: ä", str(directory / "gpu.yaml"))


def test_a_group_without_a_file(directory: Path) -> None:
    with pytest.raises(PolicyGroupUnknown, match="policyGroup 'cpu' has no queue file; known are gpu, queues"):
        read_policy_group(Settings(policy_groups_dir=directory), "cpu")
    with pytest.raises(PolicyGroupUnknown, match="policyGroup 'cpu' has no queue file; known are queues"):
        read_policy_group(Settings(config=directory / "gpu.yaml"), "cpu")
    with pytest.raises(PolicyGroupUnknown, match="policyGroup 'gpu' has no queue file; known are queues"):
        read_policy_group(Settings(), "gpu")


@pytest.mark.parametrize("group", ["../secret", "/etc/passwd", ".hidden", "a/b", "a\0b", " ", "x" * 65, "ä"])
def test_a_group_cannot_name_a_file_elsewhere(group: str, directory: Path) -> None:
    with pytest.raises(PolicyGroupUnknown, match="is not a name"):
        read_policy_group(Settings(policy_groups_dir=directory), group)


def test_a_file_that_cannot_be_read(directory: Path) -> None:
    (directory / "latin.yaml").write_bytes(b"\xff")
    with pytest.raises(PolicyGroupUnknown, match=r"latin.yaml of policyGroup 'latin' cannot be read"):
        read_policy_group(Settings(policy_groups_dir=directory), "latin")


def test_a_directory_that_cannot_be_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_path: Path, *_: object) -> NoReturn:
        raise OSError(errno.ESTALE, "Stale file handle")

    for method in ("exists", "glob"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, fails)
            with pytest.raises(PolicyGroupUnknown) as unknown:
                read_policy_group(Settings(policy_groups_dir=directory), "batch")
        assert str(unknown.value) == f"policy_groups_dir {directory} cannot be read: Stale file handle"


def test_a_group_whose_file_is_no_file_is_told_so(directory: Path) -> None:
    os.mkfifo(directory / "pipe.yaml")
    (directory / "folder.yaml").mkdir()
    settings = Settings(policy_groups_dir=directory)
    for group, kind in (("pipe", "a FIFO"), ("folder", "a directory")):
        path = directory / f"{group}.yaml"
        with pytest.raises(PolicyGroupUnknown) as unknown:
            read_policy_group(settings, group)
        sentence = f"cannot be read: it is {kind}; it must be a regular file"
        assert str(unknown.value) == f"the queue file {path} of policyGroup '{group}' {sentence}"
