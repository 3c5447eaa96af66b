"""What must hold when all is quiet: API server and daemon agree about every pod that runs.

Every bound pod whose node exists has exactly one allocation, there and with what it requests, and the other way round;
of what other pods use the node's `occupied` is the sum; the daemon's own sums are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.resources import pod_requests, scheduler_names

JSON = dict[str, Any]
Amounts = dict[str, int]


State = Callable[..., JSON]
"""`/debug/state` with a query."""


def disagreements(
    pods: Iterable[JSON], nodes: Iterable[JSON], state: State, rm_id: str, schedulers: Collection[str]
) -> list[str]:
    """What does not hold, as sentences."""
    names = {node["metadata"]["name"] for node in nodes}
    reported = _reported(state, rm_id)
    if reported is None:
        return ["the resource manager registers again, or a node goes, while the daemon is asked"]
    found = [str(one) for one in state()["violations"]]
    if reported.keys() != names:
        found.append(f"nodes: {sorted(reported.keys() ^ names)} are only on one side")
    running = [pod for pod in pods if pod["spec"].get("nodeName") in names & reported.keys() and not _has_ended(pod)]
    own = {_uid(pod): pod for pod in running if pod["spec"]["schedulerName"] in schedulers}
    held = [one for node in reported.values() for one in node["allocations"]]
    for key, count in Counter(one["allocation_key"] for one in held).items():
        if count > 1:
            found.append(f"pod {key} has {count} allocations")
    at = {one["allocation_key"]: one for one in held}
    found += [f"allocation of {at[key]} stands for no running pod" for key in at.keys() - own.keys()]
    found += [f"pod {own[key]['metadata']['name']} runs without an allocation" for key in own.keys() - at.keys()]
    for key in at.keys() & own.keys():
        one, pod = at[key], own[key]
        if one["node_id"] != pod["spec"]["nodeName"]:
            found.append(f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}, allocated on {one['node_id']}")
        if one["resources"] != _amounts([pod]):
            found.append(f"{pod['metadata']['name']} requests {_amounts([pod])}, allocated is {one['resources']}")
    for name in names & reported.keys():
        node = reported[name]
        mine = [own[one["allocation_key"]] for one in node["allocations"] if one["allocation_key"] in own]
        others = [pod for pod in running if pod["spec"]["nodeName"] == name and _uid(pod) not in own]
        for what, sums in (("allocated", _amounts(mine)), ("occupied", _amounts(others))):
            if node[what] != sums:
                found.append(f"node {name}: {what} is {node[what]}, the pods request {sums}")
    return found


def _reported(state: State, rm_id: str) -> dict[str, JSON] | None:
    """The nodes of the resource manager; asked for one by one, as a response has only so many allocations. None if one
    of them is there no longer when it is asked for."""
    managers = [one for one in state()["resource_managers"] if one["rm_id"] == rm_id]
    found = {}
    for partition in [one for manager in managers for one in manager["partitions"]]:
        for name in [node["node_id"] for node in partition["nodes"]]:
            answer = state(rm=rm_id, partition=partition["name"], node=name)
            assert not answer["left_out"], answer["left_out"]
            of_name = [
                node
                for manager in answer["resource_managers"]
                for one in manager["partitions"]
                for node in one["nodes"]
            ]
            if not of_name:
                return None
            found[name] = of_name[0]
    return found


def _uid(pod: JSON) -> str:
    return str(pod["metadata"]["uid"])


def _has_ended(pod: JSON) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _amounts(pods: Iterable[JSON]) -> Amounts:
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(scheduler_names(pod_requests(convert(Pod, pod))))
    return {name: amount for name, amount in sorted(total.items()) if amount}
