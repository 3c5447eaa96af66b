"""Whether the daemon believes what is so: `/debug/state` against the truth, gang by gang and node by node."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import httpx

from tests.contract.gangs.requests import QUEUE, USER
from tests.contract.gangs.resource_manager import RM_ID
from tests.contract.gangs.truth import POD_MEMORY, POD_VCORE, Truth

LOOK_TIMEOUT_S = 60.0


async def result(url: str, truth: Truth) -> list[str]:
    """What is wrong, as sentences: a pod lost or there twice, a sum, a placeholder left, an invariant broken.

    Expects a truth that is done. `url` is the daemon's HTTP address.
    """
    if not truth.is_done():
        return [f"it is not done: {truth.progress()}"]
    judge = _Judge(truth)
    problems: list[str] = []
    async with httpx.AsyncClient(base_url=url, timeout=LOOK_TIMEOUT_S, trust_env=False) as http:
        # An answer shows 500 things of a kind at most, so each is about one gang; and about one node, which need not be
        # all of them: what is on a node is known from the gangs, and the daemon itself counts each of them anew.
        for gang, node in zip(truth.plan.gang_names, cycle(truth.plan.node_names)):
            query = {"rm": RM_ID, "application": gang, "node": node}
            shown = (await http.get("/debug/state", params=query)).raise_for_status().json()
            (manager,) = shown["resource_managers"]
            (partition,) = manager["partitions"]
            problems += judge.application(partition["applications"])
            problems += judge.node(partition["nodes"])
        problems += judge.sums(partition)
        problems += (await http.get("/debug/state")).raise_for_status().json()["violations"]
    return problems


class _Judge:
    def __init__(self, truth: Truth) -> None:
        self._plan = truth.plan
        self._of_gang: dict[str, dict[str, str]] = {gang: {} for gang in truth.plan.gang_names}
        """Node by pod; the same the other way round is next."""
        self._on_node: dict[str, set[str]] = {node: set() for node in truth.plan.node_names}
        for pod in truth.bound():
            self._of_gang[pod.gang][pod.name] = pod.node
            self._on_node[pod.node].add(pod.name)

    def application(self, shown: list[dict[str, Any]]) -> Iterator[str]:
        if not shown:
            yield "an application is not known"
            return
        (one,) = shown
        name = one["application_id"]
        wanted = {
            "state": "Running",
            "allocated": _size(self._plan.members),
            "placeholder_allocated": {},
            "pending": {},
            "asks": [],
            "awaiting_placeholder": 0,
        }
        for field, value in wanted.items():
            if one[field] != value:
                yield f"{name}: {field} is {one[field]}, and should be {value}"
        found = [(each["allocation_key"], each["node_id"]) for each in one["allocations"]]
        if sorted(found) != sorted(self._of_gang[name].items()):
            lost = self._of_gang[name].items() - set(found)
            more = set(found) - self._of_gang[name].items()
            yield f"{name}: {len(found)} allocations; not known there: {sorted(lost)}, only there: {sorted(more)}"
        if len({each["uuid"] for each in one["allocations"]}) != len(found):
            yield f"{name}: two allocations have one UUID"
        for each in one["allocations"]:
            if each["placeholder"] or each["releasing"]:
                yield f"{name}: {each['allocation_key']} is a placeholder or on its way out: {each}"
        for group in one["task_groups"]:
            if group["idle"]:
                yield f"{name}: {group['idle']} placeholders of {group['name']} wait to be replaced"

    def node(self, shown: list[dict[str, Any]]) -> Iterator[str]:
        (one,) = shown
        pods = self._on_node[one["node_id"]]
        if {each["allocation_key"] for each in one["allocations"]} != pods or len(one["allocations"]) != len(pods):
            yield f"{one['node_id']}: has {one['allocations']}, and should have {sorted(pods)}"
        for field, value in (("allocated", len(pods)), ("available", self._plan.slots - len(pods))):
            if one[field] != _size(value):
                yield f"{one['node_id']}: {field} is {one[field]}, and should be {_size(value)}"

    def sums(self, partition: dict[str, Any]) -> Iterator[str]:
        everything = _size(self._plan.pods)
        queues = {queue["path"]: queue for queue in partition["queues"]}
        for path in ("root", QUEUE):
            wanted = {
                "allocated": everything,
                "pending": {},
                "gang_quota_promised": {},
                "running_applications": self._plan.gangs,
            }
            for field, value in wanted.items():
                if queues[path][field] != value:
                    yield f"queue {path}: {field} is {queues[path][field]}, and should be {value}"
        usage = {user["user"]: user["usage"] for user in partition["users"]}
        if usage != {USER: {"root": everything, QUEUE: everything}}:
            yield f"users: {usage}, and should be {everything} for {USER} in root and {QUEUE}"


def _size(pods: int) -> dict[str, int]:
    return {"memory": pods * POD_MEMORY, "vcore": pods * POD_VCORE} if pods else {}
