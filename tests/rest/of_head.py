"""Requests of the interface of head, in the words of 2023-06.

Head reports asks, allocations that exist, and pods of others alike, as allocations: an ask has no node, and a pod of
others the tag `foreign`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

Json = dict[str, Any]


class Translation:
    """Of one story: what others use on a node is a sum here, so that it has to be kept."""

    def __init__(self) -> None:
        self._foreign: dict[str, Json] = {}

    def allocations(self, message: Json) -> Json:
        """The request about asks and releases."""
        releases = message.get("releases", {}).get("allocationsToRelease", [])
        rest = {key: value for key, value in message.items() if key not in ("allocations", "releases")}
        return {
            **rest,
            "asks": [_ask(one) for one in message.get("allocations", ()) if not one.get("nodeID")],
            "releases": {
                "allocationsToRelease": releases,
                "allocationAsksToRelease": [
                    {key: text for key, text in one.items() if key != "UUID"}
                    for one in releases
                    if "allocationKey" in one
                ],
            },
        }

    def nodes(self, message: Json) -> Json | None:
        """The request about nodes that reports what exists on them, if anything does."""
        placed = [one for one in message.get("allocations", ()) if one.get("nodeID")]
        existing: dict[str, list[Json]] = {}
        used: set[str] = set()
        for one in placed:
            if "foreign" not in one.get("allocationTags", {}):
                existing.setdefault(one["nodeID"], []).append({"UUID": one["allocationKey"], **one})
                continue
            used |= {one["nodeID"], self._foreign.get(one["allocationKey"], one)["nodeID"]}
            self._foreign[one["allocationKey"]] = one
        for one in message.get("releases", {}).get("allocationsToRelease", ()):
            if (gone := self._foreign.pop(one.get("allocationKey", ""), None)) is not None:
                used.add(gone["nodeID"])
        updates: list[Json] = [
            {
                "nodeID": node,
                "action": "UPDATE",
                **({"occupiedResource": self._occupied(node)} if node in used else {}),
                **({"existingAllocations": existing[node]} if node in existing else {}),
            }
            for node in sorted(used | existing.keys())
        ]
        return {"rmID": message.get("rmID", ""), "nodes": updates} if updates else None

    def _occupied(self, node: str) -> Json:
        total: Counter[str] = Counter()
        for one in self._foreign.values():
            if one["nodeID"] == node:
                amounts = one.get("resourcePerAlloc", {}).get("resources", {})
                total.update({name: int(amount.get("value", 0)) for name, amount in amounts.items()})
        return {"resources": {name: {"value": str(amount)} for name, amount in total.items()}}


def _ask(one: Json) -> Json:
    return {
        "allocationKey": one.get("allocationKey", ""),
        "applicationID": one.get("applicationID", ""),
        "partitionName": one.get("partitionName", ""),
        "resourceAsk": one.get("resourcePerAlloc", {}),
        "maxAllocations": 1,
        "priority": one.get("priority", 0),
        "tags": one.get("allocationTags", {}),
        "taskGroupName": one.get("taskGroupName", ""),
        "placeholder": one.get("placeholder", False),
        "Originator": one.get("originator", False),
        **({"preemptionPolicy": one["preemptionPolicy"]} if "preemptionPolicy" in one else {}),
    }
