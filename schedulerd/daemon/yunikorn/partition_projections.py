"""Partitions in the peer's shape."""

from __future__ import annotations

from collections import Counter

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.yunikorn.application_projections import shown_state
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.go_json import Fields, amounts, go_object, percentages

_ALWAYS = frozenset(
    {
        "clusterId",
        "name",
        "capacity",
        "nodeSortingPolicy",
        "preemptionEnabled",
        "quotaPreemptionEnabled",
        "applications",
    }
)


async def partition_object(call: Call, rm: ResourceManager, partition: Partition) -> Fields:
    """A partition with sums of what is in it."""
    spec, total, used = partition.spec, partition.total(), partition.root.allocated
    capacity = go_object(
        {"capacity": amounts(total), "usedCapacity": amounts(used), "utilization": percentages(amounts(used), total)}
    )
    return go_object(
        {
            "clusterId": rm.rm_id,
            "name": partition.name,
            "capacity": capacity,
            "nodeSortingPolicy": {
                "type": spec.node_order.value,
                "resourceWeights": {name: _weight(value) for name, value in sorted(spec.node_weights.items())},
            },
            "preemptionEnabled": spec.preemption_enabled,
            "quotaPreemptionEnabled": spec.quota_preemption_enabled,
            "totalNodes": len(partition.nodes),
            "applications": await _states(call, partition),
            "totalContainers": len(partition.allocations),
            "state": "Active",
            "lastStateTransitionTime": call.time(rm.configured_at_ns),
        },
        _ALWAYS,
    )


async def _states(call: Call, partition: Partition) -> dict[str, int]:
    """Number of applications by state, and in total; also of those that have ended and are remembered."""
    counts: Counter[str] = Counter()
    for number, one in enumerate([*partition.applications.values(), *partition.terminated.values()]):
        if number % 256 == 0:
            await call.work.breathe()
        if one.state is not ApplicationState.EXPIRED:
            counts[shown_state(one.state).value] += 1
    return {**dict(sorted(counts.items())), "total": counts.total()}


def _weight(value: float) -> float | int:
    """Go writes no zeros behind the point."""
    return int(value) if value.is_integer() else value
