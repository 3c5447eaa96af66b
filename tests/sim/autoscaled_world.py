"""Worlds of gangs that declare their task groups, in clusters that an autoscaler grows and shrinks."""

from __future__ import annotations

from collections.abc import Callable

from schedulerd.core.language.commands import ConnectCallbacks, UpdateNodes
from schedulerd.core.language.specs import SECOND_NS
from tests.sim.autoscaler import Autoscaler
from tests.sim.declared_world import DeclaredGangWorld
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import Move, Sleep

DELAY_NS = 90 * SECOND_NS
"""Longest time until a node is there."""


class AutoscaledGangWorld(DeclaredGangWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.autoscalers = {rm_id: Autoscaler(rm_id) for rm_id in self.memories}

    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        return (*super().kinds(), (2, self._open_stream), (8, self._autoscale))

    def _tags(self) -> dict[str, str]:
        """No ask has a node of its own, which an autoscaler cannot add."""
        return {"simulated": "yes"}

    def _open_stream(self, rm: ResourceManagerMemory) -> Move:
        return ConnectCallbacks(rm.rm_id, scheduling_states=True, pending_reasons=self._random.random() < 0.5)

    def _autoscale(self, rm: ResourceManagerMemory) -> Move:
        """Nodes that it adds come after a while, nodes that are empty go at once; then the cluster is as it was before,
        but for the gangs that it was too small for."""
        autoscaler = self.autoscalers[rm.rm_id]
        added = list(autoscaler.look())
        if added:
            self._script.append(UpdateNodes(rm.rm_id, added))
            return Sleep(self._random.randrange(DELAY_NS))
        return UpdateNodes(rm.rm_id, list(autoscaler.empty(rm)))
