"""Bodies in a form that can be compared: what DESIGN calls free text is reduced to whether it is there."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ruamel.yaml import YAML

from schedulerd._generated.si.v1 import si_pb2
from tests.rest.compare import Json, normalized

KNOWN_DETAILS = frozenset(si_pb2.EventRecord.ChangeDetail.values())
"""Codes of events of 2023-06."""

EVENT_KINDS = frozenset({1, 2, 3, 4})
"""Kinds of events of 2023-06: request, application, node, queue."""


def comparable(value: Json) -> Json:
    """A JSON body without what is different in each run."""
    return normalized(_present_only(value))


def of_yaml(text: str) -> Json:
    """A YAML body as values; how it is laid out does not matter."""
    return YAML(typ="safe", pure=True).load(text)


def _present_only(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: bool(one) if key == "allocationLog" else _present_only(one) for key, one in value.items()}
    return [_present_only(one) for one in value] if isinstance(value, list) else value


def event_counts(records: list[dict[str, Any]] | None) -> dict[str, int]:
    """Events as a multiset of type, change and object; events that only explain are left out."""
    counts: Counter[str] = Counter()
    for one in records or []:
        kind, change, detail = one.get("type", 0), one.get("eventChangeType", 0), one.get("eventChangeDetail", 0)
        if kind in EVENT_KINDS and change and detail in KNOWN_DETAILS:
            counts[f"{kind}:{change}:{detail}:{one.get('objectID', '')}"] += 1
    return dict(counts)
