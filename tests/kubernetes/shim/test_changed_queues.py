"""Quotas and queues that change under running pods: annotations of namespaces, and the daemon's queue file."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.world import JSON, World, node_of

BY_NAMESPACE = """
partitions:
  - name: default
    placementrules:
      - {name: tag, value: namespace, create: true, parent: {name: fixed, value: root.spaces}}
    queues:
      - {name: root, submitacl: "*", queues: [{name: spaces, parent: true}, {name: default}]}
"""
ANOTHER_PARTITION = """
partitions:
  - name: other
    queues:
      - {name: root, submitacl: "*", queues: [{name: default}]}
"""
DEFAULT = ANOTHER_PARTITION.replace("other", "default")
QUOTA = "yunikorn.apache.org/namespace.quota"


@pytest.fixture
def queues(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(DEFAULT)
    return file


@pytest.fixture
def daemon_flags(queues: Path) -> tuple[str, ...]:
    return ("--config", str(queues), "--early-message-timeout-s", "1")


async def annotate(world: World, **quota: str) -> None:
    body = {"metadata": {"annotations": {QUOTA: json.dumps(quota)}}}
    answer = await world.api.patch(r.NAMESPACES, world.api.namespace, body)
    assert answer.status == 200, answer


def any_queue() -> JSON:
    return {"labels": {"applicationId": "job"}}


async def test_a_quota_of_the_namespace_that_is_raised_lets_pods_in(
    world: World, queues: Path, daemon_flags: tuple[str, ...]
) -> None:
    await asyncio.to_thread(queues.write_text, BY_NAMESPACE)
    world.daemon.signal(signal.SIGHUP)
    await world.node("n", cpu="4")
    await annotate(world, cpu="1")
    await world.start()
    await world.pod("first", metadata=any_queue())
    await world.until_bound("first")
    await world.pod("second", metadata=any_queue())
    await world.pod("tiny", cpu="0", metadata=any_queue())
    await world.until_bound("tiny")
    assert not node_of(world.pods["second"])
    await annotate(world, cpu="2")
    await world.until_bound("second")
    await world.agrees()


async def test_what_a_changed_queue_file_rejects_comes_back_with_it(
    world: World, queues: Path, daemon_flags: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon comes back without the partition: it rejects every node and application of the new report."""
    node = await world.node("n", cpu="4")
    await world.start()
    await world.pod("first")
    await world.until_bound("first")
    await world.agrees()
    await asyncio.to_thread(queues.write_text, ANOTHER_PARTITION)
    await asyncio.to_thread(world.restart_daemon)
    await world.until_told("Node", node, "NodeRejected")
    assert any(f"has rejected node {node}" in record.getMessage() for record in caplog.records)
    await world.pod("second")
    await asyncio.to_thread(queues.write_text, DEFAULT)
    await asyncio.to_thread(world.restart_daemon)
    await world.until_bound("second")
    await world.agrees()
    assert len(world.history) == 2
