"""1.4 -> head: an answer of 1.4 as head would give it, as far as that is known.

What only head has is taken out of our answer; what only 1.4 has is taken out of the recorded one. Where a status, a
text or the form of a value has changed between the two, the recorded one is changed.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, unquote_plus

from schedulerd.daemon.yunikorn import errors
from tests.rest.compare import Json

NOT_FOUND = frozenset(
    {
        errors.PARTITION_NOT_FOUND,
        errors.QUEUE_NOT_FOUND,
        errors.APPLICATION_NOT_FOUND,
        errors.NODE_NOT_FOUND,
        errors.USER_NOT_FOUND,
        errors.GROUP_NOT_FOUND,
    }
)
OF_HEAD = frozenset(
    {
        "headroom",
        "childNames",
        "sortingPolicy",
        "prioritySorting",
        "preemptionEnabled",
        "quotaPreemptionEnabled",
        "isPreemptionFence",
        "preemptionDelay",
        "quotaPreemptionDelay",
        "isPriorityFence",
        "priorityOffset",
        "startTime",
        "resourceHistory",
        "schedulingAttempted",
        "triggeredScaleUp",
        "DeadlockDetectionEnabled",
        "DeadlockTimeoutSeconds",
        "deadlockdetectionenabled",
        "deadlocktimeoutseconds",
        "UserGroupResolver",
        "allocationDelay",
        "originator",
    }
)
"""Keys that only head has; and the delay of an allocation, which head does not have as ask and allocation are one."""
AMOUNTS = frozenset(
    {
        "capacity",
        "usedCapacity",
        "utilization",
        "allocated",
        "available",
        "occupied",
        "utilized",
        "pendingResource",
        "usedResource",
        "maxUsedResource",
        "allocatedResource",
        "preemptingResource",
        "absUsedCapacity",
        "resource",
        "resourceUsage",
        "maxResource",
    }
)
"""Amounts in which 1.4 keeps a resource at zero."""
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})[^/]{0,2}")
"""What head, which decodes names a second time, cannot decode."""
_USER = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*\$?")
_GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


def to_head(
    path: str, status: int, headers: dict[str, str], body: Json, ours: Json
) -> tuple[int, dict[str, str], Json, Json]:
    """Status, headers and body as head would give them, and our body without what only head has."""
    if "/periodicstatedump" in path:
        return 404, {"Content-Type": "text/plain; charset=utf-8"}, "404 page not found\n", ours
    if isinstance(body, dict) and isinstance(body.get("EventRecords"), dict):
        records = {name.replace("2:2:0:", "2:2:203:", 1): count for name, count in body["EventRecords"].items()}
        return status, headers, {"EventRecords": records}, ours
    if isinstance(body, dict) and "status_code" in body:
        status, text = _error(path, status, str(body["message"]), ours)
        return status, headers, {"status_code": status, "message": text, "description": text}, ours
    if body is None and isinstance(ours, list):
        body = []
    if path.endswith("/healthcheck") and isinstance(body, dict):
        body = {**body, "HealthChecks": [one for one in body.get("HealthChecks", []) if not _is_left_out(one, ours)]}
    return status, headers, _object(body), _without_head(ours)


def _error(path: str, status: int, text: str, ours: Json) -> tuple[int, str]:
    last = unquote_plus(unquote(path.rsplit("/", 1)[-1]))
    if "/usage/user/" in path and not _USER.fullmatch(last):
        return 400, errors.INVALID_USER
    if "/usage/group/" in path and not _GROUP.fullmatch(last):
        return 400, errors.INVALID_GROUP
    if text in NOT_FOUND:
        return 404, text
    if text == errors.EVENTS_DISABLED:
        return 500, text
    if text == "Internal metrics collection is not enabled.":
        return 500, text
    if text == "The healthy status of scheduler is not found":
        return 404, "Health check is not available"
    if "queue name" in text and "64" in text:
        bad = _BAD_ESCAPE.search(unquote(path))
        return 400, f'invalid URL escape "{bad[0]}"' if bad is not None else errors.INVALID_QUEUE
    if text.startswith("strconv.ParseInt"):
        return 400, text.replace("ParseInt", "ParseUint")
    if found := re.fullmatch(r"Illegal (?:number of events|id): (-?\d+)", text):
        number = found[1]
        if number == "0":
            return 400, '0 is not a valid value for "count"'
        return 400, f'strconv.ParseUint: parsing "{number}": invalid syntax'
    return status, text


def _is_left_out(check: dict[str, Any], ours: Json) -> bool:
    """Head has no longer some of the checks of 1.4."""
    kept = {one["Description"] for one in ours.get("HealthChecks", [])} if isinstance(ours, dict) else set()
    return check.get("Description") not in kept


def _object(value: Json, key: str = "") -> Json:
    if isinstance(value, list):
        items = [copy for one in value for copy in _copies(one, key)]
        if key == "reservations":
            return [one.split("|")[-1] if isinstance(one, str) else one for one in items]
        return _states([_object(one) for one in items]) if key == "stateLog" else [_object(one) for one in items]
    if not isinstance(value, dict):
        return "Running" if key == "applicationState" and value == "Starting" else value
    if set(value) == {"Resources"} and key in ("resourceUsage", "maxResources"):
        value = value["Resources"]
    if key == "applications" and "total" in value:
        value = dict(value)
        starting = value.pop("Starting", 0)
        return {**value, **({"Running": value.get("Running", 0) + starting} if starting else {})}
    if key in AMOUNTS and all(isinstance(one, int) for one in value.values()):
        return {name: one for name, one in value.items() if one}
    found = {name: _object(one, name) for name, one in value.items()}
    if "allocationKey" in found:
        for name in ("uuid", "partition", "placeholderTimeout", "pendingCount", "allocationDelay"):
            found.pop(name, None)
    return {name: one for name, one in found.items() if one != {} or name not in AMOUNTS or name == "capacity"}


def _copies(item: Json, key: str) -> list[Json]:
    return [item] * int(item.get("pendingCount", 1)) if key == "requests" and isinstance(item, dict) else [item]


def _states(log: list[Json]) -> list[Json]:
    kept: list[Json] = []
    for one in log:
        if not kept or kept[-1]["applicationState"] != one["applicationState"]:
            kept.append(one)
    return kept


def _without_head(value: Json, key: str = "") -> Json:
    if isinstance(value, list):
        return [_without_head(one) for one in value]
    if isinstance(value, dict):
        left_out = OF_HEAD | ({"maxApplications"} if key == "template" else frozenset())
        is_cluster = "clusterName" in value
        return {
            name: _without_head(one, name)
            for name, one in value.items()
            if name not in left_out or (is_cluster and name == "startTime")
        }
    return value
