"""The queue file of a resource manager in the peer's shape, with what it sent beside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from schedulerd.config import ShownConfiguration
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn.go_json import Fields

SHOWN_PREFIXES = ("event.", "log.", "health.", "service.")
"""Names of extra configuration whose values are no secrets."""

HIDDEN = "***"

EXTRA_MAX = 1_000
"""Names of extra configuration that are shown."""

DEADLOCK_DETECTION = {"DeadlockDetectionEnabled": False, "DeadlockTimeoutSeconds": 60}
"""There are no locks here; clients of the peer expect the keys."""


def configuration_json(rm: ResourceManager | None, shown: ShownConfiguration | None) -> Fields:
    """With the names of the peer's JSON."""
    value: Fields = {}
    if shown is not None and shown.partitions:
        value["Partitions"] = _listed(shown.partitions)
    if rm is not None and rm.configuration.checksum:
        value["Checksum"] = rm.configuration.checksum
    if rm is not None and rm.extra_config:
        value["Extra"] = _extra(rm.extra_config)
    return value | DEADLOCK_DETECTION


def _in_slices(item: Fields) -> Fields:
    """A partition, or what is in it, whose queues, limits and rules are written one by one: there may be thousands."""
    return {name: _listed(part) if isinstance(part, list) else part for name, part in item.items()}


def _listed(items: list[Any]) -> object:
    return Listed(map(_in_slices, items)) if items and isinstance(items[0], dict) else items


def configuration_yaml(rm: ResourceManager | None, shown: ShownConfiguration | None) -> str:
    """With the names of the queue file."""
    lines = [shown.yaml] if shown is not None else []
    if rm is not None and rm.configuration.checksum:
        lines.append(f"checksum: {rm.configuration.checksum}\n")
    if rm is not None and rm.extra_config:
        lines.append("extra:\n")
        lines += [f"    {json.dumps(name)}: {json.dumps(text)}\n" for name, text in _extra(rm.extra_config).items()]
    lines += [f"{name.lower()}: {json.dumps(value)}\n" for name, value in DEADLOCK_DETECTION.items()]
    return "".join(lines)


def _extra(extra: Mapping[str, str]) -> dict[str, str]:
    """Names with those values that are no secrets."""
    return {
        name: text if name.startswith(SHOWN_PREFIXES) else HIDDEN for name, text in sorted(extra.items())[:EXTRA_MAX]
    }
