"""Runs a workload on the core alone: commands that are decoded already go into `Scheduler.step`, facts are dropped."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator

from benchmarks.measurement import Measurement, Placed, WrongResult, check, peak_rss_bytes
from benchmarks.workloads import GANG_STYLE, GROUP, RM_ID, USER, Ask, Size, Workload
from schedulerd.config import load_queue_file
from schedulerd.core import view
from schedulerd.core.commands import (
    AllocationRelease,
    Command,
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RunCycle,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.facts import Allocated, Fact, ReleaseRequested
from schedulerd.core.invariants import violations
from schedulerd.core.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.specs import Timeouts
from schedulerd.daemon.ids import uuid_source

PARTITION = "default"
PLACEMENTS_MAX = 400
"""Per cycle; the daemon's default."""


def run(workload: Workload) -> Measurement:
    """Raises `WrongResult`."""
    scheduler = prepare(workload, uuid_source())
    commands = [UpdateAllocations(RM_ID, new_asks(asks)) for asks in workload.requests(workload.asks)]
    replacing = [UpdateAllocations(RM_ID, new_asks(asks)) for asks in workload.requests(workload.replacements)]
    singles = [UpdateAllocations(RM_ID, new_asks([ask])) for ask in workload.single_asks]
    settle_collector()
    visits_before = node_visits(scheduler)
    cpu_before_s, started_s = time.process_time(), time.perf_counter()
    for command in commands:
        handle(scheduler, command)
    replaced = sum(confirm(scheduler, handle(scheduler, command)) for command in replacing)
    seconds, cpu_seconds = time.perf_counter() - started_s, time.process_time() - cpu_before_s
    visits = node_visits(scheduler) - visits_before
    latencies_s = tuple(_latency_s(scheduler, single) for single in singles)
    peak = peak_rss_bytes()
    check(workload, placed(scheduler), violations(scheduler), replaced)
    placements = workload.placements((*workload.asks, *workload.replacements))
    return Measurement(placements, seconds, cpu_seconds, latencies_s, visits, peak_rss_bytes=peak)


def prepare(workload: Workload, new_uuid: Callable[[], str]) -> Scheduler:
    """A scheduler that has the workload's nodes and applications, and none of its asks. Its time is still 0."""
    scheduler = Scheduler(Timeouts(), new_uuid)
    node_size = _resources(workload.node_size)
    gang_size = _resources(workload.gang_size) if workload.gang_size is not None else Resources()
    nodes = [NodeUpdate(node_id, NodeAction.CREATE, capacity=Resources(node_size)) for node_id in workload.node_ids]
    applications = [
        NewApplication(
            application_id, queue, user=USER, groups=(GROUP,), placeholder_ask=gang_size, gang_style=GANG_STYLE
        )
        for application_id, queue in workload.applications.items()
    ]
    for command in (
        RegisterResourceManager(RM_ID, load_queue_file(workload.queue_file).partitions),
        ConnectResourceManager(RM_ID),
        UpdateNodes(RM_ID, nodes),
        UpdateApplications(RM_ID, applications),
    ):
        scheduler.step(0, command)
    return scheduler


def new_asks(asks: Iterable[Ask]) -> list[NewAsk]:
    """Asks of equal size share one `Resources` object, as they do when they come out of the wire codec."""
    sizes: dict[Size, Resources] = {}
    return [
        NewAsk(
            ask.application_id,
            ask.key,
            sizes.get(ask.size) or sizes.setdefault(ask.size, _resources(ask.size)),
            max_allocations=ask.count,
            task_group=ask.task_group,
            placeholder=ask.placeholder,
        )
        for ask in asks
    ]


def handle(scheduler: Scheduler, command: Command) -> list[Fact]:
    """One command, and cycles for as long as anything might be placed."""
    facts = scheduler.step(time.time_ns(), command)
    while scheduler.wants_cycle():
        facts += scheduler.step(time.time_ns(), RunCycle(PLACEMENTS_MAX))
    return facts


def confirm(scheduler: Scheduler, facts: Iterable[Fact]) -> int:
    """Says that the placeholders which are to be replaced are gone, in one command. Returns how many."""
    confirmed = releases(facts)
    handle(scheduler, UpdateAllocations(RM_ID, releases=confirmed))
    return len(confirmed)


def releases(facts: Iterable[Fact]) -> list[AllocationRelease]:
    """The RM's answers to the releases of placeholders that are to be replaced."""
    return [
        AllocationRelease(fact.application_id, fact.partition, fact.uuid, fact.allocation_key, fact.termination)
        for fact in facts
        if isinstance(fact, ReleaseRequested) and fact.termination is TerminationType.PLACEHOLDER_REPLACED
    ]


def node_visits(scheduler: Scheduler) -> int:
    """Nodes and blocks of nodes looked at since the scheduler began."""
    return sum(partition.node_order.visits for partition in scheduler.cluster.partitions())


def placed(scheduler: Scheduler) -> Iterator[Placed]:
    for node in view.partition(scheduler, RM_ID, PARTITION).nodes:
        for one in node.allocations:
            size = Size(one.resources["memory"], one.resources["vcore"])
            yield Placed(one.uuid, one.application_id, one.allocation_key, one.node_id, size)


def _latency_s(scheduler: Scheduler, single: UpdateAllocations) -> float:
    started_s = time.perf_counter()
    facts = handle(scheduler, single)
    seconds = time.perf_counter() - started_s
    key = single.asks[0].allocation_key
    if not any(isinstance(fact, Allocated) and fact.allocation_key == key for fact in facts):
        raise WrongResult(f"{key} was not placed at once")
    return seconds


def _resources(size: Size) -> Resources:
    return Resources(memory=size.memory, vcore=size.vcore)


def settle_collector() -> None:
    """As the daemon does when it has started: the figures are to be those of the core as it is run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
