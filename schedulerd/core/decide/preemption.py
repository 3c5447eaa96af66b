"""Whether an ask has a right to room that others use, and who would have to end for it on which node.

An ask has a right to what its queues are guaranteed and do not use. Against a victim, those queues count that do not
hold both of them: below the parent where the two paths part, the ask's must stay within their guarantees and the
victim's above theirs, resource by resource. The victims run on the node that the ask gets; if it is a max on its way
that lacks room, and not the node, they run anywhere below that queue.

A search goes through many nodes, so it runs in slices: it only reads, and what it found is judged again before use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from schedulerd.core.decide.prospects import PORTION, Pool, Prospects
from schedulerd.core.decide.victims import Budget, Candidate, Effort, Harm, VictimSet, rank_of, smallest_set
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.party import Party
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape
from schedulerd.core.preemption_facts import PreemptionRefusal
from schedulerd.core.resources import Items, Resources
from schedulerd.core.specs import PreemptionPolicy

CANDIDATES_MAX = 2_000
"""How many allocations are looked at where the node does not matter, the youngest of each application first."""
LOOKS_MAX = 64
"""How many nodes are searched exactly, the most promising, once there is one on which it can be done."""
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
    priority: int
    """The ask's, as that queue sees it."""
    _admitted: dict[int, bool] = field(default_factory=dict)

    def admits(self, priority: int) -> bool:
        """Whether an allocation of this priority may be ended."""
        if priority not in self._admitted:
            shown = priority
            for one in self.below:
                shown = one.shown_priority(shown)
            self._admitted[priority] = shown <= self.priority
        return self._admitted[priority]


class _Found(NamedTuple):
    """The best set of victims so far, and its node; of two the lesser is the better."""

    harm: Harm
    size: int
    score: float
    node_id: str
    node: Node


class Search:
    """Looks for the node on which room for an ask costs least."""

    def __init__(
        self, application: Application, group: AskGroup, ask: Ask, effort: Effort | None = None, *, attempt: int = 1
    ) -> None:
        self.application = application
        self.partition: Partition = application.partition
        assert application.queue is not None
        self.queue: Queue = application.queue
        self.ask = ask
        self.spec = ask.spec
        """What the ask was like when the search began; an update is another one."""
        self.group = group
        self.attempt = attempt
        """How often it was searched for, as what is found may not hold any longer when the search is done."""
        self.effort = effort or Effort()
        self.refusal: PreemptionRefusal | None = None
        self._elsewhere: VictimSet | None = None
        self._looked_elsewhere = False
        self._found: _Found | None = None
        total = self.partition.total()
        self._lacking, self._roof = self._short_of_quota()
        self._unit = {name: _WEIGHT_OF_ALL // amount for name, amount in total.items() if amount > 0}
        self._sides: dict[Queue, _Side | None] = {}
        self._budgets: dict[Queue, Budget] = {}
        self._entitled = [self._rights(level) for level in range(len(self.queue.lineage))]
        self._claimable = frozenset().union(*self._entitled)
        self._priorities = self._priorities_at_levels()
        self.refusal = self._refused_at_once()
        self._steps = self._compare()

    def run(self, visits_max: int) -> bool:
        """Goes on for about so many visits; True when there is nothing left to look at."""
        if self.refusal is not None:
            return True
        end = self.effort.visits + visits_max
        for _ in self._steps:
            if self.effort.visits >= end:
                return False
        if self._found is None:
            self.refusal = PreemptionRefusal.NO_NODE
        return True

    def decision(self) -> Decision | None:
        """What was found, judged by the state as it is now; None if nothing was, or if it does not hold any longer."""
        if self._found is None:
            return None
        node = self._found.node
        self._sides.clear()
        self._budgets.clear()
        self._looked_elsewhere = False
        self._lacking, self._roof = self._short_of_quota()
        self._entitled = [self._rights(level) for level in range(len(self.queue.lineage))]
        self._claimable = frozenset().union(*self._entitled)
        if self._refused_at_once() is not None or self.partition.nodes.get(node.node_id) is not node:
            return None
        found = self._victims_on(node)
        if found is None:
            return None
        return Decision(self.application, self.ask, node, found.victims, self._why())

    # rights ---------------------------------------------------------------------------------------------------------

    def _refused_at_once(self) -> PreemptionRefusal | None:
        kind = self.group.kind
        for queue in self.queue.lineage:
            if queue.refusal(Shape((), starts=kind.starts, gate=kind.gate)) is not None:
                return PreemptionRefusal.QUOTA
            if kind.party is not None:
                items = self._claimed_by(kind.party, queue).plus(self.ask.shape.resources).canonical()
                if queue.usages.refusal(queue, Shape(items, kind.party)) is not None:
                    return PreemptionRefusal.QUOTA
        if self._roof == 0:
            return PreemptionRefusal.QUOTA
        if not any(self._entitled):
            return PreemptionRefusal.NOT_ENTITLED
        if self._may_have_room() or any(True for _ in self._victim_leaves()):
            return None
        return PreemptionRefusal.NO_VICTIMS

    def _may_have_room(self) -> bool:
        """Whether there may be room for which nobody has to end: what is about to be free, or kept for the weaker."""
        own = sum(not one.is_firm for one in self.ask.reservations.values())
        return self.partition.reserved > own or bool(self.partition.root.leaving)

    def _claimed_by(self, party: Party, queue: Queue) -> Resources:
        """What asks of the same user or group have a reserved right to in the queue, and will use."""
        claimed = Resources()
        for one in self.partition.reservations:
            other = one.application
            assert other.queue is not None
            is_same = other.spec.user == party.user or (party.group != "" and other.group == party.group)
            if one.is_firm and is_same and queue in other.queue.lineage:
                claimed.add(one.items)
        return claimed

    def _short_of_quota(self) -> tuple[Resources, int | None]:
        """What the maxima on its way lack for it, and the level of the lowest that does: victims are below that one."""
        lacking, roof = Resources(), None
        for level, queue in enumerate(self.queue.lineage):
            for name, amount in self.ask.shape.items:
                if name in queue.max:
                    short = in_use(queue)[name] + amount - queue.max[name]
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
            if guaranteeing and all(in_use(one)[name] + amount <= one.guaranteed[name] for one in guaranteeing):
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
        return f"{one.path} uses {name} {in_use(one)[name]} of the {one.guaranteed[name]} that it is guaranteed"

    # victims --------------------------------------------------------------------------------------------------------

    def _victim_leaves(self) -> Iterator[Queue]:
        """Leaves in which something may be ended as far as guarantees go."""
        for level, rights in enumerate(self._entitled):
            if rights:
                for child in self.queue.lineage[level].children.values():
                    if child is not self.queue.lineage[level - 1]:
                        yield from self._leaves_to_spare(child, rights)

    def _leaves_to_spare(self, queue: Queue, rights: frozenset[str]) -> Iterator[Queue]:
        self.effort.visits += 1
        used, leaving, guaranteed = queue.allocated, queue.leaving, queue.guaranteed
        if not any(used.get(name, 0) - leaving.get(name, 0) > guaranteed.get(name, 0) for name in rights):
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
        budgets = tuple(self._budget(one) for one in below if one.guaranteed)
        return _Side(level, below, budgets, self._priorities[level])

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
            self.effort.visits += 1
            if allocation.releasing is not None or allocation.shape.required_node:
                continue
            application = allocation.application
            assert application.queue is not None
            side = self._side(application.queue)
            if side is None or application is self.application:
                continue
            if not short.keys() <= self._entitled[side.level]:
                continue
            if side.admits(allocation.spec.priority):
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
        self._elsewhere, self._looked_elsewhere = smallest_set(candidates, self._lacking, self._unit, self.effort), True
        return self._elsewhere

    def _weight(self, items: Items) -> int:
        return sum(amount * self._unit.get(name, 0) for name, amount in items)

    # nodes ----------------------------------------------------------------------------------------------------------

    def _compare(self) -> Iterator[None]:
        """Interrupted now and then; what is found last is the best."""
        prospects = Prospects(self._unit, self.effort)
        if (yield from self._look_for_room(prospects)):
            return
        yield from self._gather(prospects)
        looks = 0
        for prospect in prospects.in_order():
            if prospect is not None:
                harm, node = prospect
                if looks >= LOOKS_MAX or self._beats(harm, 1, node):
                    return
                fewest = prospects.fewest(prospect)
                if fewest and not self._beats(harm, fewest, node):
                    self._look_at(node)
                    looks += self._found is not None
            yield

    def _beats(self, harm: Harm, size: int, node: Node) -> bool:
        """Whether nothing on the node could be better than what was found, if it is at best so."""
        return self._found is not None and self._found[:4] < (harm, size, node.score, node.node_id)

    def _look_for_room(self, prospects: Prospects) -> Generator[None, None, bool]:
        """Finds the first node that will have room without anybody else ending there; else what each of them needs."""
        nodes = list(self.partition.node_order)
        for first in range(0, len(nodes), PORTION):
            portion = nodes[first : first + PORTION]
            self.effort.visits += len(portion)
            for node in portion:
                short = self._short(node)
                if not short:
                    self._look_at(node)
                    if self._found is not None:
                        return True
                elif short.keys() <= self._claimable:
                    prospects.consider(node, self._with_quota(short))
            yield
        return False

    def _gather(self, prospects: Prospects) -> Iterator[None]:
        """All that may be ended for the ask as far as queues and priorities go."""
        for leaf in list(self._victim_leaves()):
            side = self._side(leaf)
            assert side is not None
            pools: dict[tuple[bool, bool, int], Pool] = {}
            for application in list(leaf.applications.values()):
                allocations = list(application.allocations.values())
                for first in range(0, len(allocations), PORTION):
                    portion = allocations[first : first + PORTION]
                    self.effort.visits += len(portion)
                    for allocation in portion:
                        if allocation.releasing is None and not allocation.shape.required_node:
                            spec = allocation.spec
                            kind = spec.originator, spec.allow_preempt_self, spec.priority
                            if kind not in pools:
                                admitted = side.admits(spec.priority)
                                pools[kind] = prospects.pool(rank_of(allocation)) if admitted else defaultdict(list)
                            pools[kind][allocation.node].append(allocation)
                    yield

    def _look_at(self, node: Node) -> None:
        found = self._victims_on(node) if self.partition.nodes.get(node.node_id) is node else None
        if found is not None:
            here = _Found(found.harm, len(found.victims), node.score, node.node_id, node)
            if self._found is None or here < self._found:
                self._found = here

    def _victims_on(self, node: Node) -> VictimSet | None:
        self.effort.visits += 1
        kept = self.ask.reservations.get(node)
        if not node.ordered or (kept is not None and kept.is_firm):
            return None
        short = self._short(node)
        if self._lacking and not short:
            found = self._anywhere()
        else:
            need = self._with_quota(short)
            found = smallest_set(self._candidates(node, need), need, self._unit, self.effort)
        return found if found is not None and self._objection(node, found.victims) is None else None

    def _with_quota(self, short: Resources) -> Resources:
        """What has to come free on a node that is short of so much."""
        for name, amount in self._lacking.items():
            short[name] = max(short[name], amount)
        return short

    def _short(self, node: Node) -> Resources:
        return shortage(self.ask.shape.items, node, node.firmly_kept)

    def _objection(self, node: Node, victims: tuple[Allocation, ...]) -> str | None:
        return self.partition.objection_without(self.ask.shape, node, victims)


def shortage(items: Items, node: Node, kept: Resources) -> Resources:
    """What a node lacks for so much when all that was asked to go has gone. `kept` is what others have before it."""
    room = node.available
    if node.leaving or kept:
        room = room.plus(node.leaving).minus(kept)
    get = room.get
    return Resources({name: amount - get(name, 0) for name, amount in items if amount > get(name, 0)})


def victims_for_required_node(
    application: Application, ask: Ask, node: Node, kept: Resources, effort: Effort | None = None
) -> VictimSet | None:
    """Who has to end so that the ask fits on the only node it may run on; guarantees do not protect from that.

    `kept` is what others on the node have a right to before it.
    """
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
    found = smallest_set(candidates, shortage(ask.shape.items, node, kept), unit, effort)
    if found is None or application.partition.objection_without(ask.shape, node, found.victims) is not None:
        return None
    return found


def in_use(queue: Queue) -> Resources:
    """What counts against its guarantee: what stays allocated, and what its asks have a reserved right to."""
    return queue.allocated.minus(queue.leaving).plus(queue.claimed)
