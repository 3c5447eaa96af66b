"""What can be seen of a run at one moment, as plain values: all that the live view and the progress lines know."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedulerd.simulate.model import QueueLoad
from schedulerd.simulate.queue_file import QueueQuota
from schedulerd.simulate.resource_manager import SimulatedResourceManager
from schedulerd.simulate.workload import NODE_MEMORY_BYTES, NODE_VCORE_MILLI

HISTORY_SLOT_S = 0.5
HISTORY_SLOTS_MAX = 240


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue of the tree: what it may use, uses and waits for, its children included.

    `most_*` is the least of the max on the path and of what the cluster has: more can never be used.
    """

    path: str
    quota: QueueQuota
    most_memory_bytes: int
    most_vcore_milli: int
    load: QueueLoad


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of a run. Latencies are (p50, p90, p99) of the last placements and releases, in seconds."""

    elapsed_s: float
    duration_s: float
    phase: str
    queues: tuple[QueueRow, ...]
    node_use: tuple[float, ...]
    placements_per_s: tuple[float, ...]
    """One value per `HISTORY_SLOT_S`, the newest last."""
    placing_s: tuple[float, ...]
    confirming_s: tuple[float, ...]
    asks_sent: int
    placed: int
    pending: int
    held: int
    withdrawn: int
    rejected: int
    applications: int


class PlacementRate:
    """Placements per second over time, from how many there were at each look."""

    def __init__(self) -> None:
        self._slots: deque[float] = deque(maxlen=HISTORY_SLOTS_MAX)
        self._slot_began_s = 0.0
        self._slot_began_count = 0

    def look(self, now_s: float, placed: int) -> None:
        """Notes that `placed` were placed in all by `now_s`; a slot is closed once its time is over."""
        passed_s = now_s - self._slot_began_s
        if passed_s >= HISTORY_SLOT_S:
            self._slots.append((placed - self._slot_began_count) / passed_s)
            self._slot_began_s, self._slot_began_count = now_s, placed

    def history(self) -> tuple[float, ...]:
        return tuple(self._slots)


def take_snapshot(
    rm: SimulatedResourceManager,
    rate: PlacementRate,
    quotas: Sequence[QueueQuota],
    *,
    elapsed_s: float,
    duration_s: float,
    phase: str,
) -> Snapshot:
    """The run as it is now."""
    books = rm.books
    rate.look(elapsed_s, books.allocations)
    return Snapshot(
        elapsed_s=elapsed_s,
        duration_s=duration_s,
        phase=phase,
        queues=queue_rows(quotas, rm.loads, len(rm.nodes) * NODE_MEMORY_BYTES, len(rm.nodes) * NODE_VCORE_MILLI),
        node_use=tuple(node.use() for node in rm.nodes.values()),
        placements_per_s=rate.history(),
        placing_s=books.placing.recent_percentiles_s(50, 90, 99),
        confirming_s=books.confirming.recent_percentiles_s(50, 90, 99),
        asks_sent=books.asks_sent,
        placed=books.allocations,
        pending=rm.pending,
        held=rm.held,
        withdrawn=books.asks_withdrawn,
        rejected=books.asks_rejected,
        applications=rm.applications_live,
    )


def queue_rows(
    quotas: Sequence[QueueQuota], loads: Mapping[str, QueueLoad], memory_bytes: int, vcore_milli: int
) -> tuple[QueueRow, ...]:
    """The queues of the file in its order, then used ones that it does not have; parents hold their children's sum."""
    known = {quota.path: quota for quota in quotas}
    for path in sorted(loads):
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            ancestor = ".".join(parts[:depth])
            known.setdefault(ancestor, QueueQuota(ancestor, is_leaf=depth == len(parts)))
    rows: dict[str, QueueRow] = {}
    for path, quota in known.items():
        total = QueueLoad()
        for leaf, load in loads.items():
            if leaf == path or leaf.startswith(f"{path}."):
                total.add(load)
        parent = rows.get(path.rpartition(".")[0])
        most_memory_bytes = parent.most_memory_bytes if parent else memory_bytes
        most_vcore_milli = parent.most_vcore_milli if parent else vcore_milli
        if quota.max_memory_bytes is not None:
            most_memory_bytes = min(most_memory_bytes, quota.max_memory_bytes)
        if quota.max_vcore_milli is not None:
            most_vcore_milli = min(most_vcore_milli, quota.max_vcore_milli)
        rows[path] = QueueRow(path, quota, most_memory_bytes, most_vcore_milli, total)
    return tuple(rows.values())
