"""The scheduler's views in the request class of a recorded snapshot.

Only what this version knows is written: a field of the recordings that has no counterpart here (reservations, gang
data, queue priorities, running-application limits, ...) is left out, and counts as a difference at level full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import MILLISECOND_NS
from schedulerd.core.views.values import AllocationView, ApplicationView, NodeView, PartitionView, QueueView, UserView
from tests.conformance.events import Rename

Json = dict[str, Any]


def snapshot(partitions: Iterable[PartitionView], name: str, unconfirmed: list[str], rename: Rename) -> Json:
    """The state of the partition `name`, which may be gone; `unconfirmed` are the releases that the RM has to confirm.

    Users are those of all partitions: the recordings add up what a user has in queues of the same path.
    """
    by_name = {partition.name: partition for partition in partitions}
    return {
        **(_partition(by_name[name], rename) if name in by_name else {}),
        "users": _users([user for partition in by_name.values() for user in partition.users]),
        "unconfirmedReleases": sorted(unconfirmed),
    }


def _partition(partition: PartitionView, rename: Rename) -> Json:
    allocations = [allocation for node in partition.nodes for allocation in node.allocations]
    rejected = [item for item in partition.terminated if item.state == ApplicationState.REJECTED]
    ended = [item for item in partition.terminated if item.state != ApplicationState.REJECTED]
    return {
        "partition": {
            "allocations": len(allocations),
            "placeholderAllocations": sum(item.placeholder for item in allocations),
            "nodes": len(partition.nodes),
            "nodeSortPolicy": partition.node_order,
            "preemptionEnabled": partition.preemption_enabled,
            "total": partition.total,
        },
        "queues": {queue.path: _queue(queue) for queue in partition.queues},
        "apps": {item.application_id: _application(item, rename) for item in partition.applications},
        "completedApps": {item.application_id: _ended(item) for item in ended},
        "rejectedApps": {item.application_id: _rejected(item) for item in rejected},
        "nodes": {node.node_id: _node(node, rename) for node in partition.nodes},
    }


def _queue(queue: QueueView) -> Json:
    return {
        "allocated": queue.allocated,
        "pending": queue.pending,
        "guaranteed": queue.guaranteed or None,
        "max": queue.max or None,
        "headroom": queue.headroom or None,
        "leaf": queue.leaf,
        "managed": queue.managed,
        "apps": sorted(queue.applications),
        "runningApps": queue.running_applications,
        "sortPolicy": queue.application_order,
        "preemptionPolicy": queue.preemption_policy,
        "preemptionDelayMs": queue.preemption_delay_ns // MILLISECOND_NS,
    }


def _application(item: ApplicationView, rename: Rename) -> Json:
    pending_asks: dict[str, int] = {}
    for ask in item.asks:
        key = rename(ask.allocation_key)
        pending_asks[key] = pending_asks.get(key, 0) + ask.pending
    return {
        "queue": item.queue,
        "user": item.user,
        "groups": list(item.groups),
        "state": item.state,
        "stateLog": [state for _, state, _ in item.state_log],
        "allocated": item.allocated,
        "placeholderAllocated": item.placeholder_allocated,
        "pending": item.pending,
        "pendingAsks": pending_asks,
        "allocations": sorted(_allocation(allocation, rename) for allocation in item.allocations),
        "numAllocs": len(item.allocations),
    }


def _allocation(item: AllocationView, rename: Rename) -> str:
    text = f"{rename(item.allocation_key)}@{item.node_id}"
    if item.placeholder:
        text += ":ph"
    if item.releasing:
        text += ":preempted" if item.releasing == "PREEMPTED_BY_SCHEDULER" else ":released"
    return text


def _ended(item: ApplicationView) -> Json:
    return {"queue": item.queue, "state": item.state, "stateLog": [state for _, state, _ in item.state_log]}


def _rejected(item: ApplicationView) -> Json:
    return {"state": item.state, "message": item.state_log[-1][2] if item.state_log else ""}


def _node(node: NodeView, rename: Rename) -> Json:
    return {
        "capacity": node.capacity,
        "occupied": node.occupied,
        "allocated": node.allocated,
        "available": node.available,
        "allocations": sorted(f"{item.application_id}|{rename(item.allocation_key)}" for item in node.allocations),
        "numAllocs": len(node.allocations),
        "ready": node.ready,
        "schedulable": node.schedulable,
    }


def _users(users: Iterable[UserView]) -> Json:
    shown: Json = {}
    for user in users:
        queues = shown.setdefault(user.user, {"queues": {}})["queues"]
        for path, usage in user.usage.items():
            queue = queues.setdefault(path, {"usage": {}, "runningApps": []})
            queue["usage"] = {name: queue["usage"].get(name, 0) + amount for name, amount in usage.items()} | {
                name: amount for name, amount in queue["usage"].items() if name not in usage
            }
            queue["runningApps"] = sorted([*queue["runningApps"], *user.applications.get(path, [])])
    return shown
