"""A world that is about who gets in: a few small nodes that are always full, and queues with a right to a part of them.

Next to gangs and the noise of the plain world: asks that others may end for and asks that mind ending, daemons for
single nodes, victims that finish by themselves, are confirmed late, twice, never or as something else, nodes that go,
drain or shrink under them, and queue files that change who has a right to what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from schedulerd.core.language.commands import (
    AllocationRelease,
    ApplicationRemoval,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RunCycle,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MILLISECOND_NS, MINUTE_NS, SECOND_NS, PartitionSpec
from tests.sim.contested import LEAVES, one_max_for_two, queue_file, rivals
from tests.sim.gang_world import GangWorld
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import NODES, Move, Sleep

RM = "rm-a"
SIBLINGS = LEAVES[:2]
"""What the first uses the second may lack, where their parent has a max."""


class ContestedWorld(GangWorld):
    node_ids: ClassVar = NODES[:3]
    sleeps_ns: ClassVar = (*(300 * MILLISECOND_NS, SECOND_NS, 5 * SECOND_NS) * 4, 20 * SECOND_NS, MINUTE_NS)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._in_force = queue_file(self._random)
        """The last queue file; it may have been refused."""
        self._partitions = {RM: self._in_force}
        self.memories = {RM: ResourceManagerMemory(RM)}
        self._claims_share = self._random.choice((0.3, 0.6, 0.9))
        """How many of the asks may have others end for them."""

    def last_moves(self) -> list[Move]:
        self._script.clear()
        return [self._contend(self.memories[RM]), *self._script]

    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        return (
            (24, self._cycle),
            (18, self._ask),
            (10, self._sleep),
            (4, self._release),
            (5, self._submit),
            (3, self._grow_nodes),
            (0.5, self._update_nodes),
            (12, self._confirm_in_character),
            (3, self._finish_by_itself),
            (2, self._finish_an_application),
            (4, self._contend),
            (2.5, self._disturb_a_swap),
            (2, self._confirm_what_is_over),
            (2, self._release_asks),
            (0.5, self._remove_applications),
            (0.3, self._disconnect),
            (2.5, self._reload),
            (0.1, self._register),
            (0.05, self._stop),
            (4, self._wait_for_alarm),
            (0.3, self._come_back_with_a_report),
            (1.5, self._submit_gang),
            (2, self._ask_placeholders),
            (3, self._ask_reals),
        )

    def _queue_file(self, rm: ResourceManagerMemory) -> tuple[PartitionSpec, ...]:
        self._in_force = queue_file(self._random)
        return self._in_force

    def _leaves(self, partition: str) -> tuple[str, ...]:
        return LEAVES

    def _capacity(self) -> Resources:
        capacity = Resources(memory=self._random.randrange(30, 60), vcore=self._random.randrange(8, 30))
        if self._random.random() < 0.5:
            capacity["gpu"] = 1
        return capacity

    def _grow_nodes(self, rm: ResourceManagerMemory) -> Move:
        """Nodes come, or come back from being drained or too small; what is there already is left alone."""
        there = {node_id for _, node_id in rm.nodes}
        missing = [node_id for node_id in self.node_ids if node_id not in there]
        if missing:
            return UpdateNodes(rm.rm_id, [NodeUpdate(missing[0], NodeAction.CREATE, capacity=self._capacity())])
        node_id = self._random.choice(self.node_ids)
        action = self._random.choice((NodeAction.DRAIN_TO_SCHEDULABLE, NodeAction.UPDATE))
        grown = self._capacity() if action is NodeAction.UPDATE else None
        return UpdateNodes(rm.rm_id, [NodeUpdate(node_id, action, capacity=grown, attributes={"ready": "true"})])

    def _application(self, rm: ResourceManagerMemory) -> NewApplication:
        execution_timeout_ms = self._random.choice((0,) * 9 + (60_000,))
        application = super()._application(rm)
        return replace(application, execution_timeout_ms=execution_timeout_ms, placeholder_ask=Resources())

    def _new_ask(self, rm: ResourceManagerMemory) -> NewAsk:
        ask = self._may_preempt(super()._new_ask(rm))
        if self._random.random() < 0.9:
            ask = replace(ask, resources=self._or_garbage(self._size(20), self._bad_size()))
        if self._random.random() < 0.8:
            ask = replace(ask, task_group="", placeholder=False)
        return ask

    def _may_preempt(self, ask: NewAsk) -> NewAsk:
        return replace(
            ask,
            priority=self._random.choice((0, 0, 0, 0, 5, -5)),
            originator=self._random.random() < 0.1,
            allow_preempt_self=self._random.random() < 0.8,
            allow_preempt_other=self._random.random() < self._claims_share,
        )

    def _finish_an_application(self, rm: ResourceManagerMemory) -> Move:
        """All that it has ends, and its queue has a right to more again."""
        if not rm.held:
            return self._ask(rm)
        one = self._random.choice(list(rm.held.values()))
        return UpdateAllocations(rm.rm_id, releases=[AllocationRelease(one.application_id, one.partition)])

    def _contend(self, rm: ResourceManagerMemory) -> Move:
        """One application takes whatever there is; then comes another that may have a right to some of it."""
        names = "hog", "claimant"
        leaves = tuple(self._random.choice(some) for some in rivals(self._in_force[0]))
        if self._random.random() < 0.3:
            leaves, self._in_force = SIBLINGS, one_max_for_two(self._random)
            self._script.append(UpdateConfiguration(rm.rm_id, self._in_force))
        every = Resources(memory=self._random.randrange(4, 10), vcore=1)
        hogs = self._may_preempt(NewAsk("hog", "h", every, max_allocations=40))
        entitled = [NewAsk("claimant", f"c{at}", self._size(20)) for at in range(self._random.randint(1, 3))]
        self._script.extend(
            (
                UpdateApplications(
                    rm.rm_id, new=[NewApplication(*pair, user="ann") for pair in zip(names, leaves, strict=True)]
                ),
                UpdateAllocations(rm.rm_id, asks=[replace(hogs, priority=0, originator=False)]),
                RunCycle(50),
                UpdateAllocations(
                    rm.rm_id, asks=[replace(self._may_preempt(one), allow_preempt_other=True) for one in entitled]
                ),
                RunCycle(50),
                Sleep(self._random.randrange(6 * SECOND_NS)),
                RunCycle(self._random.choice((1, 50))),
            )
        )
        return UpdateApplications(rm.rm_id, remove=[ApplicationRemoval(name) for name in names])

    # Victims

    def _finish_by_itself(self, rm: ResourceManagerMemory) -> Move:
        """What the core wants gone ends before the RM does anything about it."""
        if not rm.to_confirm:
            return self._ask(rm)
        one = self._random.choice(list(rm.to_confirm.values()))
        how = self._random.choice(
            (TerminationType.STOPPED_BY_RM, TerminationType.STOPPED_BY_RM, TerminationType.TIMEOUT)
        )
        release = AllocationRelease(one.application_id, one.partition, one.uuid, termination=how)
        return UpdateAllocations(rm.rm_id, releases=[release])
