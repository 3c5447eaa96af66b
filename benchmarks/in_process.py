"""Runs a workload on the core alone: commands that are decoded already go into `Scheduler.step`, facts are dropped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from benchmarks.measurement import Intake, Measurement, Placed, WrongResult, check, peak_rss_bytes
from benchmarks.work import Work, work_so_far
from benchmarks.workload import GANG_STYLE, GROUP, RM_ID, USER, Ask, Demand, Size, Workload
from schedulerd.config import load_queue_file, matches
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import (
    AllocationAffinity,
    AllocationRelease,
    Command,
    ConnectResourceManager,
    Expression,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    Operator,
    PlacementConstraint,
    RegisterResourceManager,
    RunCycle,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated, Fact, ReleaseRequested
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import view
from schedulerd.daemon.runtime.collector import spare_the_old
from schedulerd.daemon.runtime.owner import Pace
from schedulerd.ids import random_seed, uuid_source
from schedulerd.wire.decode import ITEMS_MAX
from schedulerd.wire.decode_2021 import CONSTRAINTS_MAX

PARTITION = "default"
SERVICE = "service"
"""The tag that says which service an ask is one of."""
_NO_TAGS: Mapping[str, str] = {}
PLACEMENTS_MAX = 200
"""Per cycle, where that is to be the same on every machine."""


class Drive:
    """Steps of a scheduler, each of them timed, and what it says counted."""

    def __init__(
        self,
        scheduler: Scheduler,
        placed_max: int | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        pace: Pace | None = None,
    ) -> None:
        """Stops where `placed_max` allocations are there. `clock_ns` is what the scheduler takes for the time."""
        self.scheduler = scheduler
        self.steps_s: list[float] = []
        self.facts = 0
        self.replaced = 0
        """Placeholders of which it was confirmed that they are gone."""
        self._placed_max = placed_max
        self._clock_ns = clock_ns
        self._pace = pace

    def step(self, command: Command) -> list[Fact]:
        started_s = time.perf_counter()
        facts = self.scheduler.step(self._clock_ns(), command)
        self.steps_s.append(time.perf_counter() - started_s)
        self.facts += len(facts)
        return facts

    def handle(self, command: Command) -> list[Fact]:
        """One command, and the cycles after it."""
        facts = self.step(command)
        for said in self._cycles():
            facts += said
        return facts

    def turn(self, command: Command) -> None:
        """One command and one cycle, as the daemon's loop alternates while more commands wait for it."""
        self.step(command)
        next(self._cycles(), None)

    def run_cycles(self) -> None:
        """For as long as anything might be placed; what they say is dropped at once."""
        for _ in self._cycles():
            pass

    def confirm(self, facts: Iterable[Fact]) -> None:
        """Says that the placeholders which are to be replaced are gone, in one command."""
        confirmed = releases(facts)
        self.handle(UpdateAllocations(RM_ID, releases=confirmed))
        self.replaced += len(confirmed)

    def work(self) -> Work:
        """All since the scheduler began."""
        return work_so_far(self.scheduler, self.facts)

    def _cycles(self) -> Iterator[list[Fact]]:
        while (placements := self._placements_left()) and self.scheduler.wants_cycle():
            facts = self.step(RunCycle(placements))
            if self._pace is not None:
                self._pace.took(self.steps_s[-1], facts)
            yield facts

    def _placements_left(self) -> int:
        """Of the next cycle."""
        most = PLACEMENTS_MAX if self._pace is None else self._pace.placements
        if self._placed_max is None:
            return most
        allocations = sum(len(partition.allocations) for partition in self.scheduler.cluster.partitions())
        return min(most, self._placed_max - allocations)


def run(workload: Workload) -> Measurement:
    """Raises `WrongResult`."""
    scheduler = prepare(workload, uuid_source(random_seed()))
    drive = Drive(scheduler, workload.placed_max, pace=Pace(2 * PLACEMENTS_MAX))
    script = Script.of(workload)
    spare_the_old()
    measurement = carry_out(script, drive)
    check(workload, placed(drive.scheduler), violations(drive.scheduler), drive.replaced)
    return measurement


@dataclass(slots=True)
class Script:
    """What the resource manager of a workload sends, built before any clock runs."""

    workload: Workload
    asks: list[UpdateAllocations]
    replacements: list[UpdateAllocations]
    single_asks: list[UpdateAllocations]

    @classmethod
    def of(cls, workload: Workload) -> Self:
        def commands(requests: Iterable[Sequence[Ask]]) -> list[UpdateAllocations]:
            return [UpdateAllocations(RM_ID, new_asks(asks)) for asks in requests]

        return cls(
            workload,
            commands(workload.requests(workload.asks)),
            commands(workload.requests(workload.replacements)),
            commands([ask] for ask in workload.single_asks),
        )


def carry_out(script: Script, drive: Drive) -> Measurement:
    """Sends all of it to a scheduler that is prepared for it. Raises `WrongResult` if a single ask is not placed."""
    workload = script.workload
    intake = _take_in(script.asks, drive) if workload.pending_first else None
    before = drive.work()
    cpu_before_s, started_s = time.process_time(), time.perf_counter()
    if intake is None:
        for command in script.asks:
            drive.turn(command)
    drive.run_cycles()
    for command in script.replacements:
        drive.confirm(drive.handle(command))
    seconds, cpu_seconds = time.perf_counter() - started_s, time.process_time() - cpu_before_s
    work, steps_s = drive.work().since(before), tuple(drive.steps_s)
    latencies_s = tuple(_latency_s(drive, single) for single in script.single_asks)
    return Measurement(
        workload.placements((*workload.asks, *workload.replacements)),
        seconds,
        cpu_seconds,
        intake,
        latencies_s,
        steps_s,
        work,
        peak_rss_bytes=peak_rss_bytes(),
    )


def prepare(workload: Workload, new_uuid: Callable[[], str]) -> Scheduler:
    """A scheduler that has the workload's nodes and applications, and none of its asks. Its time is still 0."""
    scheduler = Scheduler(Timeouts(), new_uuid, matches)
    node_size = _resources(workload.node_size)
    gang_size = _resources(workload.gang_size) if workload.gang_size is not None else Resources()
    nodes = [
        NodeUpdate(node_id, NodeAction.CREATE, capacity=Resources(node_size), attributes=workload.attributes(index))
        for index, node_id in enumerate(workload.node_ids)
    ]
    applications = [
        NewApplication(
            application_id,
            queue,
            user=USER,
            groups=(GROUP,),
            tags=_tags(workload, application_id),
            placeholder_ask=gang_size,
            gang_style=GANG_STYLE,
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


def _tags(workload: Workload, application_id: str) -> Mapping[str, str]:
    declared = workload.task_groups.get(application_id)
    return _NO_TAGS if declared is None else {TASK_GROUPS_TAG: declared}


def new_asks(asks: Iterable[Ask]) -> list[NewAsk]:
    """Asks of equal size share one `Resources` object, and asks of an equal demand one constraint, as they do when they
    come out of the wire codec."""
    sizes: dict[Size, Resources] = {}
    return [
        NewAsk(
            ask.application_id,
            ask.key,
            sizes.get(ask.size) or sizes.setdefault(ask.size, _resources(ask.size)),
            max_allocations=ask.count,
            task_group=ask.task_group,
            placeholder=ask.placeholder,
            tags=_NO_TAGS if ask.demand is None else {SERVICE: ask.demand.service},
            constraint=None if ask.demand is None else _constraint(ask.demand),
        )
        for ask in asks
    ]


@lru_cache(CONSTRAINTS_MAX)
def _constraint(demand: Demand) -> PlacementConstraint:
    key, value = demand.wanted
    of_service = (Expression(SERVICE, Operator.IN, (demand.service,)),)
    return PlacementConstraint(
        (
            Expression(key, Operator.IN, (value,)),
            *(Expression(name, Operator.NOT_IN, (no,)) for name, no in demand.unwanted),
        ),
        AllocationAffinity(demand.scope, of_service, 0, demand.most, required=True),
    )


def releases(facts: Iterable[Fact]) -> list[AllocationRelease]:
    """The RM's answers to the releases of placeholders that are to be replaced."""
    return [
        AllocationRelease(fact.application_id, fact.partition, fact.uuid, fact.allocation_key, fact.termination)
        for fact in facts
        if isinstance(fact, ReleaseRequested) and fact.termination is TerminationType.PLACEHOLDER_REPLACED
    ]


def placed(scheduler: Scheduler) -> Iterator[Placed]:
    for node in view.partition(scheduler.cluster, RM_ID, PARTITION).nodes:
        for one in node.allocations:
            size = Size(one.resources["memory"], one.resources["vcore"])
            yield Placed(one.uuid, one.application_id, one.allocation_key, one.node_id, size)


def _take_in(commands: Sequence[UpdateAllocations], drive: Drive) -> Intake:
    """Nothing is placed yet, so the steps can be those of the daemon, which cuts requests."""
    asks = [ask for command in commands for ask in command.asks]
    started_s = time.perf_counter()
    for start in range(0, len(asks), ITEMS_MAX):
        drive.step(UpdateAllocations(RM_ID, asks[start : start + ITEMS_MAX]))
    return Intake(len(asks), time.perf_counter() - started_s)


def _latency_s(drive: Drive, single: UpdateAllocations) -> float:
    started_s = time.perf_counter()
    facts = drive.handle(single)
    seconds = time.perf_counter() - started_s
    key = single.asks[0].allocation_key
    if not any(isinstance(fact, Allocated) and fact.allocation_key == key for fact in facts):
        raise WrongResult(f"{key} was not placed at once")
    return seconds


def _resources(size: Size) -> Resources:
    return Resources(memory=size.memory, vcore=size.vcore)
