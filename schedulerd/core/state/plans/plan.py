"""Plans as values that refer to asks, nodes and allocations. Making a plan changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node


@dataclass(frozen=True, slots=True)
class PlannedAllocation:
    """One pending allocation of the ask, to be made on the node."""

    application: Application
    ask: Ask
    node: Node


@dataclass(frozen=True, slots=True)
class PlannedReservation:
    """Room of the node for one pending allocation of the ask, without victims."""

    application: Application
    ask: Ask
    node: Node
    is_entitled: bool


@dataclass(frozen=True, slots=True)
class PlannedPreemption:
    """An entitled reservation of the ask on the node, and the victims to release for it."""

    application: Application
    ask: Ask
    node: Node
    victims: tuple[Allocation, ...]
    """Empty if pending releases or aging reservations free enough."""
    why: str
    """What the ask is entitled to, as a sentence."""
    is_for_quota: bool = False
    """Whether a max on the path of the ask lacks room too; then all victims must go."""
    further: tuple[Allocation, ...] = ()
    """Other allocations on the node that may be preempted after the victims, in order, if the RM says that the ask
    needs it."""

    def up_to(self, index: int) -> tuple[Allocation, ...]:
        """The victims up to this index, if they free enough room for the ask; else all victims."""
        if self.is_for_quota:
            return self.victims
        fewer = self.victims[: index + 1]
        short = self.node.shortage(self.ask.request_class.items, self.node.entitled_reserved)
        for one in fewer:
            if one.node is self.node:
                short.subtract(one.request_class.items)
        is_enough = all(one.node is self.node for one in self.victims) and all(left <= 0 for left in short.values())
        return fewer if is_enough else self.victims


@dataclass(frozen=True, slots=True)
class Plan:
    """What is committed together, in this order: room is reserved and made before anything else is allocated."""

    preemptions: tuple[PlannedPreemption, ...] = ()
    reservations: tuple[PlannedReservation, ...] = ()
    allocations: tuple[PlannedAllocation, ...] = ()
