"""Queue files for tests, made from plain data. JSON is YAML, so the text needs no writer of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.config import QueueFileInvalid, load_queue_file
from schedulerd.core.language.specs import PartitionSpec, QueueSpec


def a_partition(*queues: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A partition with `queues` below root."""
    return {"name": "default", "queues": [{"name": "root", "submitacl": "*", "queues": list(queues)}], **keys}


def a_text(*partitions: dict[str, Any], **keys: Any) -> str:
    return json.dumps({"partitions": list(partitions), **keys})


def load_partition(*queues: dict[str, Any], **keys: Any) -> PartitionSpec:
    return load_queue_file(a_text(a_partition(*queues, **keys))).partitions[0]


def load_queue(**keys: Any) -> QueueSpec:
    """The spec of a single queue below root."""
    return load_partition({"name": "a", **keys}).root.children[0]


def problems_of(text: str) -> list[tuple[str, str]]:
    """Path and message of all that is wrong with `text`, which has to be invalid."""
    with pytest.raises(QueueFileInvalid) as raised:
        load_queue_file(text)
    return [(problem.path, problem.message) for problem in raised.value.problems]


def problems_with(*queues: dict[str, Any], **keys: Any) -> list[tuple[str, str]]:
    """Like `problems_of`, with paths relative to root."""
    prefix = "partitions[0].queues[0]."
    return [(path.removeprefix(prefix), message) for path, message in problems_of(a_text(a_partition(*queues, **keys)))]


def paths_with(*queues: dict[str, Any], **keys: Any) -> list[str]:
    return [path for path, _ in problems_with(*queues, **keys)]


def queues_by_path(queue: QueueSpec, above: str = "") -> dict[str, QueueSpec]:
    path = f"{above}{queue.name}"
    found = {path: queue}
    for child in queue.children:
        found |= queues_by_path(child, f"{path}.")
    return found
