"""What placement constraints promise, judged by the slow reference of the property tests.

Not only where asks are placed: also where it is asked whether they may be, where room is kept, and who goes for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.fact import Allocated, Fact, ReleaseCause, ReleaseRequested, ResourceManagerChanged
from schedulerd.core.language.facts.predicates import PredicateAnswered, PredicateOutcome, PredicateWanted
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.facts.reservations import Reserved
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.partition import Partition
from schedulerd.core.views.values import AskView, NodeView, PartitionView, ResourceManagerView
from tests.property.naive_constraints import Estate, Machine
from tests.sim.constrained_world import SELECTORS

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


class ConstraintInvariants:
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
        return found

    def allows(self, partition: PartitionView, ask: AskView, node: NodeView) -> bool:
        """Whether no constraint is against the ask on the node, after the last step."""
        model = self._scheduler.cluster.resource_managers[partition.rm_id].partitions[partition.name]
        estate = self._estates[partition.rm_id, partition.name]
        spec = model.applications[ask.application_id].asks[ask.allocation_key].spec
        return estate.allows(spec, estate.machines[node.node_id])

    def _changed(self, fact: ResourceManagerChanged) -> None:
        if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
            for name in [name for name in self._estates if name[0] == fact.rm_id]:
                del self._estates[name]

    def _judged(self, estate: Estate, fact: Fact) -> list[str]:
        """`estate` is as it was before the fact."""
        match fact:
            case Allocated(recovered=False):
                return self._placed(self._partition(fact), estate, fact)
            case ReleaseRequested(cause=ReleaseCause.REPLACED):
                return _given_up(self._partition(fact), estate, fact)
            case Reserved(entitled=False):
                return _wrong_for(self._asked(fact), estate, fact.node_id, "room is kept for it")
            case Preempted():
                ended = [uuid for _, uuid in fact.victims]
                return _wrong_for(self._asked(fact), _without(estate, *ended), fact.node_id, "others end for it")
            case PredicateWanted():
                return self._questioned(estate, fact)
            case PredicateAnswered(outcome=PredicateOutcome.AGREED):
                is_late = _wrong_for(self._asked(fact), estate, fact.node_id, "the answer is too late")
                self._sights["agreed to where it may not run any longer"] += bool(is_late)
        return []

    def _questioned(self, estate: Estate, fact: PredicateWanted) -> list[str]:
        predicate_check = self._partition(fact).callbacks.open_predicate_checks.get(fact.call_id)
        if predicate_check is None:
            return []
        gone = [predicate_check.placeholder.uuid] if predicate_check.placeholder is not None else []
        return _wrong_for(predicate_check.ask.spec, _without(estate, *gone), fact.node_id, "it is asked whether it may")

    def _partition(
        self, fact: Allocated | ReleaseRequested | Reserved | Preempted | PredicateWanted | PredicateAnswered
    ) -> Partition:
        return self._scheduler.cluster.resource_managers[fact.rm_id].partitions[fact.partition]

    def _asked(self, fact: Reserved | Preempted | PredicateAnswered) -> NewAsk | None:
        """What is asked for now; None if that is over with the step."""
        application = self._partition(fact).applications.get(fact.application_id)
        ask = application.asks.get(fact.allocation_key) if application is not None else None
        return ask.spec if ask is not None else None

    def _placed(self, partition: Partition, estate: Estate, fact: Allocated) -> list[str]:
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


def _given_up(partition: Partition, estate: Estate, fact: ReleaseRequested) -> list[str]:
    """A placeholder goes for an ask that may run where it is, or somewhere else with room."""
    placeholder = partition.allocations.get(fact.uuid)
    if placeholder is None or placeholder.swap is None:
        return []
    ask, here = placeholder.swap.spec, estate.machines[fact.node_id]
    if _without(estate, fact.uuid).allows(ask, here) or any(estate.may(ask, one) for one in estate.machines.values()):
        return []
    return [f"{fact.uuid} is given up for {ask.allocation_key}, which {ask.constraint} and {ask.tags} forbid on {here}"]


def _wrong_for(ask: NewAsk | None, estate: Estate, node_id: str, what: str) -> list[str]:
    if ask is None or estate.allows(ask, estate.machines[node_id]):
        return []
    return [f"{ask.application_id}|{ask.allocation_key} may not run on {estate.machines[node_id]}, and {what}"]


def _without(estate: Estate, *uuids: str) -> Estate:
    return replace(estate, running={uuid: one for uuid, one in estate.running.items() if uuid not in uuids})


def _machine(node: NodeView) -> Machine:
    return Machine(node.node_id, Resources(node.capacity), dict(node.attributes), draining=not node.schedulable)
