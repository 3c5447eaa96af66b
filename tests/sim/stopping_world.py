"""A world whose operators stop and start queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.specs import QueueSpec
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import Move, World


class StoppingWorld(World):
    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        return (*super().kinds(), (4, self._stop_or_start))

    def _stop_or_start(self, rm: ResourceManagerMemory) -> Move:
        """Starts rather more often than it stops, so that not all queues are stopped in the end."""
        file = self._random.choice(self._partitions[rm.rm_id])
        path = self._random.choice([*_paths(file.root, ""), "root.dynamic", "root.@recovery@"])
        queue = self._or_garbage(self._random.choice((path, path.upper())), "root.nosuch")
        name = self._or_garbage(self._random.choice((file.name, f"[{rm.rm_id}]{file.name}")), "nosuch")
        return SetQueueStopped(rm.rm_id, queue, self._random.random() < 0.4, name, by="ops")


def _paths(spec: QueueSpec, above: str) -> Iterator[str]:
    path = f"{above}{spec.name}"
    yield path
    for child in spec.children:
        yield from _paths(child, f"{path}.")
