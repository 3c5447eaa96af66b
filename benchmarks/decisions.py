"""Runs the workloads `p` on the core alone: how long the loop is held by the decision which pods are preempted.

Time passes as the scheduler's own deadlines say, so the run does not wait for an ask to be old enough; what is
measured is how long each step took.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.decisions_check import check
from benchmarks.full_clusters import FullCluster, Pod
from benchmarks.in_process import PARTITION, PLACEMENTS_MAX
from benchmarks.measurement import Decisions, Took, WrongResult, peak_rss_bytes
from benchmarks.workload import GROUP, RM_ID, USER, Size
from schedulerd.config import load_queue_file, matches
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import (
    AllocationRelease,
    Command,
    ConnectResourceManager,
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RingAlarms,
    RunCycle,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefused
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.daemon.runtime.collector import spare_the_old
from schedulerd.ids import random_seed, uuid_source

PATIENCE_NS = 60 * SECOND_NS
"""By then every ask is older than the preemption delay of its leaf, the default of which is 30 s."""


def run(cluster: FullCluster) -> Decisions:
    """Raises `WrongResult`."""
    scheduler = prepare(cluster)
    spare_the_old()
    visits_before = visits(scheduler)
    talk = Talk(scheduler)
    talk.ask(cluster.asks)
    talk.wait_for_decisions(len(cluster.asks))
    visited, longest, peak = visits(scheduler) - visits_before, talk.longest, peak_rss_bytes()
    talk.confirm()
    check(cluster, talk.facts, violations(scheduler))
    decided = [fact for fact in talk.facts if isinstance(fact, Preempted)]
    return Decisions(
        decisions=tuple(talk.decisions),
        longest=longest,
        visits=visited,
        victims=sum(len(one.victims) for one in decided),
        refused=len(talk.decisions) - len(decided),
        peak_rss_bytes=peak,
    )


def prepare(cluster: FullCluster) -> Scheduler:
    """A scheduler that has all of the workload but its asks."""
    scheduler = Scheduler(Timeouts(), uuid_source(random_seed()), matches)
    running: dict[str, list[ExistingAllocation]] = {node_id: [] for node_id in cluster.node_ids}
    for pod in cluster.running:
        one = ExistingAllocation(pod.application_id, pod.key, pod.uuid, _resources(pod.size))
        one.priority = pod.priority
        running[pod.node_id].append(one)
    capacity = _resources(cluster.node_size)
    for command in (
        RegisterResourceManager(RM_ID, load_queue_file(cluster.queue_file()).partitions),
        ConnectResourceManager(RM_ID),
        UpdateApplications(
            RM_ID,
            [NewApplication(name, queue, user=USER, groups=(GROUP,)) for name, queue in cluster.applications.items()],
        ),
        UpdateNodes(
            RM_ID,
            [
                NodeUpdate(node_id, NodeAction.CREATE, capacity=capacity, existing=existing)
                for node_id, existing in running.items()
            ],
        ),
    ):
        scheduler.step(0, command)
    while scheduler.wants_cycle():
        scheduler.step(0, RunCycle(PLACEMENTS_MAX))
    return scheduler


class Talk:
    """Steps of a scheduler, each of them timed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.now_ns = 0
        self.facts: list[Fact] = []
        self.longest = Took(0.0, 0.0)
        self.decisions: list[Took] = []
        self._spent = Took(0.0, 0.0)

    def ask(self, pods: Iterable[Pod]) -> None:
        self.step(UpdateAllocations(RM_ID, [_new_ask(pod) for pod in pods]))
        self.run_cycles()

    def wait_for_decisions(self, count: int) -> None:
        """Lets time pass until there are that many. Raises `WrongResult` if they do not come."""
        while len(self.decisions) < count:
            next_ns = self.scheduler.next_deadline_ns()
            if next_ns is None or next_ns > PATIENCE_NS:
                raise WrongResult(f"there are {len(self.decisions)} decisions about {count} asks")
            self.now_ns = next_ns
            self._spent = Took(0.0, 0.0)
            self.step(RingAlarms())
            self.run_cycles()

    def confirm(self) -> None:
        """Confirms all releases that were requested."""
        self.step(
            UpdateAllocations(
                RM_ID,
                releases=[
                    AllocationRelease(fact.application_id, PARTITION, fact.uuid, fact.allocation_key, fact.termination)
                    for fact in self.facts
                    if isinstance(fact, ReleaseRequested)
                ],
            )
        )
        self.run_cycles()

    def run_cycles(self) -> None:
        while self.scheduler.wants_cycle():
            self.step(RunCycle(PLACEMENTS_MAX))

    def step(self, command: Command) -> None:
        cpu_before_s, started_s = time.process_time(), time.perf_counter()
        facts = self.scheduler.step(self.now_ns, command)
        took = Took(time.perf_counter() - started_s, time.process_time() - cpu_before_s)
        if isinstance(command, RingAlarms | RunCycle):
            self.longest = self.longest.longer(took)
        self._spent = self._spent.and_then(took)
        decided = sum(isinstance(fact, Preempted | PreemptionRefused) for fact in facts)
        if decided:
            self.decisions += [self._spent.part(decided)] * decided
            self._spent = Took(0.0, 0.0)
        self.facts += facts


def visits(scheduler: Scheduler) -> int:
    """Queues, nodes, allocations and choices that the search for victims has visited since the scheduler began."""
    return sum(partition.retry_timers.budget.visits for partition in scheduler.cluster.partitions())


def _new_ask(pod: Pod) -> NewAsk:
    tags = {REQUIRED_NODE_TAG: pod.node_id} if pod.node_id else {}
    return NewAsk(
        pod.application_id,
        pod.key,
        _resources(pod.size),
        priority=pod.priority,
        tags=tags,
        allow_preempt_other=True,
    )


def _resources(size: Size) -> Resources:
    return Resources(memory=size.memory, vcore=size.vcore)
