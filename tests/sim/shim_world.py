"""What a Kubernetes shim does beside the rest of a resource manager: asks that it judges itself, and asks
with an age."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from schedulerd.core.language.ask_tags import NO_PREDICATES, PREDICATES_TAG, PREEMPTION_PREDICATES
from schedulerd.core.language.commands import (
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from tests.sim.gang_world import GangWorld
from tests.sim.judging_world import AnyJudgingWorld, JudgingContestedWorld
from tests.sim.rm_memory import ResourceManagerMemory, plain_name
from tests.sim.world import APPLICATIONS, KEYS, Move, World

BEGIN_NS = 1_700_000_000 * SECOND_NS
"""About when histories begin."""


class AnyShimWorld(World):
    """Its own chances are those of a generator of its own, so each world that it is mixed into does what it did."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._shim_random = Random(~seed)
        self._running_serial = 0
        self._submitted: dict[tuple[str, str, str], NewApplication] = {}
        """What was said last of each application, by resource manager and partition."""

    def next_move(self) -> Move:
        move = super().next_move()
        match move:
            case UpdateApplications():
                rm = self.memories[move.rm_id]
                move.new = [self._of_a_namespace(rm, one) for one in move.new]
            case UpdateAllocations():
                move.asks = [self._as_a_shim(ask) for ask in move.asks]
            case UpdateNodes():
                rm = self.memories[move.rm_id]
                for node in move.nodes:
                    if node.action is NodeAction.UPDATE and self._shim_random.random() < 0.6:
                        node.existing = [self._running(rm, node) for _ in range(self._shim_random.choice((1, 1, 2)))]
        return move

    def _running(self, rm: ResourceManagerMemory, node: NodeUpdate) -> ExistingAllocation:
        """A pod that runs there: one that the scheduler placed, there or elsewhere, perhaps under another UUID; or one
        that it knows as an ask, or not at all."""
        chance, self._running_serial = self._shim_random.random(), self._running_serial + 1
        uuid = f"running-{self._running_serial}"
        here = [one for (partition, _), one in rm.held.items() if partition == plain_name(node.partition)]
        if here and chance < 0.7:
            one = self._shim_random.choice(here)
            return ExistingAllocation(
                one.application_id,
                one.allocation_key,
                one.uuid if chance < 0.4 else uuid,
                one.resources if chance < 0.5 else Resources(memory=self._shim_random.randrange(1, 30)),
                priority=one.priority,
                task_group=one.task_group,
                placeholder=one.placeholder if chance < 0.68 else not one.placeholder,
            )
        resources = Resources(memory=self._shim_random.randrange(1, 30))
        return ExistingAllocation(
            self._shim_random.choice(APPLICATIONS), self._shim_random.choice(KEYS), uuid, resources
        )

    def _of_a_namespace(self, rm: ResourceManagerMemory, new: NewApplication) -> NewApplication:
        """Half of them say what their namespace has; now and then it is said anew of one that lives."""
        known = [key for key in self._submitted if key in {(rm.rm_id, *place) for place in rm.applications}]
        if known and self._shim_random.random() < 0.4:
            new = self._submitted[self._shim_random.choice(known)]
        tags = {name: text for name, text in new.tags.items() if not name.startswith("namespace.")}
        if self._shim_random.random() < 0.7:
            amount = self._shim_random.choice(("0", "10", "60", "lots"))
            tags["namespace.resourcequota"] = f'{{"resources": {{"memory": {{"value": {amount}}}}}}}'
        if self._shim_random.random() < 0.4:
            tags["namespace.resourceguaranteed"] = '{"resources": {"memory": {"value": 20}}}'
        if self._shim_random.random() < 0.4:
            tags["namespace.resourcemaxapps"] = self._shim_random.choice(("0", "1", "2"))
        if new.queue == "root.open" and self._shim_random.random() < 0.5:
            new = replace(new, queue=f"root.ns{self._shim_random.randrange(2)}")
        new = replace(new, tags=tags)
        self._submitted[rm.rm_id, plain_name(new.partition), new.application_id] = new
        return new

    def _as_a_shim(self, ask: NewAsk) -> NewAsk:
        tags = dict(ask.tags)
        if self._shim_random.random() < 0.5:
            chance = self._shim_random.random()
            tags[PREDICATES_TAG] = NO_PREDICATES if chance < 0.6 else PREEMPTION_PREDICATES if chance < 0.97 else "some"
        asked_at_ns = None
        if self._shim_random.random() < 0.3:
            asked_at_ns = BEGIN_NS + self._shim_random.choice((-3600, -1, 0, 60, 600, 3600)) * SECOND_NS
        return replace(ask, tags=tags, asked_at_ns=asked_at_ns)


class ShimWorld(AnyShimWorld, World):
    pass


class ShimGangWorld(AnyShimWorld, GangWorld):
    pass


class ShimJudgingWorld(AnyShimWorld, AnyJudgingWorld):
    pass


class ShimJudgingGangWorld(AnyShimWorld, AnyJudgingWorld, GangWorld):
    pass


class ShimJudgingContestedWorld(AnyShimWorld, JudgingContestedWorld):
    pass


WORLDS: tuple[type[World], ...] = (
    ShimWorld,
    ShimGangWorld,
    ShimJudgingWorld,
    ShimJudgingGangWorld,
    ShimJudgingContestedWorld,
)

EXPECTED = (
    *("placed without a call", "swap without a call", "allocation moved"),
    "quota of a namespace said anew",
    *("placeholder moved", "allocation resized", "pending ask found running", "allocation resized by an ask"),
)
