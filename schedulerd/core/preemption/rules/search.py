"""The search for the victims of an ask and their node. A `PreemptionContext` says what the ask is entitled to.

The victims run on the node that the ask will get. If only a max on the path lacks room and not the node, they may run
anywhere below the queue with that max. The search visits many nodes, so it runs in slices. It only reads, and its
result is judged again before it is used.

For a gang that gathers there is a search for each slot without room, one after the other, while what was found for the
slots before it is assumed (`plans.assuming`). So each is judged with all that the gang gets up to it, and if one finds
nothing, nothing is preempted for any. `whole_gang.py` puts the results together.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import count, islice
from operator import itemgetter
from typing import NamedTuple

from schedulerd.core.language.ask_tags import victims_have_lower_priority
from schedulerd.core.language.facts.preemption import PreemptionRefusal
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PreemptionPolicy
from schedulerd.core.preemption.rules import protection
from schedulerd.core.preemption.rules.node_candidates import NodeCandidates, portions
from schedulerd.core.preemption.rules.preemption_context import PreemptionContext
from schedulerd.core.preemption.rules.victims import (
    Candidate,
    Cost,
    Rank,
    VictimSet,
    beside,
    candidate,
    smallest_set,
    unit_weights,
)
from schedulerd.core.state.model.allocation import Allocation, Ask, may_be_preempted
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck, VictimsAnswer
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.work_budget import WorkBudget
from schedulerd.core.state.nodes.own_room import fits_beside_own
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.plans.plan import Plan, PlannedPreemption

NODES_SEARCHED_MAX = 64
"""Maximum number of nodes that are searched exactly after the first with a victim set, in the order of lowest possible
cost."""


FURTHER_MAX = 100
"""Maximum number of further candidates that are offered to the RM beside the victims."""

QUOTA_CANDIDATES_MAX = 500
"""Maximum number of candidates where the node does not matter: the least protected ones."""


class _Found(NamedTuple):
    """The best victim set so far, with its node. The smaller tuple is the better one."""

    cost: Cost
    size: int
    score: float
    node_id: str
    node: Node
    victims: tuple[Allocation, ...]


class Search:
    """The search for the node on which room for the ask has the lowest cost."""

    def __init__(
        self,
        partition: Partition,
        application: Application,
        group: AskGroup,
        ask: Ask,
        budget: WorkBudget | None = None,
        *,
        attempt: int = 1,
        barred: Mapping[Node, str] | None = None,
        planned_before: tuple[PlannedPreemption, ...] = (),
        follows: Search | None = None,
    ) -> None:
        """`planned_before` is what the search that it `follows` and those before that have found for other slots of the
        gang; it must be assumed."""
        self.application = application
        self.partition = partition
        self.queue: Queue = application.queue
        self.ask = ask
        self.spec = ask.spec
        """The spec of the ask when the search began. An update of the ask makes another one."""
        self.moves = self.partition.moves
        """The value of `Partition.moves` when the search began. A result may be out of date once that is higher."""
        self.group = group
        self.attempt = attempt
        """Which attempt this is: a result can be out of date at the end of a search, and is then searched for again."""
        self.barred: dict[Node, str] = dict(barred or {})
        """Nodes that the RM refused for the ask even without the victims, with the reason."""
        self.predicate_check: PredicateCheck | None = None
        """The open predicate check of the victims found."""
        self.agreed: tuple[Node, VictimsAnswer] | None = None
        self.planned_before = planned_before
        self.budget = budget or WorkBudget()
        self._preemption_context = PreemptionContext(partition, application, group, ask, self.budget)
        self._node_candidates = NodeCandidates(partition.spec, self._preemption_context.unit, self.budget)
        self._changed: list[Node] | None = None
        """The nodes that changed since the search that it follows has looked at all nodes for an equal ask; None if
        there is no such search."""
        if follows is not None and follows.ask.spec.priority == ask.spec.priority:
            self._node_candidates.share(follows._node_candidates)
            self._take_needs(follows)
        self._has_seen_all_nodes = False
        self._found: _Found | None = None
        self._anywhere: VictimSet | None = None
        """The victims if only a max lacks room, and no node does: the same for each such node."""
        self.refusal = self._preemption_context.refusal()
        self.limit = self._preemption_context.limit
        """The quota or limit that keeps the ask out, if that is the refusal."""
        self._steps = self._compare()
        if self.refusal is not None:
            self.end()

    def _take_needs(self, follows: Search) -> None:
        is_equal = follows.ask.request_class is self.ask.request_class and follows._has_seen_all_nodes
        if is_equal and follows.moves == self.moves:
            last = self.planned_before[-1]
            changed = dict.fromkeys((last.node, *(victim.node for victim in last.victims)))
            self._changed = [node for node in changed if node.ordered]
            self._node_candidates.take_needs(follows._node_candidates, changed)

    def end(self) -> None:
        """Stops the search. An unfinished search refers to itself, which would keep it in memory."""
        self._steps.close()

    def run(self, visits_max: int) -> bool:
        """Continues for about `visits_max` visits. True when the search is complete."""
        if self.refusal is not None:
            return True
        end = self.budget.visits + visits_max
        for _ in self._steps:
            if self.budget.visits >= end:
                return False
        if self._found is None:
            self.refusal = PreemptionRefusal.NO_NODE
        return True

    def is_on(self, planned: PlannedPreemption) -> None:
        """The result is to be on the node of this plan, which was found before: `plan` judges it again."""
        self.end()
        node = planned.node
        self._found = _Found((), 0, node.score, node.node_id, node, planned.victims)

    def plan(self) -> Plan | None:
        """The preemption that was found, judged again with the current state; None if there is none or it no longer
        holds."""
        if self._found is None:
            return None
        node = self._found.node
        self._preemption_context = PreemptionContext(
            self.partition, self.application, self.group, self.ask, self.budget
        )
        if self._preemption_context.refusal() is not None or self.partition.nodes.get(node.node_id) is not node:
            return None
        if self._preemption_context.lacking:
            self._anywhere = self._preemption_context.victims_among(self._found.victims)
        found = self._victims_on(node)
        if found is None:
            return None
        why = self._preemption_context.why(self._with_quota(self._short(node)), found.victims)
        is_for_quota = bool(self._preemption_context.lacking)
        further: tuple[Allocation, ...] = ()
        if found.victims and self.partition.wants_preemption_predicates(self.ask.request_class):
            further = self._beside(node, found.victims, reversed(node.allocations.values()))
        preemption = PlannedPreemption(self.application, self.ask, node, found.victims, why, is_for_quota, further)
        return Plan(preemptions=(preemption,))

    def protections(self) -> list[str]:
        """The guarantees that keep allocations of others where room for the ask is short, as sentences."""
        if self.refusal is PreemptionRefusal.NO_VICTIMS:
            return protection.of_queues(self._preemption_context)
        context = PreemptionContext(self.partition, self.application, self.group, self.ask, self.budget)
        nodes = islice(self.partition.candidates(self.ask.request_class), protection.NODES_SEEN_MAX)
        needs = ((node, self._with_quota(self._short(node))) for node in nodes)
        return protection.on_nodes(context, needs)

    def may_preempt_further(self, planned: PlannedPreemption, chosen: tuple[Allocation, ...]) -> bool:
        """Whether the `chosen` allocations may be preempted beside the victims of a plan that was just made."""
        self._preemption_context = PreemptionContext(
            self.partition, self.application, self.group, self.ask, self.budget
        )
        there = [one for one in chosen if planned.node.allocations.get(one.uuid) is one]
        return self._beside(planned.node, planned.victims, there) == chosen

    def _beside(
        self, node: Node, victims: tuple[Allocation, ...], others: Iterable[Allocation]
    ) -> tuple[Allocation, ...]:
        need = self._with_quota(self._short(node))
        candidates = dict.fromkeys((*victims, *others))
        return beside(self._preemption_context.may_be_preempted(candidates, need, node), victims, FURTHER_MAX, need)

    def _compare(self) -> Generator[None, None, None]:
        """The steps of the search, with pauses. The result is the last one found."""
        node_candidates = self._node_candidates
        if self._preemption_context.lacking:
            yield from self._look_anywhere()
        if (yield from self._look_for_room(node_candidates)):
            return
        if not node_candidates.has_victims:
            yield from self._gather(node_candidates)
        looks = 0
        for node_candidate in node_candidates.in_order():
            if node_candidate is not None:
                cost, node = node_candidate
                if looks >= NODES_SEARCHED_MAX or self._is_good_enough(cost) or self._beats(cost, 1, node):
                    return
                fewest = node_candidates.fewest(node_candidate)
                if fewest and not self._beats(cost, fewest, node):
                    self._search_node(node, cost[0][0])
                    looks += self._found is not None
            yield

    def _look_anywhere(self) -> Iterator[None]:
        """Finds the victims if only a max lacks room."""
        serial = count()
        found: list[tuple[Rank, int, Allocation]] = []
        for leaf in list(self._preemption_context.victim_leaves()):
            for application in reversed(list(leaf.applications.values())):
                for portion in portions(reversed(application.allocations.values())):
                    candidates = self._preemption_context.may_be_preempted(portion, self._preemption_context.lacking)
                    found.extend((one.rank, next(serial), one.allocation) for one in candidates)
                    if len(found) > 2 * QUOTA_CANDIDATES_MAX:
                        found = nsmallest(QUOTA_CANDIDATES_MAX, found)
                    yield
        youngest_first = sorted(nsmallest(QUOTA_CANDIDATES_MAX, found), key=itemgetter(1))
        self._anywhere = self._preemption_context.victims_among(one for _, _, one in youngest_first)

    def _look_for_room(self, node_candidates: NodeCandidates) -> Generator[None, None, bool]:
        """Finds the first node that will have room without victims there; returns whether there is one. Otherwise notes
        what each node lacks."""
        nodes: Iterable[Node] = self.partition.candidates(self.ask.request_class)
        for portion in portions(nodes if self._changed is None else self._changed):
            self.budget.visits += len(portion)
            for node in portion:
                short = self._short(node)
                if not short:
                    self._search_node(node)
                    if self._found is not None or self._gets_room(node):
                        return True
                elif not self._preemption_context.entitled_to.isdisjoint(self._with_quota(short)):
                    node_candidates.consider(node, short)
            yield
        self._has_seen_all_nodes = True
        return False

    def _gets_room(self, node: Node) -> bool:
        """Whether an ask that has a right by its priority only gets room here without victims: what is about to be free
        and is reserved for nobody else."""
        context = self._preemption_context
        if context.has_guarantee or context.lacking or not self._may_take(node):
            return False
        own = self.ask.aging_on(node)
        reserved = node.reserved.minus(dict(own.items)) if own is not None else node.reserved
        if node.shortage(self.ask.request_class.items, reserved):
            return False
        return self.partition.objection_without(self.ask.request_class, node, ()) is None and self._fits_beside(node)

    def _may_take(self, node: Node) -> bool:
        is_open = node not in self.barred and node.ordered and node.is_reservable
        return is_open and (not self.planned_before or self._admits_one_more(node))

    def _admits_one_more(self, node: Node) -> bool:
        """Whether an affinity lets in one more beside the slots that are planned before."""
        request_class, constraints = self.ask.request_class, self.partition.constraints
        limited = constraints.room(request_class, node) if request_class.constraint is not None else None
        if limited is None:
            return True
        group, most = limited
        planned = (constraints.room(one.ask.request_class, one.node) for one in self._equal_before())
        return sum(one is not None and one[0] == group for one in planned) < most

    def _equal_before(self) -> Iterator[PlannedPreemption]:
        constraint = self.ask.request_class.constraint
        return (one for one in self.planned_before if one.ask.request_class.constraint == constraint)

    def _fits_beside(self, node: Node) -> bool:
        """Whether no own allocations have to go first: there is no reservation before they are gone (SEMANTICS I9)."""
        return not node.leaving or fits_beside_own(self.application, self.ask.request_class, node)

    def _gather(self, node_candidates: NodeCandidates) -> Iterator[None]:
        """Notes the leaf queues with possible victims, as far as queues and priorities go, and the ranks of these
        victims."""
        for leaf in list(self._preemption_context.victim_leaves()):
            victim_queue = self._preemption_context.victim_queue(leaf)
            assert victim_queue is not None
            for application in list(leaf.applications.values()):
                for portion in portions(application.allocations.values()):
                    node_candidates.add(leaf, portion, victim_queue.admits)
                    yield

    def _beats(self, cost: Cost, size: int, node: Node) -> bool:
        """Whether no victim set on the node can beat the result so far, given the lowest cost and size possible
        there."""
        return self._found is not None and self._found[:4] < (cost, size, node.score, node.node_id)

    def _is_good_enough(self, cost: Cost) -> bool:
        """For one of the many slots of a gang a set of least cost is enough, whichever of several; `cost` is the lowest
        that is possible on the nodes that are left."""
        return self.ask.spec.slot and self._found is not None and self._found.cost <= cost

    def _search_node(self, node: Node, up_to: Rank | None = None) -> None:
        found = self._victims_on(node, up_to) if self.partition.nodes.get(node.node_id) is node else None
        if found is not None:
            here = _Found(found.cost, len(found.victims), node.score, node.node_id, node, found.victims)
            if self._found is None or here < self._found:
                self._found = here

    def _victims_on(self, node: Node, up_to: Rank | None = None) -> VictimSet | None:
        """The best victim set on the node, if it is allowed; with `up_to`, of no higher rank than that."""
        self.budget.visits += 1
        if not self._may_take(node):
            return None
        short = self._short(node)
        if self._preemption_context.lacking and not short:
            found = self._anywhere
        else:
            need = self._with_quota(short)
            candidates = self._preemption_context.may_be_preempted(reversed(node.allocations.values()), need, node)
            if up_to is not None:
                candidates = (one for one in candidates if one.rank <= up_to)
            found = smallest_set(candidates, need, self._preemption_context.unit, self.budget)
        is_only_by_priority = not self._preemption_context.has_guarantee
        if found is not None and not found.victims and is_only_by_priority and not self._may_take_free_room(node):
            return None
        if found is None or self.partition.objection_without(self.ask.request_class, node, found.victims) is not None:
            return None
        return found if self._fits_beside(node) and not self._was_refused(node, found) else None

    def _may_take_free_room(self, node: Node) -> bool:
        """Whether an ask that has a right by its priority only may have this room without victims: for a slot of a gang
        anything that nobody else has reserved. For others a higher priority alone is no right to room that is about to
        be free."""
        return self.ask.spec.slot and self._gets_room(node)

    def _was_refused(self, node: Node, found: VictimSet) -> bool:
        """Whether the RM refused the ask on this node, and no PREEMPT call would ask about it again."""
        predicate_history, request_class = self.ask.predicate_history, self.ask.request_class
        if predicate_history is None:
            return False
        has_room = node.free.lacks(request_class.items) is None
        if not (predicate_history.is_refused_with_room(node) if has_room else predicate_history.is_refused(node)):
            return False
        return not found.victims or not self.partition.wants_preemption_predicates(self.ask.request_class)

    def _with_quota(self, short: Resources) -> Resources:
        """Adds to `short`, what a node lacks, what the max of queues lacks. Returns `short`."""
        for name, amount in self._preemption_context.lacking.items():
            short[name] = max(short[name], amount)
        return short

    def _short(self, node: Node) -> Resources:
        return node.shortage(self.ask.request_class.items, node.entitled_reserved)


def victims_for_required_node(
    partition: Partition, application: Application, ask: Ask, node: Node, reserved_before: Resources, budget: WorkBudget
) -> VictimSet | None:
    """The victims for an ask on its required node; guarantees do not protect them. None if no set is enough.

    `reserved_before` is what entitled reservations before this one hold on the node.
    """
    budget.visits += len(node.allocations)
    unit = unit_weights(node.capacity)
    candidates = _for_required_node(partition, application, ask, node, unit)
    found = smallest_set(candidates, node.shortage(ask.request_class.items, reserved_before), unit, budget)
    if found is None or partition.objection_without(ask.request_class, node, found.victims) is not None:
        return None
    return found


def further_for_required_node(
    partition: Partition, application: Application, ask: Ask, node: Node, victims: tuple[Allocation, ...]
) -> tuple[Allocation, ...]:
    """Further candidates on the required node beside these victims, in order."""
    unit = unit_weights(node.capacity)
    return beside(_for_required_node(partition, application, ask, node, unit), victims, FURTHER_MAX, ())


def _for_required_node(
    partition: Partition, application: Application, ask: Ask, node: Node, unit: Mapping[str, int]
) -> Iterator[Candidate]:
    """All possible victims for the ask on its required node, youngest first."""
    priority_max = ask.spec.priority - victims_have_lower_priority(ask.spec.tags)
    for allocation in reversed(node.allocations.values()):
        other = allocation.application
        if other is application or not may_be_preempted(partition.spec, allocation):
            continue
        is_open = other.queue.properties.preemption_policy is not PreemptionPolicy.DISABLED
        if is_open and allocation.spec.priority <= priority_max:
            yield candidate(allocation, unit)
