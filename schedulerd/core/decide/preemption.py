"""Whether an ask has a right to room that others use, and who would have to end for it on which node.

An ask has a right to what its queues are guaranteed and do not use. Against a victim, those queues count that do not
hold both of them: below the parent where the two paths part, the ask's must stay within their guarantees and the
victim's above theirs, resource by resource. The victims run on the node that the ask gets; if it is a max on its way
that lacks room, and not the node, they run anywhere below that queue.

A search goes through many nodes, so it runs in slices: it only reads, and what it found is judged again before use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from schedulerd.core.decide.victims import Budget, Candidate, VictimSet, rank_of, smallest_set
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape
from schedulerd.core.preemption_facts import PreemptionRefusal
from schedulerd.core.resources import Items, Resources
from schedulerd.core.specs import PreemptionPolicy

CANDIDATES_MAX = 2_000
"""How many allocations are looked at where the node does not matter, the youngest of each application first."""
_WEIGHT_OF_ALL = 10**12
"""What all of a resource in the partition weighs."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Who is to end on which node, for whom, and why; a plan, nothing has changed."""

    application: Application
    ask: Ask
    node: Node
    victims: tuple[Allocation, ...]
    """None at all if enough of the node is about to be free anyway, or is only kept for asks without a right."""
    why: str


@dataclass(frozen=True, slots=True)
class _Side:
    """What holds for everything in one leaf that may be ended."""

    level: int
    """Which queue on the ask's way to the root holds both."""
    below: tuple[Queue, ...]
    """The leaf's way up to, but without, that queue."""
    budgets: tuple[Budget, ...]


class Search:
    """Looks for the node on which room for an ask costs least."""

    def __init__(self, application: Application, group: AskGroup, ask: Ask, *, attempt: int = 1) -> None:
        self.application = application
        self.partition: Partition = application.partition
        assert application.queue is not None
        self.queue: Queue = application.queue
        self.ask = ask
        self.group = group
        self.attempt = attempt
        """How often it was searched for, as what is found may not hold any longer when the search is done."""
        self.visits = 0
        """Nodes and allocations looked at so far."""
        self.refusal: PreemptionRefusal | None = None
        self._elsewhere: VictimSet | None = None
        self._looked_elsewhere = False
        self._found: tuple[VictimSet, tuple[float, str], Node] | None = None
        total = self.partition.total()
        self._lacking, self._roof = self._short_of_quota()
        self._unit = {name: _WEIGHT_OF_ALL // amount for name, amount in total.items() if amount > 0}
        self._sides: dict[Queue, _Side | None] = {}
        self._budgets: dict[Queue, Budget] = {}
        self._entitled = [self._rights(level) for level in range(len(self.queue.lineage))]
        self._priorities = self._priorities_at_levels()
        self.refusal = self._refused_at_once()
        self._steps = self._compare()

    def run(self, visits_max: int) -> bool:
        """Goes on for about so many visits; True when there is nothing left to look at."""
        if self.refusal is not None:
            return True
        end = self.visits + visits_max
        for _ in self._steps:
            if self.visits >= end:
                return False
        if self._found is None:
            self.refusal = PreemptionRefusal.NO_NODE
        return True

    def decision(self) -> Decision | None:
        """What was found, judged by the state as it is now; None if nothing was, or if it does not hold any longer."""
        if self._found is None or self._refused_at_once() is not None:
            return None
        node = self._found[2]
        self._sides.clear()
        self._budgets.clear()
        self._looked_elsewhere = False
        self._lacking, self._roof = self._short_of_quota()
        self._entitled = [self._rights(level) for level in range(len(self.queue.lineage))]
        found = self._victims_on(node) if self.partition.nodes.get(node.node_id) is node else None
        if found is None:
            return None
        return Decision(self.application, self.ask, node, found.victims, self._why())

    # rights ---------------------------------------------------------------------------------------------------------

    def _refused_at_once(self) -> PreemptionRefusal | None:
        kind = self.group.kind
        for queue in self.queue.lineage:
            if queue.refusal(Shape((), starts=kind.starts, gate=kind.gate)) is not None:
                return PreemptionRefusal.QUOTA
            items = queue.claimed.plus(self.ask.shape.resources).canonical()
            if kind.party is not None and queue.usages.refusal(queue, Shape(items, kind.party)) is not None:
                return PreemptionRefusal.QUOTA
        if self._roof == 0:
            return PreemptionRefusal.QUOTA
        if not any(self._entitled):
            return PreemptionRefusal.NOT_ENTITLED
        return None if any(True for _ in self._victim_leaves()) else PreemptionRefusal.NO_VICTIMS

    def _short_of_quota(self) -> tuple[Resources, int | None]:
        """What the maxima on its way lack for it, and the level of the lowest that does: victims are below that one."""
        lacking, roof = Resources(), None
        for level, queue in enumerate(self.queue.lineage):
            for name, amount in self.ask.shape.items:
                if name in queue.max:
                    short = _in_use(queue)[name] + amount - queue.max[name]
                    if short > 0:
                        lacking[name] = max(lacking[name], short)
                        roof = level if roof is None else roof
        return lacking, roof

    def _rights(self, level: int) -> frozenset[str]:
        """The resources to which the ask has a right against what runs below `lineage[level]`."""
        way = self.queue.lineage
        if level == 0 or (self._roof is not None and level > self._roof):
            return frozenset()
        if any(one.properties.preemption_policy is PreemptionPolicy.FENCE for one in way[:level]):
            return frozenset()
        rights = set()
        for name, amount in self.ask.shape.items:
            guaranteeing = [one for one in way[:level] if one.guaranteed[name]]
            if guaranteeing and all(_in_use(one)[name] + amount <= one.guaranteed[name] for one in guaranteeing):
                rights.add(name)
        return frozenset(rights)

    def _priorities_at_levels(self) -> list[int]:
        """How the ask's priority looks to each queue on its way to the root."""
        shown = [self.ask.spec.priority]
        for queue in self.queue.lineage:
            shown.append(queue.shown_priority(shown[-1]))
        return shown

    def _why(self) -> str:
        level = next(level for level, rights in enumerate(self._entitled) if rights)
        name = min(self._entitled[level])
        one = next(one for one in self.queue.lineage[:level] if one.guaranteed[name])
        return f"{one.path} uses {name} {_in_use(one)[name]} of the {one.guaranteed[name]} that it is guaranteed"

    # victims --------------------------------------------------------------------------------------------------------

    def _victim_leaves(self) -> Iterator[Queue]:
        """Leaves in which something may be ended as far as guarantees go."""
        for level, rights in enumerate(self._entitled):
            if rights:
                for child in self.queue.lineage[level].children.values():
                    if child is not self.queue.lineage[level - 1]:
                        yield from self._leaves_to_spare(child, rights)

    def _leaves_to_spare(self, queue: Queue, rights: frozenset[str]) -> Iterator[Queue]:
        used = queue.allocated.minus(queue.leaving)
        if not any(used[name] > queue.guaranteed[name] for name in rights):
            return
        if queue.applications and self._side(queue) is not None:
            yield queue
        for child in queue.children.values():
            yield from self._leaves_to_spare(child, rights)

    def _side(self, leaf: Queue) -> _Side | None:
        """None if nothing in the leaf may be ended for this ask at all."""
        if leaf not in self._sides:
            self._sides[leaf] = self._new_side(leaf)
        return self._sides[leaf]

    def _new_side(self, leaf: Queue) -> _Side | None:
        if leaf.properties.preemption_policy is PreemptionPolicy.DISABLED or leaf is self.queue:
            return None
        way = self.queue.lineage
        level = next(level for level, one in enumerate(way) if one in leaf.lineage)
        if not self._entitled[level]:
            return None
        below = leaf.lineage[: leaf.lineage.index(way[level])]
        return _Side(level, below, tuple(self._budget(one) for one in below if one.guaranteed))

    def _budget(self, queue: Queue) -> Budget:
        """One for each queue, whichever of its leaves something is taken from."""
        if queue not in self._budgets:
            used = queue.allocated.minus(queue.leaving)
            self._budgets[queue] = Budget(
                {name: used[name] - amount for name, amount in queue.guaranteed.items() if amount}
            )
        return self._budgets[queue]

    def _candidates(self, node: Node, short: Resources) -> Iterator[Candidate]:
        """What may be ended on the node, the youngest first."""
        return self._may_end(reversed(node.allocations.values()), short)

    def _may_end(self, allocations: Iterable[Allocation], short: Resources) -> Iterator[Candidate]:
        for allocation in allocations:
            self.visits += 1
            if allocation.releasing is not None or allocation.shape.required_node:
                continue
            application = allocation.application
            assert application.queue is not None
            side = self._side(application.queue)
            if side is None or application is self.application:
                continue
            if not short.keys() <= self._entitled[side.level]:
                continue
            priority = allocation.spec.priority
            for one in side.below:
                priority = one.shown_priority(priority)
            if priority <= self._priorities[side.level]:
                yield Candidate(allocation, rank_of(allocation), self._weight(allocation.shape.items), side.budgets)

    def _anywhere(self) -> VictimSet | None:
        """The victims if the node does not lack room, but a max does: the same for every such node."""
        if self._looked_elsewhere:
            return self._elsewhere
        allocations = chain.from_iterable(
            reversed(app.allocations.values())
            for leaf in self._victim_leaves()
            for app in reversed(leaf.applications.values())
        )
        candidates = islice(self._may_end(allocations, self._lacking), CANDIDATES_MAX)
        self._elsewhere, self._looked_elsewhere = smallest_set(candidates, self._lacking, self._unit), True
        return self._elsewhere

    def _weight(self, items: Items) -> int:
        return sum(amount * self._unit.get(name, 0) for name, amount in items)

    # nodes ----------------------------------------------------------------------------------------------------------

    def _compare(self) -> Iterator[None]:
        """One node at a time, those first that lack least."""
        lacking: list[tuple[int, float, str, Node]] = []
        for node in list(self.partition.node_order):
            self.visits += 1
            if node.can_ever_fit(self.ask.shape.items):
                short = self._short(node)
                if all(any(name in rights for rights in self._entitled) for name in short):
                    lacking.append((self._weight(short.canonical()), node.score, node.node_id, node))
            yield
        lacking.sort(key=lambda entry: entry[:3])
        for _, score, node_id, node in lacking:
            if self.partition.nodes.get(node_id) is node:
                found = self._victims_on(node)
                place = (score, node_id)
                if found is not None and (
                    self._found is None or (found.order(), place) < (self._found[0].order(), self._found[1])
                ):
                    self._found = found, place, node
                    if not found.victims or not self._short(node):
                        return
            yield

    def _victims_on(self, node: Node) -> VictimSet | None:
        self.visits += 1
        kept = self.ask.reservations.get(node)
        if not node.ordered or (kept is not None and kept.is_firm):
            return None
        short = self._short(node)
        if self._lacking and not short:
            found = self._anywhere()
        else:
            for name, amount in self._lacking.items():
                short[name] = max(short[name], amount)
            found = smallest_set(self._candidates(node, short), short, self._unit)
        return found if found is not None and self._objection(node, found.victims) is None else None

    def _short(self, node: Node) -> Resources:
        return shortage(self.ask.shape.items, node, Resources())

    def _objection(self, node: Node, victims: tuple[Allocation, ...]) -> str | None:
        return self.partition.objection_without(self.ask.shape, node, victims)


def shortage(items: Items, node: Node, own: Resources) -> Resources:
    """What a node lacks for so much when all that was asked to go has gone. `own` is what is kept there for it."""
    room = node.available.plus(node.leaving).minus(node.firmly_kept).plus(own)
    return Resources({name: amount - room[name] for name, amount in items if amount > room[name]})


def victims_for_required_node(application: Application, ask: Ask, node: Node) -> VictimSet | None:
    """Who has to end so that the ask fits on the only node it may run on; guarantees do not protect from that."""
    unit = {name: _WEIGHT_OF_ALL // amount for name, amount in node.capacity.items() if amount > 0}
    candidates = []
    for allocation in reversed(node.allocations.values()):
        other = allocation.application
        assert other.queue is not None
        if allocation.releasing is not None or allocation.shape.required_node or other is application:
            continue
        is_open = other.queue.properties.preemption_policy is not PreemptionPolicy.DISABLED
        if is_open and allocation.spec.priority <= ask.spec.priority:
            weight = sum(amount * unit.get(name, 0) for name, amount in allocation.shape.items)
            candidates.append(Candidate(allocation, rank_of(allocation), weight, ()))
    short = shortage(ask.shape.items, node, ask.shape.resources if node in ask.reservations else Resources())
    found = smallest_set(candidates, short, unit)
    if found is None or application.partition.objection_without(ask.shape, node, found.victims) is not None:
        return None
    return found


def _in_use(queue: Queue) -> Resources:
    """What counts against its guarantee: what stays allocated, and what its asks have a reserved right to."""
    return queue.allocated.minus(queue.leaving).plus(queue.claimed)
