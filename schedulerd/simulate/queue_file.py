"""Reads guaranteed and max of every queue out of a queue file, for the view and to find queues to submit to.

The scheduler is the one to judge a queue file; this reader takes from it what a viewer needs and says so when that is
not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

_QUANTITY = re.compile(r"(\d+)\s*(m|k|[MGTPE]|[KMGTPE]i)?")
_FACTORS: dict[str, int] = {"": 1} | {
    suffix: factor
    for power, letter in enumerate("KMGTPE", start=1)
    for suffix, factor in ((letter.replace("K", "k"), 1000**power), (f"{letter}i", 1024**power))
}


QUEUES_MAX = 5_000
"""Leaf queues that can be made at once."""
GROUP = 20
"""Leaf queues below one parent."""


class QueueFileUnreadable(Exception):
    """The queue file cannot be used; the message names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class QueueQuota:
    """One queue; None where the file sets nothing. Memory in bytes, vcore in thousandths of a core."""

    path: str
    is_leaf: bool
    guaranteed_memory_bytes: int | None = None
    guaranteed_vcore_milli: int | None = None
    max_memory_bytes: int | None = None
    max_vcore_milli: int | None = None


def many_queues(count: int) -> str:
    """A queue file with so many leaf queues, in groups below root, to which everybody may submit."""
    lines = [
        "partitions:",
        "  - name: default",
        "    queues:",
        "      - name: root",
        '        submitacl: "*"',
        "        queues:",
    ]
    for first in range(0, count, GROUP):
        lines += [f"          - name: group-{first // GROUP:03}", "            queues:"]
        lines += [f"              - name: team-{number:04}" for number in range(first, min(first + GROUP, count))]
    return "\n".join(lines) + "\n"


def read_quotas(file: Path) -> tuple[QueueQuota, ...]:
    """All queues of the file's default partition, parents before their children, in the order of the file."""
    try:
        document = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise QueueFileUnreadable(f"cannot read {file}: {error}") from error
    except YAMLError as error:
        raise QueueFileUnreadable(f"{file} is not YAML: {error}") from error
    try:
        partitions = document["partitions"]
        named = [part for part in partitions if str(part.get("name", "default")).lower() == "default"]
        queues = (named or partitions)[0]["queues"]
        if len(queues) != 1 or queues[0]["name"].lower() != "root":
            queues = [{"name": "root", "queues": queues}]
        return tuple(_walk(queues[0], ""))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise QueueFileUnreadable(
            f"{file} has no queues that can be shown ({type(error).__name__}: {error}); `schedulerd validate` says more"
        ) from error


def _walk(queue: Mapping[str, Any], parent: str) -> Iterator[QueueQuota]:
    path = f"{parent}.{queue['name']}".lstrip(".").lower()
    children = queue.get("queues") or []
    resources = queue.get("resources") or {}
    guaranteed, maximum = resources.get("guaranteed") or {}, resources.get("max") or {}
    yield QueueQuota(
        path=path,
        is_leaf=not children and not queue.get("parent", False) and path != "root",
        guaranteed_memory_bytes=_quantity(guaranteed, "memory"),
        guaranteed_vcore_milli=_quantity(guaranteed, "vcore"),
        max_memory_bytes=_quantity(maximum, "memory"),
        max_vcore_milli=_quantity(maximum, "vcore"),
    )
    for child in children:
        yield from _walk(child, path)


def _quantity(resources: Mapping[str, Any], name: str) -> int | None:
    """A quantity of the file as a number: vcore counts in thousandths, everything else in units (SEMANTICS D)."""
    if name not in resources:
        return None
    text = str(resources[name]).strip()
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[2] == "m" and name != "vcore"):
        raise ValueError(f"{name} {text!r} is not a whole number with an optional suffix such as Gi")
    if match[2] == "m":
        return int(match[1])
    units = int(match[1]) * _FACTORS[match[2] or ""]
    return units * 1000 if name == "vcore" else units
