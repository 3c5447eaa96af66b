"""What the simulated resource manager keeps of its applications, pods, nodes and queues: state and local rules only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from schedulerd.simulate.workload import PlannedApplication, PlannedNode, PodSize, Start


class PodState(Enum):
    """Where a pod is, from its ask to the end of its release."""

    PENDING = "asked for"
    WITHDRAWN = "the ask was taken back"
    RUNNING = "placed on a node"
    RELEASING = "finished, and the scheduler was told"
    GONE = "nothing is left of it"


@dataclass(slots=True, eq=False)
class Pod:
    """One ask, and the allocation that came of it. Times are seconds since the start of the run."""

    key: str
    application: Application
    size: PodSize
    run_s: float
    asked_s: float
    state: PodState = PodState.PENDING
    uuid: str = ""
    node: Node | None = None
    released_s: float = 0.0


@dataclass(slots=True, eq=False)
class Application:
    """A planned application under way."""

    plan: PlannedApplication
    accepted: bool = False
    waves_asked: int = 0
    unplaced: int = 0
    """Pods asked for that are still pending."""
    pods_asked: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    """By allocation key: those that are pending, running or releasing."""

    @property
    def application_id(self) -> str:
        return self.plan.application_id

    def next_wave_is_due(self) -> bool:
        if not self.accepted or self.waves_asked == len(self.plan.waves):
            return False
        match self.plan.waves[self.waves_asked].start:
            case Start.AT_ONCE:
                return True
            case Start.PREVIOUS_PLACED:
                return self.unplaced == 0
            case Start.PREVIOUS_FINISHED:
                return not self.pods

    def ask_no_more(self) -> None:
        self.waves_asked = len(self.plan.waves)

    def is_over(self) -> bool:
        return self.accepted and not self.pods and self.waves_asked == len(self.plan.waves)


@dataclass(slots=True, eq=False)
class Node:
    """A node and what runs on it as this side sees it: a pod's room is free once its release was sent."""

    plan: PlannedNode
    accepted: bool = False
    memory_bytes: int = 0
    vcore_milli: int = 0
    pods: int = 0

    def add(self, size: PodSize) -> None:
        self.memory_bytes += size.memory_bytes
        self.vcore_milli += size.vcore_milli
        self.pods += 1

    def remove(self, size: PodSize) -> None:
        self.memory_bytes -= size.memory_bytes
        self.vcore_milli -= size.vcore_milli
        self.pods -= 1

    def is_over_capacity(self) -> bool:
        return self.memory_bytes > self.plan.memory_bytes or self.vcore_milli > self.plan.vcore_milli

    def use(self) -> float:
        """Share of the scarcer resource that is in use, 0 to 1."""
        return max(self.memory_bytes / self.plan.memory_bytes, self.vcore_milli / self.plan.vcore_milli)


@dataclass(slots=True)
class QueueLoad:
    """What the applications of a queue run and wait for."""

    allocated_memory_bytes: int = 0
    allocated_vcore_milli: int = 0
    pending_memory_bytes: int = 0
    pending_vcore_milli: int = 0
    running: int = 0
    pending: int = 0
    applications: int = 0

    def start(self, size: PodSize) -> None:
        self.running += 1
        self.allocated_memory_bytes += size.memory_bytes
        self.allocated_vcore_milli += size.vcore_milli

    def end(self, size: PodSize) -> None:
        self.running -= 1
        self.allocated_memory_bytes -= size.memory_bytes
        self.allocated_vcore_milli -= size.vcore_milli

    def wait(self, size: PodSize, pods: int) -> None:
        """`pods` more are pending, or fewer if negative."""
        self.pending += pods
        self.pending_memory_bytes += pods * size.memory_bytes
        self.pending_vcore_milli += pods * size.vcore_milli

    def add(self, other: QueueLoad) -> None:
        """Adds the load of a child queue."""
        self.allocated_memory_bytes += other.allocated_memory_bytes
        self.allocated_vcore_milli += other.allocated_vcore_milli
        self.pending_memory_bytes += other.pending_memory_bytes
        self.pending_vcore_milli += other.pending_vcore_milli
        self.running += other.running
        self.pending += other.pending
        self.applications += other.applications
