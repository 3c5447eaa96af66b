"""The contested world with several resource managers that have several partitions each, all of them on full nodes."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.specs import PartitionSpec
from tests.sim.contested import queue_file
from tests.sim.contested_world import ContestedWorld
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import Move

NAMES = {"rm-a": ("default", "spare"), "rm-b": ("default", "spare", "third"), "rm-c": ("default",)}
"""The partitions of each resource manager. They are called alike, so that what is mixed up shows."""


class CrowdedWorld(ContestedWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._partitions = {rm_id: self._files(rm_id) for rm_id in NAMES}
        self.memories = {rm_id: ResourceManagerMemory(rm_id) for rm_id in NAMES}

    def last_moves(self) -> list[Move]:
        self._script.clear()
        moves: list[Move] = []
        for rm in self.memories.values():
            moves += [self._contend(rm), *self._script]
            self._script.clear()
        return moves

    def _queue_file(self, rm: ResourceManagerMemory) -> tuple[PartitionSpec, ...]:
        """All partitions have other queues, or some of them do; now and then one goes, or is back."""
        names = [name for name in NAMES[rm.rm_id] if name == "default" or self._random.random() < 0.9]
        known = {spec.name: spec for spec in rm.partitions}
        self._in_force = self._files(rm.rm_id)
        return tuple(
            known[spec.name] if spec.name in known and self._random.random() < 0.3 else spec
            for spec in self._in_force
            if spec.name in names
        )

    def _files(self, rm_id: str) -> tuple[PartitionSpec, ...]:
        return tuple(replace(queue_file(self._random)[0], name=name) for name in NAMES[rm_id])
