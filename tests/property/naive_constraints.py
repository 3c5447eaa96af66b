"""Placement constraints the slow way: every rule is read off the nodes and allocations that facts and moves tell of.

It shares nothing with the scheduler but the words of commands and facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedulerd.core.language.commands import AllocationAffinity, Expression, NewAsk, Operator
from schedulerd.core.language.facts.fact import Allocated, AllocationChanged, Fact, Released
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnded
from schedulerd.core.language.resources import Resources
from tests.reference.changes import changed

HOST = "si/hostname"
SELECTOR = "schedulerd.io/node-selector"
REQUIRED_NODE = "yunikorn.apache.org/requiredNode"


def holds(one: Expression, values: Mapping[str, str]) -> bool:
    is_there = one.key in values
    is_listed = is_there and values[one.key] in one.values
    return {
        Operator.IN: is_listed,
        Operator.NOT_IN: not is_listed,
        Operator.EXIST: is_there,
        Operator.NOT_EXIST: not is_there,
    }[one.operator]


def all_hold(expressions: tuple[Expression, ...], values: Mapping[str, str]) -> bool:
    return all(holds(one, values) for one in expressions)


@dataclass
class Machine:
    """A node as the resource manager knows it."""

    node_id: str
    capacity: Resources
    attributes: dict[str, str]
    draining: bool = False

    @property
    def seen(self) -> dict[str, str]:
        """Its attributes as constraints see them."""
        return {HOST: self.node_id, **self.attributes}

    @property
    def ready(self) -> bool:
        return self.attributes.get("ready") != "false"


@dataclass
class Estate:
    """All nodes, what runs on them and what is kept there."""

    machines: dict[str, Machine] = field(default_factory=dict)
    running: dict[str, Allocated | AllocationUnclaimed] = field(default_factory=dict)
    """Unclaimed allocations too: their pods run there."""
    kept: dict[tuple[str, str, str, int], Resources] = field(default_factory=dict)
    """By application, ask, node and number."""
    selectors: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    """What the selectors in tags mean."""

    def hear(self, fact: Fact) -> None:
        match fact:
            case Allocated() | AllocationUnclaimed():
                self.running[fact.uuid] = fact
            case AllocationChanged():
                before = self.running.pop(fact.old_uuid)
                assert isinstance(before, Allocated)
                self.running[fact.uuid] = changed(before, fact)
            case Released() | UnclaimedEnded():
                self.running.pop(fact.uuid, None)
            case Reserved():
                self.kept[fact.application_id, fact.allocation_key, fact.node_id, fact.number] = fact.resources
            case ReservationEnded():
                del self.kept[fact.application_id, fact.allocation_key, fact.node_id, fact.number]

    def free(self, machine: Machine) -> Resources:
        free = Resources(machine.capacity)
        for one in self.running.values():
            if one.node_id == machine.node_id:
                free.subtract(one.resources.items())
        return free

    def has_room(self, ask: NewAsk, machine: Machine, *, kept: bool = True) -> bool:
        """`kept`: what is kept for others is not free."""
        free = self.free(machine)
        if kept:
            for (_, _, node_id, _), resources in self.kept.items():
                if node_id == machine.node_id:
                    free.subtract(resources.items())
        return all(free[name] >= amount for name, amount in ask.resources.items() if amount)

    def is_open(self, ask: NewAsk, machine: Machine) -> bool:
        required = ask.tags.get(REQUIRED_NODE, "")
        if required:
            return machine.node_id == required and machine.ready
        return machine.ready and not machine.draining

    def allows(self, ask: NewAsk, machine: Machine) -> bool:
        """Whether nothing that is required forbids it."""
        demanded = self.selectors.get(ask.tags.get(SELECTOR, ""), ())
        if ask.constraint is not None:
            demanded += ask.constraint.node
        affinity = ask.constraint.allocations if ask.constraint is not None else None
        if not all_hold(demanded, machine.seen):
            return False
        return affinity is None or not affinity.required or self.suits(affinity, ask, machine)

    def suits(self, affinity: AllocationAffinity, ask: NewAsk, machine: Machine) -> bool:
        """Whether as many as wanted would be together, with the ask placed there."""
        group = machine.seen.get(affinity.scope)
        if group is None:
            return False
        together = [
            one
            for one in self.running.values()
            if self.machines[one.node_id].seen.get(affinity.scope) == group and all_hold(affinity.expressions, one.tags)
        ]
        count = len(together) + all_hold(affinity.expressions, ask.tags)
        return affinity.min_cardinality <= count <= (affinity.max_cardinality or count)

    def may(self, ask: NewAsk, machine: Machine, *, kept: bool = True) -> bool:
        return self.is_open(ask, machine) and self.has_room(ask, machine, kept=kept) and self.allows(ask, machine)
