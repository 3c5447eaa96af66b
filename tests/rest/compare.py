"""What differs between a recorded answer and ours, as places and values; nothing is excused here.

Times and generated ids are taken out of both, and lists without an order are matched by what identifies their items, so
that one missing item is one difference.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = Any

TIMES = frozenset(
    {
        "startTime",
        "submissionTime",
        "finishedTime",
        "requestTime",
        "allocationTime",
        "allocationDelay",
        "time",
        "timestamp",
        "lastOccurrence",
        "lastStateTransitionTime",
        "timestampNano",
        "backoffDeadline",
        "CreatedAt",
    }
)
NEVER = (0, "", -62_135_596_800_000)
"""Times that say that there was none; they are compared."""

IDS = frozenset({"uuid", "InstanceUUID", "allocationID"})
FREE_TEXT = frozenset({"rejectedMessage", "DiagnosisMessage"})
"""Only whether there is a text is compared. Of `message` and `reason` it depends on where they are."""

ORDERED = frozenset(
    {
        "stateLog",
        "HealthChecks",
        "EventRecords",
        "utilization",
        "Queues",
        "Partitions",
        "Limits",
        "PlacementRules",
        "Users",
        "Groups",
        "rules",
        "appHistory",
        "containerHistory",
    }
)
IDENTITY = (
    "applicationID",
    "allocationKey",
    "nodeID",
    "queuename",
    "queuePath",
    "userName",
    "groupName",
    "taskGroupName",
    "bucketName",
    "type",
    "partition",
    "name",
)

MISSING = "(not there)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two answers differ."""

    pointer: str
    """JSON pointer into the body, or `status` or the name of a header. Items of lists without order stand there with
    what identifies them."""
    expected: Json
    actual: Json


def normalized(value: Json, key: str = "", parent: Json = None) -> Json:
    """The value without what is different in each run."""
    if isinstance(value, dict):
        return {name: normalized(one, name, value) for name, one in value.items()}
    if isinstance(value, list):
        return [normalized(one) for one in value]
    if key in TIMES and isinstance(value, int | str):
        return value if value in NEVER else "T"
    if key in IDS:
        return "UUID"
    if key in FREE_TEXT or (key == "reason" and isinstance(value, str)):
        return "text" if value else ""
    return value


def differences(expected: Json, actual: Json, pointer: str = "", key: str = "") -> Iterator[Difference]:
    """The places where two normalized values differ."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys()):
            yield from differences(
                expected.get(name, MISSING), actual.get(name, MISSING), f"{pointer}/{_escaped(name)}", name
            )
    elif isinstance(expected, list) and isinstance(actual, list):
        if key in ORDERED:
            yield from _in_order(expected, actual, pointer)
        else:
            yield from _by_identity(expected, actual, pointer)
    elif not _is_equal(expected, actual):
        yield Difference(pointer, expected, actual)


def _is_equal(one: Json, other: Json) -> bool:
    """A number is no truth value."""
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def _in_order(expected: list[Json], actual: list[Json], pointer: str) -> Iterator[Difference]:
    for index in range(max(len(expected), len(actual))):
        yield from differences(
            expected[index] if index < len(expected) else MISSING,
            actual[index] if index < len(actual) else MISSING,
            f"{pointer}/{index}",
        )


def _by_identity(expected: list[Json], actual: list[Json], pointer: str) -> Iterator[Difference]:
    there, ours = _identified(expected), _identified(actual)
    for identity in sorted(there.keys() | ours.keys()):
        yield from differences(there.get(identity, MISSING), ours.get(identity, MISSING), f"{pointer}/{identity}")


def _identified(items: list[Json]) -> dict[str, Json]:
    """The items by what identifies them; those that nothing tells apart are numbered in a fixed order."""
    found: dict[str, Json] = {}
    counts: Counter[str] = Counter()
    for item in sorted(items, key=lambda one: json.dumps(one, sort_keys=True)):
        name = next((str(item[key]) for key in IDENTITY if item.get(key)), "") if isinstance(item, dict) else str(item)
        identity = _escaped(name) if name else "*"
        counts[identity] += 1
        found[identity if counts[identity] == 1 else f"{identity}#{counts[identity]}"] = item
    return found


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
