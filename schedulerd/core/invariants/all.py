"""What must hold after every step, as sentences about what does not: one table of the checks of all packages.

Everything is counted anew from the allocations and asks themselves. Used by the tests, the simulator and the health
check; never by the scheduler to decide anything. Each module beside this one has the checks of one subject, and names
its alarms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from schedulerd.core.invariants import (
    applications,
    constraints,
    explain,
    gangs,
    nodes,
    pending,
    predicates,
    preemption,
    queue_placement,
    quotas,
    recovery,
    reservations,
    resource_managers,
    scheduling_states,
)
from schedulerd.core.language.alarms import Alarm
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager

OfPartition: TypeAlias = Callable[[Partition], Iterator[str]]
OfResourceManager: TypeAlias = Callable[[ResourceManager], Iterator[str]]

OF_PARTITION: tuple[OfPartition, ...] = (
    nodes.nodes,
    nodes.allocations,
    nodes.node_order,
    nodes.rooms,
    applications.applications,
    applications.timeouts,
    gangs.gangs,
    quotas.queues,
    quotas.users,
    queue_placement.queue_tree,
    pending.entities,
    pending.classes,
    pending.starts,
    reservations.reservations,
    reservations.reserved_room,
    predicates.predicate_checks,
    constraints.constraints,
    recovery.unclaimed,
)
"""The checks of each partition."""

OF_RESOURCE_MANAGER: tuple[OfResourceManager, ...] = (
    resource_managers.contact,
    recovery.backlogs,
    recovery.joined,
    predicates.calls,
    pending.states,
    scheduling_states.scheduling_state_tracker,
    explain.explanations,
)
"""The checks of each resource manager."""

ALARMS_OF_PARTITION: tuple[Callable[[Partition], Iterator[Alarm | None]], ...] = (
    applications.alarms,
    gangs.alarms,
    queue_placement.alarms,
    pending.alarms,
    reservations.alarms,
    predicates.alarms_of_refused_asks,
    preemption.alarms,
)
ALARMS_OF_RESOURCE_MANAGER: tuple[Callable[[ResourceManager], Iterator[Alarm | None]], ...] = (
    resource_managers.alarms,
    recovery.alarms,
    predicates.alarms_of_calls,
    scheduling_states.alarms,
)
"""The alarms that the state of each package refers to: together these are all that are set, and each of them rings."""


def violations(scheduler: Scheduler, partitions: Iterable[Partition] | None = None) -> list[str]:
    """One sentence per broken invariant; empty if all is well.

    With `partitions` no others are gone through; what is not of a partition is counted anyway.
    """
    found: list[str] = []
    for partition in scheduler.cluster.partitions() if partitions is None else partitions:
        for of_partition in OF_PARTITION:
            found.extend(f"{partition.wire_name}: {sentence}" for sentence in of_partition(partition))
    for rm in scheduler.cluster.resource_managers.values():
        for of_resource_manager in OF_RESOURCE_MANAGER:
            found.extend(f"[{rm.rm_id}]: {sentence}" for sentence in of_resource_manager(rm))
    return found + _alarms(scheduler)


def _alarms(scheduler: Scheduler) -> list[str]:
    owned: set[Alarm | None] = {None}
    for rm in scheduler.cluster.resource_managers.values():
        for of_resource_manager in ALARMS_OF_RESOURCE_MANAGER:
            owned.update(of_resource_manager(rm))
        for partition in rm.partitions.values():
            for of_partition in ALARMS_OF_PARTITION:
                owned.update(of_partition(partition))
    live: set[Alarm | None] = {None, *scheduler.cluster.alarms.live()}
    return [
        *sorted(f"{type(one.event).__name__} is set as an alarm that nothing refers to" for one in live - owned if one),
        *["the state refers to an alarm that was cancelled or has rung" for _ in owned - live],
    ]


def extent(scheduler: Scheduler) -> int:
    """How many things `violations` goes through, roughly: nodes, applications, allocations and asks."""
    return sum(
        len(one.nodes) + len(one.allocations) + sum(1 + len(app.asks) for app in one.applications.values())
        for one in scheduler.cluster.partitions()
    )
