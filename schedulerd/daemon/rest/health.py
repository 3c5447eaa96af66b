"""Whether the scheduler is healthy: what went wrong in the last minutes, and whether the numbers add up.

The counts are those of the last ten minutes, so that a mistake of a resource manager does not make the scheduler
unhealthy for ever. The numbers are compared while the request is answered, node by node, each in one moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from schedulerd.core.facts import AskRejected, CheckFailed, Fact, NodeRejected
from schedulerd.core.model.node import Node
from schedulerd.core.partition import Partition
from schedulerd.core.resources import Resources
from schedulerd.daemon.rest.go_json import Fields, go_object
from schedulerd.daemon.rest.pacing import Breathe
from schedulerd.instant import Instant

WINDOW_SECONDS = 600.0
"""How long a failure counts."""

FAILURES_MAX = 10_000
"""Failures that are counted; the oldest are forgotten beyond that."""

NAMED_MAX = 20
"""Things that are named in a message."""

_SECOND_NS = 1_000_000_000
_ALWAYS = frozenset({"Name", "Succeeded"})


class RecentFailures:
    """Counts scheduling errors and failed nodes. A sink of the owner."""

    def __init__(self, clocks: Callable[[], Instant]) -> None:
        self._clocks = clocks
        self._errors: deque[int] = deque(maxlen=FAILURES_MAX)
        self._nodes: deque[int] = deque(maxlen=FAILURES_MAX)

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """Notes the failures among the facts of a turn."""
        for fact in facts:
            kind = type(fact)
            if kind is AskRejected or kind is CheckFailed:
                self._errors.append(now.monotonic_ns)
            elif kind is NodeRejected:
                self._nodes.append(now.monotonic_ns)

    @property
    def scheduling_errors(self) -> int:
        """Asks that were rejected, and exceptions in checks, of the last ten minutes."""
        return self._count(self._errors)

    @property
    def failed_nodes(self) -> int:
        """Reports of nodes that were rejected in the last ten minutes."""
        return self._count(self._nodes)

    def _count(self, times: deque[int]) -> int:
        begin = self._clocks().monotonic_ns - int(WINDOW_SECONDS * _SECOND_NS)
        while times and times[0] < begin:
            times.popleft()
        return len(times)


async def check_health(partitions: Sequence[Partition], failures: RecentFailures, breathe: Breathe) -> Fields:
    """The object of the health check, with the checks of the peer's head version in their order."""
    errors, failed_nodes = failures.scheduling_errors, failures.failed_nodes
    negative, bad_nodes, bad_sums, bad_partitions, orphans, app_orphans = [], [], [], [], [], []
    ratios = []
    for partition in partitions:
        if any(amount < 0 for one in (partition.root.allocated, partition.total()) for amount in one.values()):
            bad_partitions.append(partition.wire_name)
        if not await _adds_up(partition, breathe):
            bad_sums.append(partition.wire_name)
        for node in list(partition.nodes.values()):
            await breathe()
            if any(amount < 0 for amount in node.allocated.values()):
                negative.append(node.node_id)
            if node.capacity.minus(node.allocated).minus(node.occupied) != node.available:
                bad_nodes.append(node.node_id)
            orphans += await _orphans_of(node, partition, breathe)
        app_orphans += await _orphans_of_applications(partition, breathe)
        if partition.nodes:
            ratios.append(f"{len(partition.reservations) / len(partition.nodes):f}")
    checks = [
        _check(
            "Scheduling errors",
            not errors,
            "Check for scheduling error entries in metrics",
            f"There were {errors} scheduling errors logged in the metrics",
        ),
        _check(
            "Failed nodes",
            not failed_nodes,
            "Check for failed nodes entries in metrics",
            f"There were {failed_nodes} failed nodes logged in the metrics",
        ),
        _listed(
            "Negative resources",
            bad_partitions,
            "Check for negative resources in the partitions",
            "Partitions with negative resources",
        ),
        _listed(
            "Negative resources",
            negative,
            "Check for negative resources in the nodes",
            "Nodes with negative resources",
        ),
        _listed(
            "Consistency of data",
            bad_sums,
            "Check if total partition resource == sum of the node resources from the partition",
            "Partitions with inconsistent data",
        ),
        _listed(
            "Consistency of data",
            bad_nodes,
            "Check if node total resource = allocated resource + occupied resource + available resource",
            "Nodes with inconsistent data",
        ),
        _check(
            "Reservation check",
            True,
            "Check the reservation nr compared to the number of nodes",
            f"Reservation/node nr ratio: [{' '.join(ratios[:NAMED_MAX])}]",
        ),
        _listed(
            "Orphan allocation on node check",
            orphans,
            "Check if there are orphan allocations on the nodes",
            "Orphan allocations",
        ),
        _listed(
            "Orphan allocation on app check",
            app_orphans,
            "Check if there are orphan allocations on the applications",
            "OrphanAllocations",
        ),
    ]
    return {"Healthy": all(one["Succeeded"] for one in checks), "HealthChecks": checks}


async def _adds_up(partition: Partition, breathe: Breathe) -> bool:
    """Whether the total of the partition is that of its nodes. True if the nodes change while they are added up."""
    changes = partition.capacity_changes
    total = Resources()
    for node in list(partition.nodes.values()):
        total.add(node.capacity.items())
        await breathe()
    return partition.capacity_changes != changes or total == partition.total()


async def _orphans_of(node: Node, partition: Partition, breathe: Breathe) -> list[str]:
    """Allocations of the node that no application knows."""
    found = []
    for one in list(node.allocations.values()):
        await breathe()
        if node.allocations.get(one.uuid) is one and one.application.allocations.get(one.uuid) is not one:
            found.append(one.key)
    return found


async def _orphans_of_applications(partition: Partition, breathe: Breathe) -> list[str]:
    """Allocations of applications that are on no node."""
    found = []
    for one in list(partition.allocations.values()):
        await breathe()
        if partition.allocations.get(one.uuid) is one and one.node.allocations.get(one.uuid) is not one:
            found.append(one.key)
    return found


def _listed(name: str, found: list[str], description: str, what: str) -> Fields:
    more = " ..." if len(found) > NAMED_MAX else ""
    return _check(name, not found, description, f"{what}: [{' '.join(found[:NAMED_MAX])}{more}]")


def _check(name: str, succeeded: bool, description: str, diagnosis: str) -> Fields:
    return go_object(
        {"Name": name, "Succeeded": succeeded, "Description": description, "DiagnosisMessage": diagnosis}, _ALWAYS
    )
