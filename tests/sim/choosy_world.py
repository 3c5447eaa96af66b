"""The world with asks that are choosy about nodes and company, on nodes that change their attributes."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.commands import (
    AllocationAffinity,
    ExistingAllocation,
    Expression,
    NewAsk,
    NodeUpdate,
    Operator,
    PlacementConstraint,
)
from schedulerd.core.node_selector import NODE_SELECTOR_TAG
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import World

APPS = ("web", "db")
ZONES = ("east", "west")
SELECTORS = {
    "zone=east": (Expression("zone", Operator.IN, ("east",)),),
    "!zone": (Expression("zone", Operator.NOT_EXIST),),
    "fast,zone!=east": (Expression("fast", Operator.EXIST), Expression("zone", Operator.NOT_IN, ("east",))),
}
GARBAGE = PlacementConstraint(allocations=AllocationAffinity("", (), 2, 1))


class ChoosyWorld(World):
    """Only what is asked for, and what nodes are like, differs from the other."""

    def _node(self, rm: ResourceManagerMemory) -> NodeUpdate:
        node = super()._node(rm)
        if self._random.random() < 0.7:
            attributes = {**node.attributes, "zone": self._random.choice(ZONES), "fast": "yes"}
            for name in ("zone", "fast"):
                if self._random.random() < 0.2:
                    del attributes[name]
            node.attributes = attributes
        return node

    def _existing(self, rm: ResourceManagerMemory, partition: str, node_id: str) -> ExistingAllocation:
        return replace(super()._existing(rm, partition, node_id), tags={"app": self._random.choice(APPS)})

    def _new_ask(self, rm: ResourceManagerMemory) -> NewAsk:
        ask = super()._new_ask(rm)
        tags = {**ask.tags, "app": self._random.choice(APPS)}
        if self._random.random() < 0.15:
            tags[NODE_SELECTOR_TAG] = self._or_garbage(self._random.choice(tuple(SELECTORS)), "zone in east")
        return replace(ask, tags=tags, constraint=self._constraint() if self._random.random() < 0.6 else None)

    def _constraint(self) -> PlacementConstraint:
        node: tuple[Expression, ...] = ()
        if self._random.random() < 0.3:
            operator = self._random.choice((Operator.IN, Operator.NOT_IN))
            node = (Expression("zone", operator, (self._random.choice(ZONES),)),)
        if self._random.random() < 0.2:
            return PlacementConstraint(node)
        least, most = self._random.choice(((0, 1), (0, 2), (1, 0), (1, 3)))
        affinity = AllocationAffinity(
            self._random.choice(("zone", "si/hostname")),
            (Expression("app", Operator.IN, (self._random.choice(APPS),)),),
            least,
            most,
            required=self._random.random() < 0.7,
        )
        return self._or_garbage(PlacementConstraint(node, affinity), GARBAGE)
