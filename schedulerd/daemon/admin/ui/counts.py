"""What the head of every page says of a partition: how much runs and waits, and what is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rules.pending_allocations import (
    Applications,
    counted,
    member_of,
    not_counted,
    with_others,
)

_A_TURN = 64
_FIRST = ("vcore", "memory")


@dataclass(slots=True)
class Counts:
    """Of one partition, found over several turns of the loop."""

    running: int = 0
    """Real allocations."""
    waiting: int = 0
    """Pending allocations, those that await a placeholder included."""
    at_least: bool = False
    """Whether more may wait, because there are more applications than are looked at; then `running` may be fewer."""
    applications: int = 0
    open_gangs: int = 0
    """Gangs whose placeholders are not all placed, or whose members wait for each other."""
    preempting: int = 0
    """Allocations that are preempted for a reservation and still there."""
    nodes: int = 0
    node_states: dict[str, int] = field(default_factory=dict)
    waiting_by_queue: dict[Queue, int] = field(default_factory=dict)
    """Includes what waits in queues below."""
    too_large: int = 0
    """Pending allocations that no node could take, even if it were empty."""
    too_large_example: str = ""
    """An application of them."""
    used: dict[str, int] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    """What all nodes offer."""

    @property
    def resources(self) -> list[str]:
        """Names of what the nodes offer, the most common first."""
        return resource_order(self.total)


def end_of(queue: Queue, name: str, total: dict[str, int]) -> int:
    """How much of a resource the queue can use: its max, or the least above it; else what the nodes offer."""
    limits = [one.max[name] for one in queue.path_to_root if name in one.max]
    return min([*limits, *([total[name]] if name in total else [])], default=0)


def full_of(queue: Queue, total: dict[str, int]) -> list[str]:
    """The resources of which the queue uses all that it can."""
    used, reserved = queue.allocated, queue.quota_reserved
    ends = {name: end_of(queue, name, total) for name in {**total, **queue.max}}
    return [name for name, end in ends.items() if end and used[name] + reserved[name] >= end]


def resource_order(names: dict[str, int]) -> list[str]:
    """The names, vcore and memory first."""
    return sorted((one for one in names if names[one]), key=lambda one: (one not in _FIRST, _FIRST[0] != one, one))


def count(partition: Partition) -> Generator[None, None, Counts]:
    """Counts; stops after every few objects."""
    found = Counts(
        applications=len(partition.applications),
        open_gangs=len({**partition.open_gangs, **{one: None for one in partition.declared_gangs if _waits(one)}}),
        preempting=sum(len(one.victims) for one in partition.reservations),
        nodes=len(partition.nodes),
    )
    queues = partition.root.subtree()
    waiting = dict.fromkeys(queues, 0)
    for number, queue in enumerate(queues, 1):
        if number % _A_TURN == 0:
            yield
        waiting[queue] += sum(pending for _, pending in counted(queue))
    placeholders = 0
    applications = Applications(partition.root)
    for some in applications:
        yield
        placeholders += sum([one.placeholders for one in some])
        for application in with_others(some):
            pending = application.awaiting_placeholder + sum(group.pending for group in not_counted(application))
            if application.queue in waiting:
                waiting[application.queue] += pending
    for application in partition.declared_gangs:
        if application.gang is not None and application.queue in waiting:
            waiting[application.queue] -= application.gang.pending
    for queue in reversed(queues):
        if queue.parent is not None:
            waiting[queue.parent] += waiting[queue]
    found.waiting_by_queue = {queue: number for queue, number in waiting.items() if number}
    found.waiting = waiting[partition.root]
    found.at_least = applications.are_more
    found.running = max(0, len(partition.allocations) - placeholders)
    yield from _count_too_large(partition, found)
    states = {state.value: 0 for state in NodeState}
    for number, node in enumerate(list(partition.nodes.values())):
        if number % _A_TURN == _A_TURN - 1:
            yield
        states[node.state.value] += 1
    found.node_states = states
    yield
    found.total = partition.total().nonzero()
    found.used = partition.root.allocated.nonzero()
    return found


def _waits(application: Application) -> bool:
    return application.gang is not None and application.gang.waits


def _count_too_large(partition: Partition, found: Counts) -> Iterator[None]:
    """Counts what no node could take, of all that the pending index counts."""
    if not partition.nodes:
        return
    largest = partition.largest()
    for number, request in enumerate(list(partition.request_classes.known_requests())):
        if number % _A_TURN == _A_TURN - 1:
            yield
        if not any(amount > largest[name] for name, amount in request.items):
            continue
        for pending_class in request.pending.values():
            leaves = partition.pending_counts.of(pending_class)
            found.too_large += sum(leaves.values())
            if leaves and not found.too_large_example:
                member = member_of(next(iter(leaves)), pending_class)
                found.too_large_example = member[0].application_id if member is not None else ""
