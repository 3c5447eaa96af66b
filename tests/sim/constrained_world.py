"""The world with asks that are choosy about nodes and company, on nodes that change their attributes."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.commands import (
    AllocationAffinity,
    Expression,
    NewAsk,
    NodeUpdate,
    Operator,
    PlacementConstraint,
    UpdateAllocations,
    UpdateNodes,
)
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG
from tests.sim.world import Move, World

APPS = ("web", "db")
ZONES = ("east", "west")
SELECTORS = {
    "zone=east": (Expression("zone", Operator.IN, ("east",)),),
    "!zone": (Expression("zone", Operator.NOT_EXIST),),
    "fast,zone!=east": (Expression("fast", Operator.EXIST), Expression("zone", Operator.NOT_IN, ("east",))),
}
GARBAGE = PlacementConstraint(allocations=AllocationAffinity("", (), 2, 1))


class ConstrainedWorld(World):
    """Only what is asked for, and what nodes are like, differs from the other."""

    def next_move(self) -> Move:
        move = super().next_move()
        match move:
            case UpdateAllocations():
                move.asks = [self._choosy(ask) for ask in move.asks]
            case UpdateNodes():
                for node in move.nodes:
                    self._furnish(node)
        return move

    def _furnish(self, node: NodeUpdate) -> None:
        node.existing = [replace(one, tags={"app": self._random.choice(APPS)}) for one in node.existing]
        if self._random.random() < 0.7:
            attributes = {**node.attributes, "zone": self._random.choice(ZONES), "fast": "yes"}
            for name in ("zone", "fast"):
                if self._random.random() < 0.2:
                    del attributes[name]
            node.attributes = attributes

    def _choosy(self, ask: NewAsk) -> NewAsk:
        tags = {**ask.tags, "app": self._random.choice(APPS)}
        if self._random.random() < 0.15:
            tags[NODE_SELECTOR_TAG] = self._or_garbage(self._random.choice(tuple(SELECTORS)), "zone in east")
        share = 0.15 if ask.placeholder else 0.6  # or hardly any gang would be complete
        return replace(ask, tags=tags, constraint=self._constraint() if self._random.random() < share else None)

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
