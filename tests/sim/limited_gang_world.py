"""A world of gangs whose users, groups and queues may have little, and less or more with each queue file."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import LimitSpec, PartitionSpec, QueueSpec
from tests.sim.gang_world import GangWorld
from tests.sim.rm_memory import ResourceManagerMemory

ACCOUNTS = ((("ann",), ()), (("*",), ()), ((), ("staff",)), ((), ("*",)), (("ann", "bob"), ("staff", "*")))


class LimitedGangWorld(GangWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._partitions = {rm_id: self._limited(files) for rm_id, files in self._partitions.items()}

    def _queue_file(self, rm: ResourceManagerMemory) -> tuple[PartitionSpec, ...]:
        return self._limited(super()._queue_file(rm))

    def _limited(self, files: tuple[PartitionSpec, ...]) -> tuple[PartitionSpec, ...]:
        return tuple(replace(file, root=self._tight(file.root, is_root=True)) for file in files)

    def _tight(self, queue: QueueSpec, *, is_root: bool = False) -> QueueSpec:
        """The queue and those below it, some of them with limits or a lower quota."""
        children = tuple(map(self._tight, queue.children))
        queue = replace(queue, children=children)
        if is_root or self._random.random() < 0.3:
            queue = replace(queue, limits=(*queue.limits, self._limit(), self._limit()))
        if not is_root and self._random.random() < 0.3:
            queue = replace(queue, max=queue.max.tightest(Limits(memory=self._little())))
        return queue

    def _limit(self) -> LimitSpec:
        users, groups = self._random.choice(ACCOUNTS)
        most = Limits(memory=self._little()) if self._random.random() < 0.8 else None
        return LimitSpec(users, groups, most, self._random.choice((0, 0, 2, 3)))

    def _little(self) -> int:
        return self._random.choice((40, 60, 80, 120))
