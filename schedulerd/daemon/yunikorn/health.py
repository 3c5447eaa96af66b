"""Whether the scheduler is healthy: what went wrong in the last minutes, and whether the numbers add up.

The counts are those of the last ten minutes, so that a mistake of a resource manager does not make the scheduler
unhealthy for ever. The numbers are compared while the request is answered, node by node, each in one moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schedulerd.core.language.facts.fact import AskRejected, CheckFailed, Fact, NodeRejected
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.daemon.yunikorn.go_json import Fields, go_object
from schedulerd.daemon.yunikorn.pacing import Breathe
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


@dataclass(slots=True)
class _Findings:
    """What is wrong, by check; names and keys."""

    negative_partitions: list[str] = field(default_factory=list)
    negative_nodes: list[str] = field(default_factory=list)
    wrong_sums: list[str] = field(default_factory=list)
    wrong_nodes: list[str] = field(default_factory=list)
    ratios: list[str] = field(default_factory=list)
    """Reservations for each node, of each partition; never wrong."""
    orphans_on_nodes: list[str] = field(default_factory=list)
    orphans_of_applications: list[str] = field(default_factory=list)


async def check_health(partitions: Sequence[Partition], failures: RecentFailures, breathe: Breathe) -> Fields:
    """The object of the health check, with the checks of the peer's head version in their order."""
    found = _Findings()
    for partition in partitions:
        await _inspect(partition, found, breathe)
    checks = _checks(found, failures)
    return {"Healthy": all(one["Succeeded"] for one in checks), "HealthChecks": checks}


async def _inspect(partition: Partition, found: _Findings, breathe: Breathe) -> None:
    if any(amount < 0 for one in (partition.root.allocated, partition.total()) for amount in one.values()):
        found.negative_partitions.append(partition.wire_name)
    if not await _adds_up(partition, breathe):
        found.wrong_sums.append(partition.wire_name)
    for node in list(partition.nodes.values()):
        await breathe()
        if any(amount < 0 for amount in node.allocated.values()):
            found.negative_nodes.append(node.node_id)
        if node.capacity.minus(node.allocated).minus(node.occupied) != node.available:
            found.wrong_nodes.append(node.node_id)
        found.orphans_on_nodes += await _orphans_of(node, partition, breathe)
    found.orphans_of_applications += await _orphans_of_applications(partition, breathe)
    if partition.nodes:
        found.ratios.append(f"{len(partition.reservations) / len(partition.nodes):f}")


_LISTED_CHECKS = (
    (
        "Negative resources",
        "negative_partitions",
        "Check for negative resources in the partitions",
        "Partitions with negative resources",
    ),
    (
        "Negative resources",
        "negative_nodes",
        "Check for negative resources in the nodes",
        "Nodes with negative resources",
    ),
    (
        "Consistency of data",
        "wrong_sums",
        "Check if total partition resource == sum of the node resources from the partition",
        "Partitions with inconsistent data",
    ),
    (
        "Consistency of data",
        "wrong_nodes",
        "Check if node total resource = allocated resource + occupied resource + available resource",
        "Nodes with inconsistent data",
    ),
)
_ORPHAN_CHECKS = (
    (
        "Orphan allocation on node check",
        "orphans_on_nodes",
        "Check if there are orphan allocations on the nodes",
        "Orphan allocations",
    ),
    (
        "Orphan allocation on app check",
        "orphans_of_applications",
        "Check if there are orphan allocations on the applications",
        "OrphanAllocations",
    ),
)
"""Name, list in `_Findings`, description, and what the list has."""


def _checks(found: _Findings, failures: RecentFailures) -> list[Fields]:
    return [
        _counted("Scheduling errors", failures.scheduling_errors, "scheduling error", "scheduling errors"),
        _counted("Failed nodes", failures.failed_nodes, "failed nodes", "failed nodes"),
        *(_listed(name, getattr(found, kind), text, what) for name, kind, text, what in _LISTED_CHECKS),
        _check(
            "Reservation check",
            True,
            "Check the reservation nr compared to the number of nodes",
            f"Reservation/node nr ratio: [{' '.join(found.ratios[:NAMED_MAX])}]",
        ),
        *(_listed(name, getattr(found, kind), text, what) for name, kind, text, what in _ORPHAN_CHECKS),
    ]


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


def _counted(name: str, count: int, entries: str, what: str) -> Fields:
    description = f"Check for {entries} entries in metrics"
    return _check(name, not count, description, f"There were {count} {what} logged in the metrics")


def _listed(name: str, found: list[str], description: str, what: str) -> Fields:
    more = " ..." if len(found) > NAMED_MAX else ""
    return _check(name, not found, description, f"{what}: [{' '.join(found[:NAMED_MAX])}{more}]")


def _check(name: str, succeeded: bool, description: str, diagnosis: str) -> Fields:
    return go_object(
        {"Name": name, "Succeeded": succeeded, "Description": description, "DiagnosisMessage": diagnosis}, _ALWAYS
    )
