"""What placement constraints promise, judged at every placement by the slow reference of the property tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from schedulerd.core.facts import Allocated, Fact, ResourceManagerChanged
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import NodeView, ResourceManagerView
from tests.property.naive_constraints import Estate, Machine
from tests.sim.choosy_world import SELECTORS

EXPECTED = (
    "ask rejected for its constraint",
    "node that moves to another group with allocations",
    "placed by a node selector",
    "placed in company",
    "placed where nodes are so",
    "too few of a kind together",
    "too many of a kind together",
    "wish not fulfilled",
)


class ConstraintLaw:
    """Judges the steps of one history in their order."""

    def __init__(self, scheduler: Scheduler, sights: Counter[str]) -> None:
        """Counts in `sights` what it comes across."""
        self._scheduler = scheduler
        self._sights = sights
        self._estates: dict[tuple[str, str], Estate] = {}

    def after(self, facts: Sequence[Fact], state: Iterable[ResourceManagerView]) -> list[str]:
        """Who was placed where it must not be, as sentences; `state` is the one after the step."""
        shown = {(rm.rm_id, partition.name): partition for rm in state for partition in rm.partitions}
        found: list[str] = []
        for fact in facts:
            if isinstance(fact, ResourceManagerChanged):
                self._changed(fact)
                continue
            name = getattr(fact, "rm_id", ""), getattr(fact, "partition", "")
            if name in shown:
                estate = self._estates.setdefault(name, Estate(selectors=SELECTORS))
                for node in shown[name].nodes:
                    estate.machines.setdefault(node.node_id, _machine(node))
                if isinstance(fact, Allocated) and not fact.recovered:
                    found += self._judged(estate, fact)
                estate.hear(fact)
            self._sights["ask rejected for its constraint"] += "placementConstraint." in getattr(fact, "reason", "")
        for name, partition in shown.items():
            estate = self._estates.setdefault(name, Estate(selectors=SELECTORS))
            machines = {node.node_id: _machine(node) for node in partition.nodes}
            moved = {one for one, new in machines.items() if estate.machines.get(one, new).seen != new.seen}
            busy = any(fact.node_id in moved for fact in estate.running.values())
            self._sights["node that moves to another group with allocations"] += busy
            estate.machines = machines
            for item in partition.applications:
                for ask in item.asks:
                    self._sights["too many of a kind together"] += "too many allocations" in ask.waiting_for
                    self._sights["too few of a kind together"] += "too few allocations" in ask.waiting_for
        return found

    def _changed(self, fact: ResourceManagerChanged) -> None:
        if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
            for name in [name for name in self._estates if name[0] == fact.rm_id]:
                del self._estates[name]

    def _judged(self, estate: Estate, fact: Allocated) -> list[str]:
        partition = self._scheduler.cluster.resource_managers[fact.rm_id].partitions[fact.partition]
        allocation = partition.allocations.get(fact.uuid)
        machine = estate.machines.get(fact.node_id)
        if allocation is None or machine is None:
            return []
        ask = allocation.spec
        if ask.constraint is not None:
            self._sights["placed where nodes are so"] += bool(ask.constraint.node)
            wish = ask.constraint.allocations
            if wish is not None:
                self._sights["placed in company"] += wish.required
                self._sights["wish not fulfilled"] += not wish.required and not estate.suits(wish, ask, machine)
        self._sights["placed by a node selector"] += any(text in ask.tags.values() for text in SELECTORS)
        if estate.allows(ask, machine):
            return []
        return [f"{fact.uuid} is placed on {machine}, which {ask.constraint} and {ask.tags} forbid"]


def _machine(node: NodeView) -> Machine:
    return Machine(node.node_id, Resources(node.capacity), dict(node.attributes), draining=not node.schedulable)
