"""Worlds in which gangs declare their task groups, next to gangs with placeholders and to applications without any.

Members come late, in part, too many or never; groups have a size or none, a topology, few members at most; the numbers
change on the way; nodes of two racks go and come; resource managers that are told of holds are asked about slots.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from schedulerd.core.language.commands import (
    ConnectCallbacks,
    NewApplication,
    NewAsk,
    NodeUpdate,
    UpdateAllocations,
    UpdateApplications,
)
from schedulerd.core.language.specs import PartitionSpec
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from tests.sim.gang_world import FIFO_LEAVES, GangWorld
from tests.sim.judging_world import AnyJudgingWorld
from tests.sim.rm_memory import Place, ResourceManagerMemory, plain_name
from tests.sim.world import Move

DECLARED = tuple(f"declared-{number}" for number in range(1, 5))
LEVEL, RACKS = "rack", ("r1", "r2")
STYLES = ("", "Soft", "Hard", "Requeue")
DISRUPTION = "schedulerd.io/disruption"


class DeclaredGangWorld(GangWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._declared: dict[tuple[str, Place], NewApplication] = {}
        self._partitions = {rm_id: _in_racks(files) for rm_id, files in self._partitions.items()}

    def _queue_file(self, rm: ResourceManagerMemory) -> tuple[PartitionSpec, ...]:
        return _in_racks(super()._queue_file(rm))

    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        mine = ((9, self._declare), (24, self._ask_members), (3, self._change_counts))
        return (*super().kinds(), *mine)

    def _node(self, rm: ResourceManagerMemory) -> NodeUpdate:
        node = super()._node(rm)
        return replace(node, attributes={**node.attributes, LEVEL: RACKS[node.node_id in self.node_ids[::2]]})

    def _declare(self, rm: ResourceManagerMemory) -> Move:
        partition = self._partition(rm)
        tags = {TASK_GROUPS_TAG: json.dumps([self._group(at) for at in range(self._random.choice((1, 1, 2)))])}
        if self._random.random() < 0.2:
            tags[DISRUPTION] = "gang"
        application = NewApplication(
            application_id=self._random.choice(DECLARED),
            queue=self._random.choice(FIFO_LEAVES["gpu" if partition.endswith("gpu") else "default"]),
            partition=partition,
            user=self._random.choice(("ann", "bob")),
            tags=tags,
            execution_timeout_ms=self._random.choice((0, 60_000, 5_000)),
            gang_style=self._random.choice(STYLES),
        )
        place = plain_name(partition), application.application_id
        if place not in rm.applications:
            self._declared[rm.rm_id, place] = application
        return UpdateApplications(rm.rm_id, new=[application])

    def _group(self, at: int) -> dict[str, Any]:
        random = self._random
        group: dict[str, Any] = {"name": f"g{at}", "min": random.choice((1, 2, 3, 4))}
        if random.random() < 0.5:
            group["resources"] = {"memory": random.randint(1, 25), "vcore": random.randint(0, 4)}
        if random.random() < 0.3:
            group["max"] = group["min"] + random.randrange(3)
        if random.random() < 0.3:
            group["topology"] = {random.choice(("required", "preferred")): LEVEL}
        if random.random() < 0.1:
            group["begun"] = True
        return group

    def _one_of_them(self, rm: ResourceManagerMemory) -> NewApplication | None:
        there = [
            one for (rm_id, place), one in self._declared.items() if rm_id == rm.rm_id and place in rm.applications
        ]
        return self._random.choice(there) if there else None

    def _ask_members(self, rm: ResourceManagerMemory) -> Move:
        """Some of them, all of them, or more than it needs."""
        application = self._one_of_them(rm)
        if application is None:
            return self._declare(rm)
        size = self._size(25)
        asks = []
        for group in json.loads(application.tags[TASK_GROUPS_TAG]):
            for number in range(self._random.choice((group["min"], group["min"], group["min"] + 1, 1))):
                asks.append(
                    NewAsk(
                        application_id=application.application_id,
                        allocation_key=f"m-{group['name']}-{number}",
                        resources=size,
                        partition=application.partition,
                        max_allocations=self._random.choice((1, 1, 1, 1, 2)),
                        priority=self._random.choice((0, 0, 0, 5)),
                        task_group=self._or_garbage(group["name"], "unknown"),
                    )
                )
        return UpdateAllocations(rm.rm_id, asks=asks)

    def _change_counts(self, rm: ResourceManagerMemory) -> Move:
        """Its task groups need more or fewer."""
        application = self._one_of_them(rm)
        if application is None:
            return self._declare(rm)
        groups = json.loads(application.tags[TASK_GROUPS_TAG])
        for group in groups:
            group["min"] = self._random.choice((1, 2, 3, 4))
            if "max" in group:
                group["max"] = group["min"] + self._random.randrange(3)
        changed = replace(application, tags={**application.tags, TASK_GROUPS_TAG: json.dumps(groups)})
        self._declared[rm.rm_id, (plain_name(application.partition), application.application_id)] = changed
        return UpdateApplications(rm.rm_id, new=[changed])


class JudgingDeclaredGangWorld(AnyJudgingWorld, DeclaredGangWorld):
    def _open_stream(self, rm: ResourceManagerMemory) -> Move:
        move = super()._open_stream(rm)
        assert isinstance(move, ConnectCallbacks)
        return replace(move, holds=self._random.random() < 0.7)


def _in_racks(files: tuple[PartitionSpec, ...]) -> tuple[PartitionSpec, ...]:
    return tuple(replace(one, topology_keys=(LEVEL,)) for one in files)
