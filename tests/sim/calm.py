"""After the faults: everybody behaves, there is room for all, and everything has to come to an end.

Resource managers connect, confirm what they are asked for, let their pods finish and take back what they still ask for;
alarms ring when they are due. Whatever an application got into before, it has to end by itself, and to leave nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedulerd.core.alarms import AlarmKind
from schedulerd.core.commands import (
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
from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.model.partition import Partition
from schedulerd.core.resources import Resources
from schedulerd.core.scheduler import Scheduler
from tests.sim.clusters import PARTITIONS
from tests.sim.rm_memory import ResourceManagerMemory

ROUNDS_MAX = 60
"""Each waits for an alarm at least; the longest chain of states with alarms is far shorter."""
BUSY_ROUNDS = 3
"""So long asks may still be placed; then they are taken back."""
ROOM = Resources(memory=100_000, vcore=10_000, gpu=1_000)
ALARMS_LEFT = {AlarmKind.APPLICATION_STATE, AlarmKind.CLEANUP}
"""Of applications that are remembered, and of queues that nobody needs any longer."""


def calm(
    scheduler: Scheduler, memories: Mapping[str, ResourceManagerMemory], now_ns: int
) -> Iterator[tuple[int, Command]]:
    """Commands with their time, until no application is left or far too much time has gone by."""
    for memory in memories.values():
        if memory.state in (None, ResourceManagerState.STOPPED):
            yield now_ns, RegisterResourceManager(memory.rm_id, PARTITIONS[memory.rm_id])
        if memory.state is not ResourceManagerState.RUNNING:
            yield now_ns, ConnectResourceManager(memory.rm_id)
        partitions = scheduler.cluster.resource_managers[memory.rm_id].partitions
        room = [NodeUpdate("room", NodeAction.CREATE, name, ROOM) for name in partitions]
        yield now_ns, UpdateNodes(memory.rm_id, room)
    for round_ in range(ROUNDS_MAX):
        for memory in memories.values():
            for command in _behave(scheduler, memory, takes_back=round_ >= BUSY_ROUNDS):
                yield now_ns, command
                while scheduler.wants_cycle():
                    yield now_ns, RunCycle(50)
        if _is_over(scheduler):
            return
        deadline_ns = scheduler.next_deadline_ns()
        if deadline_ns is not None:
            now_ns = max(now_ns, deadline_ns)
            yield now_ns, RingAlarms()


def _is_over(scheduler: Scheduler) -> bool:
    is_empty = not any(partition.applications for partition in scheduler.cluster.partitions())
    return is_empty and {alarm.kind for alarm in scheduler.cluster.alarms.live()} <= ALARMS_LEFT


def _behave(scheduler: Scheduler, memory: ResourceManagerMemory, *, takes_back: bool) -> Iterator[Command]:
    confirmed = [
        AllocationRelease(one.application_id, one.partition, one.uuid, one.allocation_key, one.termination)
        for one in memory.to_confirm.values()
    ]
    finished = [
        AllocationRelease(one.application_id, one.partition, one.uuid)
        for place, one in memory.held.items()
        if not one.placeholder and place not in memory.to_confirm
    ]
    yield UpdateAllocations(memory.rm_id, releases=confirmed + finished)
    asks, ask_releases = [], []
    for name, partition in scheduler.cluster.resource_managers[memory.rm_id].partitions.items():
        for application in partition.applications.values():
            if takes_back and application.asks:
                ask_releases.append(AskRelease(application.application_id, name))
            elif application.state is ApplicationState.NEW:
                asks.append(NewAsk(application.application_id, "at last", Resources(memory=1), name))
    yield UpdateAllocations(memory.rm_id, asks=asks, ask_releases=ask_releases)


def leftovers(scheduler: Scheduler) -> list[str]:
    """What is there although everything should be over, as sentences."""
    found = []
    for partition in scheduler.cluster.partitions():
        for text in _leftovers(partition):
            found.append(f"{partition.wire_name} after everything is over: {text}")
    if not found:
        kinds = {alarm.kind for alarm in scheduler.cluster.alarms.live()} - ALARMS_LEFT
        found += [f"an alarm {kind.name} is left after everything is over" for kind in sorted(kinds, key=str)]
    return found


def _leftovers(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        yield (
            f"application {app.application_id} hangs in state {app.state} with {len(app.allocations)} allocations "
            f"({app.placeholders} placeholders), {len(app.asks)} asks, {app.parked} parked"
        )
    for queue in partition.root.subtree():
        for name in ("allocated", "pending", "promised"):
            if not getattr(queue, name).is_zero():
                yield f"{name} of {queue.path} is {getattr(queue, name)}"
        if queue.running:
            yield f"{queue.path} counts {queue.running} running applications"
    for node in partition.nodes.values():
        if node.allocations or not node.allocated.is_zero():
            yield f"node {node.node_id} has {len(node.allocations)} allocations"
    for kind, ledgers in (("user", partition.usages.users), ("group", partition.usages.groups)):
        for name, by_path in ledgers.items():
            for path, ledger in by_path.items():
                if not ledger.usage.is_zero() or ledger.applications:
                    yield f"usage of {kind} {name} in {path} is {ledger.usage}, by {list(ledger.applications)}"
    for name in ("allocations", "swaps", "open_gangs", "denied", "favoured"):
        if getattr(partition, name):
            yield f"{name} is not empty"
    if list(partition.shapes.known()):
        yield "shapes are known that nobody asks for"
