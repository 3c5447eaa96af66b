"""Who would have to end for an ask, on which node; what it has a right to is said by its `PreemptionContext`.

The victims run on the node that the ask gets; if it is a max on its way that lacks room, and not the node, they run
anywhere below that queue.

A search goes through many nodes, so it runs in slices: it only reads, and what it found is judged again before use.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from itertools import count
from operator import itemgetter
from typing import NamedTuple

from schedulerd.core.decide.node_candidates import NodeCandidates, portions
from schedulerd.core.decide.own_room import fits_beside_own
from schedulerd.core.decide.preemption_context import PreemptionContext
from schedulerd.core.decide.victims import (
    Candidate,
    Cost,
    Rank,
    VictimSet,
    WorkBudget,
    beside,
    candidate,
    may_end,
    smallest_set,
    unit_weights,
)
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import Agreement, PredicateCheck
from schedulerd.core.model.queue import Queue
from schedulerd.core.preemption_facts import PreemptionRefusal
from schedulerd.core.resources import Items, Resources
from schedulerd.core.specs import PreemptionPolicy

NODES_SEARCHED_MAX = 64
"""How many nodes are searched exactly, the most promising, once there is one on which it can be done."""


FURTHER_MAX = 100
"""How many victims are offered to the resource manager beside those that are needed."""

ANYWHERE_MAX = 500
"""How many candidates there are at most where the node does not matter: those that are protected least."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Who is to end on which node, for whom, and why; a plan, nothing has changed."""

    application: Application
    ask: Ask
    node: Node
    victims: tuple[Allocation, ...]
    """None at all if enough of the node is about to be free anyway, or is only kept for asks without a right."""
    why: str
    is_for_quota: bool = False
    """Whether a max on the way of the ask lacks room too, for which all of them have to go."""
    further: tuple[Allocation, ...] = ()
    """Who else on the node might be ended after them, in order, if the resource manager says that it needs that."""

    def up_to(self, index: int) -> tuple[Allocation, ...]:
        """The victims up to this one of them, if there is room for the ask when these have gone; else all of them."""
        if self.is_for_quota:
            return self.victims
        fewer = self.victims[: index + 1]
        short = shortage(self.ask.request_class.items, self.node, self.node.entitled_reserved)
        for one in fewer:
            if one.node is self.node:
                short.subtract(one.request_class.items)
        is_enough = all(one.node is self.node for one in self.victims) and all(left <= 0 for left in short.values())
        return fewer if is_enough else self.victims


class _Found(NamedTuple):
    """The best set of victims so far, and its node; of two the lesser is the better."""

    cost: Cost
    size: int
    score: float
    node_id: str
    node: Node
    victims: tuple[Allocation, ...]


class Search:
    """Looks for the node on which room for an ask costs least."""

    def __init__(
        self,
        application: Application,
        group: AskGroup,
        ask: Ask,
        budget: WorkBudget | None = None,
        *,
        attempt: int = 1,
        barred: Mapping[Node, str] | None = None,
    ) -> None:
        self.application = application
        self.partition: Partition = application.partition
        self.queue: Queue = application.queue
        self.ask = ask
        self.spec = ask.spec
        """What the ask was like when the search began; an update is another one."""
        self.moves = self.partition.moves
        """How often something had moved when it began: what it found out may be otherwise once more has."""
        self.group = group
        self.attempt = attempt
        """How often it was searched for, as what is found may not hold any longer when the search is done."""
        self.barred: dict[Node, str] = dict(barred or {})
        """Nodes on which the resource manager would not have the ask even then, with the reason."""
        self.predicate_check: PredicateCheck | None = None
        """What it is asked about what was found."""
        self.agreed: tuple[Node, Agreement] | None = None
        self.budget = budget or WorkBudget()
        self._claim = PreemptionContext(application, group, ask, self.budget)
        self._found: _Found | None = None
        self._anywhere: VictimSet | None = None
        """The victims if a node does not lack room, but a max does: the same for every such node."""
        self.refusal = self._claim.refusal()
        self.limit = self._claim.limit
        """Which quota or limit does not let it in, if that is the refusal."""
        self._steps = self._compare()
        if self.refusal is not None:
            self.end()

    def end(self) -> None:
        """The search is not continued. An unfinished one refers to itself; that would keep it in memory."""
        self._steps.close()

    def run(self, visits_max: int) -> bool:
        """Goes on for about so many visits; True when there is nothing left to look at."""
        if self.refusal is not None:
            return True
        end = self.budget.visits + visits_max
        for _ in self._steps:
            if self.budget.visits >= end:
                return False
        if self._found is None:
            self.refusal = PreemptionRefusal.NO_NODE
        return True

    def decision(self) -> Decision | None:
        """What was found, judged by the state as it is now; None if nothing was, or if it does not hold any longer."""
        if self._found is None:
            return None
        node = self._found.node
        self._claim = PreemptionContext(self.application, self.group, self.ask, self.budget)
        if self._claim.refusal() is not None or self.partition.nodes.get(node.node_id) is not node:
            return None
        if self._claim.lacking:
            self._anywhere = self._claim.victims_among(self._found.victims)
        found = self._victims_on(node)
        if found is None:
            return None
        why = self._claim.why(self._with_quota(self._short(node)))
        is_for_quota = bool(self._claim.lacking)
        further: tuple[Allocation, ...] = ()
        if found.victims and self.partition.callbacks.preemption_predicates:
            further = self._beside(node, found.victims, reversed(node.allocations.values()))
        return Decision(self.application, self.ask, node, found.victims, why, is_for_quota, further)

    def may_end_too(self, decision: Decision, chosen: tuple[Allocation, ...]) -> bool:
        """Whether these may end beside the victims of a decision that was just made."""
        self._claim = PreemptionContext(self.application, self.group, self.ask, self.budget)
        there = [one for one in chosen if decision.node.allocations.get(one.uuid) is one]
        return self._beside(decision.node, decision.victims, there) == chosen

    def _beside(
        self, node: Node, victims: tuple[Allocation, ...], others: Iterable[Allocation]
    ) -> tuple[Allocation, ...]:
        need = self._with_quota(self._short(node))
        everybody = dict.fromkeys((*victims, *others))
        return beside(self._claim.may_end(everybody, need), victims, FURTHER_MAX)

    def _compare(self) -> Generator[None, None, None]:
        """Interrupted now and then; what is found last is the best."""
        node_candidates = NodeCandidates(self._claim.unit, self.budget)
        if self._claim.lacking:
            yield from self._look_anywhere()
        if (yield from self._look_for_room(node_candidates)):
            return
        yield from self._gather(node_candidates)
        looks = 0
        for prospect in node_candidates.in_order():
            if prospect is not None:
                cost, node = prospect
                if looks >= NODES_SEARCHED_MAX or self._beats(cost, 1, node):
                    return
                fewest = node_candidates.fewest(prospect)
                if fewest and not self._beats(cost, fewest, node):
                    self._look_at(node, cost[0][0])
                    looks += self._found is not None
            yield

    def _look_anywhere(self) -> Iterator[None]:
        """Finds whom to end if it is a max alone that lacks room."""
        serial = count()
        found: list[tuple[Rank, int, Allocation]] = []
        for leaf in list(self._claim.victim_leaves()):
            for application in reversed(list(leaf.applications.values())):
                for portion in portions(reversed(application.allocations.values())):
                    candidates = self._claim.may_end(portion, self._claim.lacking)
                    found.extend((one.rank, next(serial), one.allocation) for one in candidates)
                    if len(found) > 2 * ANYWHERE_MAX:
                        found = nsmallest(ANYWHERE_MAX, found)
                    yield
        youngest_first = sorted(nsmallest(ANYWHERE_MAX, found), key=itemgetter(1))
        self._anywhere = self._claim.victims_among(one for _, _, one in youngest_first)

    def _look_for_room(self, node_candidates: NodeCandidates) -> Generator[None, None, bool]:
        """Finds the first node that will have room without anybody else ending there; else what each of them needs."""
        for portion in portions(self.partition.candidates(self.ask.request_class)):
            self.budget.visits += len(portion)
            for node in portion:
                short = self._short(node)
                if not short:
                    self._look_at(node)
                    if self._found is not None:
                        return True
                elif short.keys() <= self._claim.claimable:
                    node_candidates.consider(node, self._with_quota(short))
            yield
        return False

    def _gather(self, node_candidates: NodeCandidates) -> Iterator[None]:
        """In which leaves anything may be ended for the ask as far as queues and priorities go, and of what ranks."""
        for leaf in list(self._claim.victim_leaves()):
            side = self._claim.victim_queue(leaf)
            assert side is not None
            for application in list(leaf.applications.values()):
                for portion in portions(application.allocations.values()):
                    node_candidates.add(leaf, portion, side.admits)
                    yield

    def _beats(self, cost: Cost, size: int, node: Node) -> bool:
        """Whether nothing on the node could be better than what was found, if it is at best so."""
        return self._found is not None and self._found[:4] < (cost, size, node.score, node.node_id)

    def _look_at(self, node: Node, up_to: Rank | None = None) -> None:
        found = self._victims_on(node, up_to) if self.partition.nodes.get(node.node_id) is node else None
        if found is not None:
            here = _Found(found.cost, len(found.victims), node.score, node.node_id, node, found.victims)
            if self._found is None or here < self._found:
                self._found = here

    def _victims_on(self, node: Node, up_to: Rank | None = None) -> VictimSet | None:
        """The best set there, if one may be taken; of no higher rank than `up_to`, if that is given."""
        self.budget.visits += 1
        kept = self.ask.reservations.get(node)
        if node in self.barred or not node.ordered or (kept is not None and kept.is_entitled):
            return None
        short = self._short(node)
        if self._claim.lacking and not short:
            found = self._anywhere
        else:
            need = self._with_quota(short)
            candidates = self._claim.may_end(reversed(node.allocations.values()), need)
            if up_to is not None:
                candidates = (one for one in candidates if one.rank <= up_to)
            found = smallest_set(candidates, need, self._claim.unit, self.budget)
        if found is None or self.partition.objection_without(self.ask.request_class, node, found.victims) is not None:
            return None
        if node.leaving and not fits_beside_own(self.application, self.ask.request_class, node):
            return None  # what goes there is its own: no room can be kept before it is gone (SEMANTICS I9)
        return None if self._was_refused(node, found) else found

    def _was_refused(self, node: Node, found: VictimSet) -> bool:
        """Whether the resource manager refused the node as it is, and is not asked about it without the victims."""
        predicate_history = self.ask.predicate_history
        if predicate_history is None or not predicate_history.bars(node):
            return False
        return not found.victims or not self.partition.callbacks.preemption_predicates

    def _with_quota(self, short: Resources) -> Resources:
        """What has to come free on a node that is short of so much."""
        for name, amount in self._claim.lacking.items():
            short[name] = max(short[name], amount)
        return short

    def _short(self, node: Node) -> Resources:
        return shortage(self.ask.request_class.items, node, node.entitled_reserved)


def shortage(items: Items, node: Node, kept: Resources) -> Resources:
    """What a node lacks for so much when all that was asked to go has gone. `kept` is what others have before it."""
    room = node.available
    if node.leaving or kept:
        room = room.plus(node.leaving).minus(kept)
    get = room.get
    return Resources({name: amount - get(name, 0) for name, amount in items if amount > get(name, 0)})


def victims_for_required_node(
    application: Application, ask: Ask, node: Node, kept: Resources, budget: WorkBudget
) -> VictimSet | None:
    """Who has to end so that the ask fits on the only node it may run on; guarantees do not protect from that.

    `kept` is what others on the node have a right to before it.
    """
    budget.visits += len(node.allocations)
    unit = unit_weights(node.capacity)
    candidates = _for_required_node(application, ask, node, unit)
    found = smallest_set(candidates, shortage(ask.request_class.items, node, kept), unit, budget)
    if found is None or application.partition.objection_without(ask.request_class, node, found.victims) is not None:
        return None
    return found


def further_for_required_node(
    application: Application, ask: Ask, node: Node, victims: tuple[Allocation, ...]
) -> tuple[Allocation, ...]:
    """Who else might be ended there after these, in order."""
    unit = unit_weights(node.capacity)
    return beside(_for_required_node(application, ask, node, unit), victims, FURTHER_MAX)


def _for_required_node(application: Application, ask: Ask, node: Node, unit: Mapping[str, int]) -> Iterator[Candidate]:
    """Everybody who may be ended there for the ask, the youngest first."""
    for allocation in reversed(node.allocations.values()):
        other = allocation.application
        if other is application or not may_end(allocation):
            continue
        is_open = other.queue.properties.preemption_policy is not PreemptionPolicy.DISABLED
        if is_open and allocation.spec.priority <= ask.spec.priority:
            yield candidate(allocation, unit)
