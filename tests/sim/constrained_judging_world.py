"""The worlds with resource managers that have a say in where asks run that are choosy themselves.

What was true when a resource manager was asked need not be when it answers: nodes it was asked about change what they
are like, and company comes and goes while it thinks.
"""

from __future__ import annotations

from collections.abc import Callable

from schedulerd.core.language.commands import GivePredicateResults, NodeAction, NodeUpdate, PredicateResult, UpdateNodes
from tests.sim.constrained_world import ZONES, ConstrainedWorld
from tests.sim.judging_world import JudgingContestedWorld, JudgingGangWorld, JudgingWorld
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import Move

EXPECTED = (
    "agreed to where it may not run any longer",
    "call to preempt",
    "call to reserve room",
    "called back",
    "placed in company",
    "set aside after refusals",
    "result timed_out",
)


class ConstrainedJudgingWorld(ConstrainedWorld, JudgingWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._late: list[Move] = []
        """The answer to a call whose node is not what it was any longer; goes first."""

    def next_move(self) -> Move:
        return self._late.pop() if self._late else super().next_move()

    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        return (*super().kinds(), (6.0, self._move_what_it_is_asked_about))

    def _move_what_it_is_asked_about(self, rm: ResourceManagerMemory) -> Move:
        """The node of an open call comes into a zone, perhaps another one than before, and then there is a yes."""
        calls = list(self.calls[rm.rm_id].open.values())
        if not calls:
            return self._update_nodes(rm)
        one = self._random.choice(calls)
        self._late.append(GivePredicateResults(rm.rm_id, [PredicateResult(one.call_id)]))
        zone = {"zone": self._random.choice(ZONES)}
        return UpdateNodes(rm.rm_id, [NodeUpdate(one.node_id, NodeAction.UPDATE, one.partition, attributes=zone)])


class ConstrainedJudgingGangWorld(ConstrainedJudgingWorld, JudgingGangWorld):
    pass


class ConstrainedJudgingContestedWorld(ConstrainedJudgingWorld, JudgingContestedWorld):
    pass


WORLDS = (ConstrainedJudgingWorld, ConstrainedJudgingGangWorld, ConstrainedJudgingContestedWorld)
