"""After the faults nobody disturbs what was begun; then there is room for all, and everything has to come to an end.

While it settles, resource managers connect and confirm what they are asked for, and nothing else: whoever has a right
to room has to get it as the cluster is. Then they let their pods finish and take back what they still ask for; alarms
ring when they are due. Whatever an application got into before, it has to end by itself, and to leave nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedulerd.core.language.commands import (
    AllocationRelease,
    AskRelease,
    Command,
    ConnectResourceManager,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RingAlarms,
    RunCycle,
    UpdateAllocations,
    UpdateNodes,
)
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.alarm_events import ApplicationStateTimeout, QueueCleanupDue
from schedulerd.core.state.partition import Partition
from tests.sim.rm_memory import ResourceManagerMemory

ROUNDS_MAX = 60
"""Each waits for an alarm at least; the longest chain of states with alarms is far shorter."""
SETTLING_NS = 60 * SECOND_NS
"""Longer than everything that is due again and again takes; from when the last pod went, which changes what is due."""
SETTLING_MAX_NS = 30 * SETTLING_NS
"""Gangs may give way to each other for ever."""
CYCLES_MAX = 200
"""At one instant."""
BUSY_ROUNDS = 3
"""So long asks may still be placed; then they are taken back."""
ROOM = Resources(memory=100_000, vcore=10_000, gpu=1_000)
ALARMS_LEFT = {ApplicationStateTimeout, QueueCleanupDue}
"""Of applications that are remembered, and of queues that nobody needs any longer."""


def settling(
    scheduler: Scheduler, memories: Mapping[str, ResourceManagerMemory], now_ns: int
) -> Iterator[tuple[int, Command]]:
    """Commands with their time, in which what is under way comes to its end and nothing new is begun."""
    for memory in known_of(memories):
        if memory.state is ResourceManagerState.STOPPED:
            yield now_ns, RegisterResourceManager(memory.rm_id, memory.partitions)
        if memory.state is not ResourceManagerState.RUNNING:
            yield now_ns, ConnectResourceManager(memory.rm_id)
    end_ns, last_ns = now_ns + SETTLING_NS, now_ns + SETTLING_MAX_NS
    while True:
        for memory in known_of(memories):
            if memory.to_confirm:
                end_ns = min(now_ns + SETTLING_NS, last_ns)
            yield now_ns, UpdateAllocations(memory.rm_id, releases=confirmed(memory))
            yield from cycles(scheduler, now_ns)
        if any(memory.to_confirm for memory in known_of(memories)):
            continue
        deadline_ns = scheduler.next_deadline_ns()
        if deadline_ns is None or deadline_ns > end_ns:
            return
        now_ns = max(now_ns, deadline_ns)
        yield now_ns, RingAlarms()


def calm(
    scheduler: Scheduler, memories: Mapping[str, ResourceManagerMemory], now_ns: int
) -> Iterator[tuple[int, Command]]:
    """Commands with their time, until no application is left or far too much time has gone by."""
    known = known_of(memories)
    for memory in known:
        partitions = scheduler.cluster.resource_managers[memory.rm_id].partitions
        room = [NodeUpdate("room", NodeAction.CREATE, name, ROOM) for name in partitions]
        yield now_ns, UpdateNodes(memory.rm_id, room)
    for round_ in range(ROUNDS_MAX):
        for memory in known:
            for command in _behave(scheduler, memory, takes_back=round_ >= BUSY_ROUNDS):
                yield now_ns, command
                yield from cycles(scheduler, now_ns)
        if _is_over(scheduler):
            return
        deadline_ns = scheduler.next_deadline_ns()
        if deadline_ns is not None:
            now_ns = max(now_ns, deadline_ns)
            yield now_ns, RingAlarms()


def _is_over(scheduler: Scheduler) -> bool:
    is_empty = not any(partition.applications for partition in scheduler.cluster.partitions())
    return is_empty and {type(alarm.event) for alarm in scheduler.cluster.alarms.live()} <= ALARMS_LEFT


def cycles(scheduler: Scheduler, now_ns: int) -> Iterator[tuple[int, Command]]:
    """As long as one is wanted; too many of them are a failure that shows at the end."""
    for _ in range(CYCLES_MAX):
        if not scheduler.wants_cycle():
            return
        yield now_ns, RunCycle(50)


def known_of(memories: Mapping[str, ResourceManagerMemory]) -> list[ResourceManagerMemory]:
    return [memory for memory in memories.values() if memory.state is not None]


def confirmed(memory: ResourceManagerMemory) -> list[AllocationRelease]:
    return [
        AllocationRelease(one.application_id, one.partition, one.uuid, one.allocation_key, one.termination)
        for one in memory.to_confirm.values()
    ]


def _behave(scheduler: Scheduler, memory: ResourceManagerMemory, *, takes_back: bool) -> Iterator[Command]:
    finished = [
        AllocationRelease(one.application_id, one.partition, one.uuid)
        for place, one in memory.held.items()
        if not one.placeholder and place not in memory.to_confirm
    ]
    finished += [AllocationRelease(one.application_id, one.partition, one.uuid) for one in memory.unclaimed.values()]
    yield UpdateAllocations(memory.rm_id, releases=confirmed(memory) + finished)
    asks, ask_releases = [], []
    for name, partition in scheduler.cluster.resource_managers[memory.rm_id].partitions.items():
        for application in partition.applications.values():
            # what is not asked for is left alone, as every answer is news that rings before longer waits are over
            is_asking = any(ask.pending or ask.awaiting_placeholder for ask in application.asks.values())
            if takes_back and is_asking:
                ask_releases.append(AskRelease(application.application_id, name))
            elif application.state is ApplicationState.NEW:
                asks.append(NewAsk(application.application_id, "at last", Resources(memory=1), name))
    yield UpdateAllocations(memory.rm_id, asks=asks, ask_releases=ask_releases)


def leftovers(scheduler: Scheduler) -> list[str]:
    """What is there although everything should be over, as sentences."""
    found = ["a cycle is wanted, though nothing is left to do"] if scheduler.wants_cycle() else []
    for partition in scheduler.cluster.partitions():
        for text in _leftovers(partition):
            found.append(f"{partition.wire_name} after everything is over: {text}")
    if not found:
        kinds = {type(alarm.event) for alarm in scheduler.cluster.alarms.live()} - ALARMS_LEFT
        found += [f"an alarm {kind.name} is left after everything is over" for kind in sorted(kinds, key=str)]
    return found


def _leftovers(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        yield (
            f"application {app.application_id} hangs in state {app.state} with {len(app.allocations)} allocations "
            f"({app.placeholders} placeholders), {len(app.asks)} asks, {app.awaiting_placeholder} awaiting placeholders"
        )
    for queue in partition.root.subtree():
        for name in ("allocated", "pending", "gang_quota_promised", "quota_reserved", "leaving"):
            if not getattr(queue, name).is_zero():
                yield f"{name} of {queue.path} is {getattr(queue, name)}"
        if queue.running:
            yield f"{queue.path} counts {queue.running} running applications"
    for node in partition.nodes.values():
        if node.allocations or node.unclaimed or not node.allocated.is_zero():
            yield f"node {node.node_id} has {len(node.allocations)} + {len(node.unclaimed)} allocations"
        for name in ("reserved", "entitled_reserved", "leaving"):
            if not getattr(node, name).is_zero():
                yield f"{name} of node {node.node_id} is {getattr(node, name)}"
    for kind, ledgers in (("user", partition.usages.users), ("group", partition.usages.groups)):
        for name, by_path in ledgers.items():
            for path, ledger in by_path.items():
                if not ledger.usage.is_zero() or ledger.applications:
                    yield f"usage of {kind} {name} in {path} is {ledger.usage}, by {list(ledger.applications)}"
    for name in (
        "allocations",
        "swaps",
        "open_gangs",
        "denied",
        "priority_gang",
        "reservations",
        "aging_reservations",
        "reservations_to_check",
    ):
        if getattr(partition, name):
            yield f"{name} is not empty"
    for name in ("to_reserve", "preemptors", "search", "overflow"):
        if getattr(partition.retry_timers, name):
            yield f"{name} is not empty, though nobody waits"
    if list(partition.request_classes.known()):
        yield "request classes are known that nobody asks for"
