"""What the simulator reads from a queue file: quotas in base units, paths, and clear words if it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedulerd.config import load_queue_file
from schedulerd.simulate.demo import shipped_queue_file
from schedulerd.simulate.queue_file import QueueFileUnreadable, QueueQuota, many_queues, read_quotas
from schedulerd.simulate.workload import KINDS


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_tree_with_its_quotas(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
partitions:
  - name: other
    queues: [{name: root, queues: [{name: nothing}]}]
  - name: Default
    queues:
      - name: root
        queues:
          - name: Team
            resources:
              guaranteed: {memory: 2Gi, vcore: 500m}
              max: {memory: 3M, vcore: 2, nvidia.com/gpu: 4}
            queues: [{name: leaf}]
          - {name: made-later, parent: true}
""",
    )
    assert read_quotas(file) == (
        QueueQuota("root", is_leaf=False),
        QueueQuota("root.team", False, 2 << 30, 500, 3_000_000, 2_000),
        QueueQuota("root.team.leaf", is_leaf=True),
        QueueQuota("root.made-later", is_leaf=False),
    )


def test_a_root_is_added_if_there_is_none(tmp_path: Path) -> None:
    file = write(tmp_path, "partitions: [{name: default, queues: [{name: a}, {name: b}]}]")
    assert [quota.path for quota in read_quotas(file)] == ["root", "root.a", "root.b"]


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [("17", 17), ("1k", 10**3), ("2G", 2 * 10**9), ("1Ki", 2**10), ("1Mi", 2**20), ("3Ti", 3 * 2**40), ("1E", 10**18)],
)
def test_memory_units(tmp_path: Path, written: str, bytes_: int) -> None:
    text = f"partitions: [{{name: default, queues: [{{name: a, resources: {{max: {{memory: {written}}}}}}}]}}]"
    assert read_quotas(write(tmp_path, text))[1].max_memory_bytes == bytes_


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partitions: [{", "is not YAML"),
        ("queues: []", "no queues that can be shown"),
        ("partitions: []", "no queues that can be shown"),
        ("just words", "no queues that can be shown"),
        ("partitions: [{queues: [{name: a, resources: {max: {memory: 1.5Gi}}}]}]", "'1.5Gi' is not a whole number"),
        ("partitions: [{queues: [{name: a, resources: {max: {memory: 5m}}}]}]", "memory '5m'"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(QueueFileUnreadable) as caught:
        read_quotas(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(QueueFileUnreadable, match="cannot read"):
        read_quotas(tmp_path / "absent.yaml")


def test_the_shipped_file_has_the_queues_that_the_workload_uses() -> None:
    leaves = {quota.path for quota in read_quotas(shipped_queue_file()) if quota.is_leaf}
    assert {kind.queue for kind in KINDS} <= leaves


@pytest.mark.parametrize("count", [1, 20, 21, 280])
def test_a_file_with_so_many_queues(tmp_path: Path, count: int) -> None:
    text = many_queues(count)
    assert load_queue_file(text).warnings == ()
    assert sum(one.is_leaf for one in read_quotas(write(tmp_path, text))) == count
