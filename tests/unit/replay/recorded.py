"""Histories to replay: the simulated resource manager and a scheduler, in virtual time and without a wire between."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import load_queue_file, matches
from schedulerd.core.language.commands import (
    Command,
    ConnectResourceManager,
    RegisterResourceManager,
    RingAlarms,
    RunCycle,
    StopCause,
    StopResourceManager,
)
from schedulerd.core.language.specs import MILLISECOND_NS, SECOND_NS, ConfigurationText, Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.journal import Header
from schedulerd.replay.demand import Demand
from schedulerd.replay.derivation import derive
from schedulerd.replay.playback import Step
from schedulerd.replay.what_if import WhatIf
from schedulerd.simulate.resource_manager import SimulatedResourceManager
from schedulerd.simulate.workload import Workload
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at
from tests.unit.journal.build import begin

START_NS = 100_000_000 * SECOND_NS
"""Monotonic; the wall clock says 2023-11-14T22:13:20Z then."""
RM = "recorded"
PLACEMENTS_MAX = 200

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: batch
            resources: {guaranteed: {vcore: 16}, max: {vcore: 48}}
          - name: ml
            queues:
              - {name: train, resources: {guaranteed: {vcore: 48}}}
              - {name: notebooks, resources: {max: {vcore: 4}}}
          - name: services
            properties: {application.sort.policy: fair}
"""

History = list[tuple[int, Command]]


def new_scheduler(prefix: str = "uuid") -> Scheduler:
    numbers = count(1)
    return Scheduler(Timeouts(), lambda: f"{prefix}-{next(numbers)}", matches)


def registration(text: str = QUEUES, rm_id: str = RM) -> RegisterResourceManager:
    file = load_queue_file(text)
    return RegisterResourceManager(
        rm_id, file.partitions, configuration=ConfigurationText(text, "a test", file.checksum)
    )


def a_header(uuid_seed: int = 5) -> Header:
    return Header(
        timeouts=Timeouts(), placements_max=PLACEMENTS_MAX, uuid_seed=uuid_seed, instance="abc", started=at(START_NS)
    )


def write_journal(
    parent: Path, history: History, header: Header | None = None, scheduler: Scheduler | None = None
) -> Path:
    """What a daemon with this scheduler, that of `a_header`, would have written; another header is not true of it."""
    header = header or a_header()
    recorder = begin(parent, header)
    scheduler = scheduler or a_header().scheduler(matches)
    for now_ns, command in history:
        recorder.command(at(now_ns), command)
        recorder.facts(scheduler.step(now_ns, command))
    assert recorder.close("schedulerd was stopped")
    return recorder.directory


def timed(*moves: tuple[float, Command]) -> History:
    """A history of commands, each with the seconds since its start."""
    return [(START_NS + round(at_s * SECOND_NS), command) for at_s, command in moves]


def derived(history: History) -> Demand:
    """The demand in a history."""
    scheduler = new_scheduler()
    return derive(played(history, scheduler), scheduler, PLACEMENTS_MAX)


def in_another_world(demand: Demand) -> list[Step]:
    """What would have come of a demand."""
    return list(WhatIf(demand, new_scheduler("other")))


def after_s(step: Step) -> float:
    """Seconds since the start."""
    return (step.now_ns - START_NS) / SECOND_NS


def played(history: History, scheduler: Scheduler) -> Iterator[Step]:
    """The steps of a history, as they come."""
    for number, (now_ns, command) in enumerate(history, start=1):
        yield Step(number, now_ns, command, scheduler.step(now_ns, command))


@cache
def a_history() -> History:
    """A small cluster that fills and drains, some 1,600 pods; with the UUIDs of `a_header`."""
    return Recording(Workload(20, 3.0, 5), a_header().scheduler(matches)).history


class Recording:
    """A run of the simulated resource manager: all it sends, and the cycles and alarms in between."""

    def __init__(self, workload: Workload, scheduler: Scheduler, text: str = QUEUES) -> None:
        self.history: History = []
        self._now_ns = START_NS
        self._scheduler = scheduler
        self._rm = SimulatedResourceManager(workload)
        self._decode = RequestDecoder()
        self._encode = ResponseEncoder()
        self._step(registration(text))
        self._step(ConnectResourceManager(RM))
        self._run(workload)
        self._step(StopResourceManager(RM, StopCause.UNREGISTERED))

    def _run(self, workload: Workload) -> None:
        nodes = self._rm.nodes_request()
        nodes.rmID = RM
        for update in self._decode.nodes(nodes):
            self._step(update)
        while not self._rm.is_done():
            outgoing = self._rm.advance(self._elapsed_s())
            for applications in outgoing.applications:
                applications.rmID = RM
                for command in self._decode.applications(applications):
                    self._step(command)
            for allocations in outgoing.allocations:
                allocations.rmID = RM
                for asks in self._decode.allocations(allocations):
                    self._step(asks)
            while self._scheduler.wants_cycle():
                self._step(RunCycle(PLACEMENTS_MAX))
            self._now_ns += 10 * MILLISECOND_NS
            deadline_ns = self._scheduler.next_deadline_ns()
            if deadline_ns is not None and deadline_ns <= self._now_ns:
                self._step(RingAlarms())
            assert self._elapsed_s() < 3 * workload.duration_s, "it does not drain"

    def _elapsed_s(self) -> float:
        return (self._now_ns - START_NS) / SECOND_NS

    def _step(self, command: Command) -> None:
        self.history.append((self._now_ns, command))
        self._encode.add(self._scheduler.step(self._now_ns, command), at(self._now_ns))
        for response in self._encode.drain():
            match response.stream:
                case Stream.ALLOCATION:
                    said = si_pb2.AllocationResponse.FromString(response.payload)
                    self._rm.take_allocations(said, self._elapsed_s())
                case Stream.APPLICATION:
                    self._rm.take_applications(si_pb2.ApplicationResponse.FromString(response.payload))
                case _:
                    self._rm.take_nodes(si_pb2.NodeResponse.FromString(response.payload))
