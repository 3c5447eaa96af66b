"""What an ask has a right to of what others use, and who may be ended for it.

An ask has a right to what its queues are guaranteed and do not use. Against a victim, those queues count that do not
hold both of them: below the parent where the two paths part, the ask's must stay within their guarantees and the
victim's above theirs, resource by resource. If a max on its way lacks room, all victims run below the queue it is of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from schedulerd.core.decide.victims import (
    Budget,
    Candidate,
    Effort,
    VictimSet,
    candidate,
    may_end,
    smallest_set,
    unit_weights,
)
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.party import Party
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape
from schedulerd.core.preemption_facts import PreemptionRefusal
from schedulerd.core.resources import Resources
from schedulerd.core.specs import PreemptionPolicy


@dataclass(frozen=True, slots=True)
class Side:
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


class Claim:
    """The claim of an ask as things are when it is made; others are to be made when they have changed."""

    def __init__(self, application: Application, group: AskGroup, ask: Ask, effort: Effort) -> None:
        assert application.queue is not None
        self.application = application
        self.partition = application.partition
        self.queue: Queue = application.queue
        self.ask = ask
        self.group = group
        self.effort = effort
        self.unit = unit_weights(self.partition.total())
        self.lacking, self._roof = self._short_of_quota()
        """What has to come free for its queues to let it in, wherever that is."""
        self._entitled = [self._rights(level) for level in range(len(self.queue.lineage))]
        self.claimable = frozenset().union(*self._entitled)
        """All resources that it has any right to."""
        self._priorities = self._priorities_at_levels()
        self._sides: dict[Queue, Side | None] = {}
        self._budgets: dict[Queue, Budget] = {}
        self.limit = self._limit()
        """Which quota or limit does not let it in, whoever ends, as a sentence; '' if none."""

    def refusal(self) -> PreemptionRefusal | None:
        """Why nobody is to be looked for at all, None if somebody is."""
        if self.limit:
            return PreemptionRefusal.QUOTA
        if not any(self._entitled):
            return PreemptionRefusal.NOT_ENTITLED
        if self._may_have_room() or any(True for _ in self.victim_leaves()):
            return None
        return PreemptionRefusal.NO_VICTIMS

    def _limit(self) -> str:
        kind = self.group.kind
        for queue in self.queue.lineage:
            refusal = queue.limit_refusal(Shape((), starts=kind.starts, gate=kind.gate))
            if refusal is None and kind.party is not None:
                items = self._claimed_by(kind.party, queue).plus(self.ask.shape.resources).canonical()
                refusal = queue.usages.refusal(queue, Shape(items, kind.party, starts=kind.starts))
            if refusal is not None:
                return refusal
            if kind.starts and self._counts_starts(queue) and self._others_are_to_start(queue):
                return f"others that are about to start may be the last that queue {queue.written} lets run"
        return (self.queue.refusal(kind) or "") if self._roof == 0 else ""

    def _may_have_room(self) -> bool:
        """Whether there may be room for which nobody has to end: what is about to be free, or kept for the weaker."""
        own = sum(not one.is_firm for one in self.ask.reservations.values())
        return self.partition.reserved > own or bool(self.partition.root.leaving)

    def _counts_starts(self, queue: Queue) -> bool:
        party = self.group.kind.party
        limits = [] if party is None else [limit for limit, _, _ in party.limits_at(queue)]
        return bool(queue.max_applications) or any(limit.max_applications for limit in limits)

    def _others_are_to_start(self, queue: Queue) -> bool:
        """Whether room is kept for others that will start to run with it: only so many may run, and who is counted
        first is seen when they do."""
        return any(
            one.is_firm and one.application is not self.application and not one.application.usage_ledgers
            for one in self.partition.reservations
            if one.application.queue is not None and queue in one.application.queue.lineage
        )

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

    def why(self, short: Resources) -> str:
        """What gives it the right to what is short, as a sentence."""
        wanted = short.keys() & self.claimable or self.claimable
        level = next(level for level, rights in enumerate(self._entitled) if rights & wanted)
        name = min(self._entitled[level] & wanted)
        one = next(one for one in self.queue.lineage[:level] if one.guaranteed[name])
        return f"{one.written} uses {name} {in_use(one)[name]} of the {one.guaranteed[name]} that it is guaranteed"

    def victim_leaves(self) -> Iterator[Queue]:
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
        if queue.applications and self.side(queue) is not None:
            yield queue
        for child in queue.children.values():
            yield from self._leaves_to_spare(child, rights)

    def side(self, leaf: Queue) -> Side | None:
        """None if nothing in the leaf may be ended for this ask at all."""
        if leaf not in self._sides:
            self._sides[leaf] = self._new_side(leaf)
        return self._sides[leaf]

    def _new_side(self, leaf: Queue) -> Side | None:
        if leaf.properties.preemption_policy is PreemptionPolicy.DISABLED or leaf is self.queue:
            return None
        way = self.queue.lineage
        level = next(level for level, one in enumerate(way) if one in leaf.lineage)
        if not self._entitled[level]:
            return None
        below = leaf.lineage[: leaf.lineage.index(way[level])]
        budgets = tuple(self._budget(one) for one in below if one.guaranteed)
        return Side(level, below, budgets, self._priorities[level])

    def _budget(self, queue: Queue) -> Budget:
        """One for each queue, whichever of its leaves something is taken from."""
        if queue not in self._budgets:
            used = queue.allocated.minus(queue.leaving)
            self._budgets[queue] = Budget(
                {name: used[name] - amount for name, amount in queue.guaranteed.items() if amount}
            )
        return self._budgets[queue]

    def may_end(self, allocations: Iterable[Allocation], short: Resources) -> Iterator[Candidate]:
        """Those of the allocations, in their order, that may be ended for what is short."""
        for allocation in allocations:
            self.effort.visits += 1
            if not may_end(allocation):
                continue
            application = allocation.application
            assert application.queue is not None
            side = self.side(application.queue)
            if side is None or application is self.application:
                continue
            if not short.keys() <= self._entitled[side.level]:
                continue
            if side.admits(allocation.spec.priority):
                yield candidate(allocation, self.unit, side.budgets)

    def victims_among(self, allocations: Iterable[Allocation]) -> VictimSet | None:
        """The victims if no node lacks room, but a max does, so that they may run anywhere: some of these."""
        there = (one for one in allocations if one.application.allocations.get(one.uuid) is one)
        return smallest_set(self.may_end(there, self.lacking), self.lacking, self.unit, self.effort)


def in_use(queue: Queue) -> Resources:
    """What counts against its guarantee: what stays allocated, and what its asks have a reserved right to."""
    return queue.allocated.minus(queue.leaving).plus(queue.claimed)
