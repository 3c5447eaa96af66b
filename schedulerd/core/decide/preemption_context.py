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
    VictimSet,
    WorkBudget,
    candidate,
    may_end,
    smallest_set,
    unit_weights,
)
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.queue import Queue
from schedulerd.core.preemption_facts import PreemptionRefusal
from schedulerd.core.quotas.limit_subject import LimitSubject
from schedulerd.core.quotas.rules import blocked, blocked_by_limits, blocked_by_user_limits
from schedulerd.core.quotas.sentences import sentence
from schedulerd.core.resources import Resources
from schedulerd.core.specs import PreemptionPolicy


@dataclass(frozen=True, slots=True)
class VictimQueue:
    """What holds for everything in one leaf that may be ended."""

    common_ancestor: int
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


class PreemptionContext:
    """The claim of an ask as things are when it is made; others are to be made when they have changed."""

    def __init__(self, application: Application, group: AskGroup, ask: Ask, budget: WorkBudget) -> None:
        self.application = application
        self.partition = application.partition
        self.queue: Queue = application.queue
        self.ask = ask
        self.group = group
        self.budget = budget
        self.unit = unit_weights(self.partition.total())
        self.lacking, self._limiting_queue = self._short_of_quota()
        """What has to come free for its queues to let it in, wherever that is."""
        self._entitled = [self._rights(level) for level in range(len(self.queue.path_to_root))]
        self.claimable = frozenset().union(*self._entitled)
        """All resources that it has any right to."""
        self._priorities = self._priorities_at_levels()
        self._sides: dict[Queue, VictimQueue | None] = {}
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
        items, key = self.ask.request_class.items, self.group.pending_class.quota_key
        without_subject = key._replace(limit_subject=None)
        for queue in self.queue.path_to_root:
            why = blocked_by_limits(queue, (), without_subject)
            if why is None and key.limit_subject is not None:
                together = self._claimed_by(key.limit_subject, queue).plus(self.ask.request_class.resources).canonical()
                why = blocked_by_user_limits(queue, together, key)
            if why is not None:
                return sentence(why)
            if key.starts_application and self._counts_starts(queue) and self._others_are_to_start(queue):
                return f"others that are about to start may be the last that queue {queue.written} lets run"
        why = blocked(self.queue, items, key) if self._limiting_queue == 0 else None
        return sentence(why) if why is not None else ""

    def _may_have_room(self) -> bool:
        """Whether there may be room for which nobody has to end: what is about to be free, or kept for the weaker."""
        own = sum(not one.is_entitled for one in self.ask.reservations.values())
        return self.partition.aging_reservations > own or bool(self.partition.root.leaving)

    def _counts_starts(self, queue: Queue) -> bool:
        limit_subject = self.group.pending_class.quota_key.limit_subject
        limits = [] if limit_subject is None else [limit for limit, _, _ in limit_subject.limits_at(queue)]
        return bool(queue.max_applications) or any(limit.max_applications for limit in limits)

    def _others_are_to_start(self, queue: Queue) -> bool:
        """Whether room is kept for others that will start to run with it: only so many may run, and who is counted
        first is seen when they do."""
        return any(
            one.is_entitled and one.application is not self.application and not one.application.usage_ledgers
            for one in self.partition.reservations
            if queue in one.application.queue.path_to_root
        )

    def _claimed_by(self, limit_subject: LimitSubject, queue: Queue) -> Resources:
        """What asks of the same user or group have a reserved right to in the queue, and will use."""
        quota_reserved = Resources()
        for one in self.partition.reservations:
            other = one.application
            is_same = other.spec.user == limit_subject.user or (
                limit_subject.group != "" and other.group == limit_subject.group
            )
            if one.is_entitled and is_same and queue in other.queue.path_to_root:
                quota_reserved.add(one.items)
        return quota_reserved

    def _short_of_quota(self) -> tuple[Resources, int | None]:
        """What the maxima on its way lack for it, and the level of the lowest that does: victims are below that one."""
        lacking, roof = Resources(), None
        for level, queue in enumerate(self.queue.path_to_root):
            for name, amount in self.ask.request_class.items:
                if name in queue.max:
                    short = in_use(queue)[name] + amount - queue.max[name]
                    if short > 0:
                        lacking[name] = max(lacking[name], short)
                        roof = level if roof is None else roof
        return lacking, roof

    def _rights(self, level: int) -> frozenset[str]:
        """The resources to which the ask has a right against what runs below `path_to_root[level]`."""
        way = self.queue.path_to_root
        if level == 0 or (self._limiting_queue is not None and level > self._limiting_queue):
            return frozenset()
        if any(one.properties.preemption_policy is PreemptionPolicy.FENCE for one in way[:level]):
            return frozenset()
        rights = set()
        for name, amount in self.ask.request_class.items:
            guaranteeing = [one for one in way[:level] if one.guaranteed[name]]
            if guaranteeing and all(in_use(one)[name] + amount <= one.guaranteed[name] for one in guaranteeing):
                rights.add(name)
        return frozenset(rights)

    def _priorities_at_levels(self) -> list[int]:
        """How the ask's priority looks to each queue on its way to the root."""
        shown = [self.ask.spec.priority]
        for queue in self.queue.path_to_root:
            shown.append(queue.shown_priority(shown[-1]))
        return shown

    def why(self, short: Resources) -> str:
        """What gives it the right to what is short, as a sentence."""
        wanted = short.keys() & self.claimable or self.claimable
        level = next(level for level, rights in enumerate(self._entitled) if rights & wanted)
        name = min(self._entitled[level] & wanted)
        one = next(one for one in self.queue.path_to_root[:level] if one.guaranteed[name])
        return f"{one.written} uses {name} {in_use(one)[name]} of the {one.guaranteed[name]} that it is guaranteed"

    def victim_leaves(self) -> Iterator[Queue]:
        """Leaves in which something may be ended as far as guarantees go."""
        for level, rights in enumerate(self._entitled):
            if rights:
                for child in self.queue.path_to_root[level].children.values():
                    if child is not self.queue.path_to_root[level - 1]:
                        yield from self._leaves_to_spare(child, rights)

    def _leaves_to_spare(self, queue: Queue, rights: frozenset[str]) -> Iterator[Queue]:
        self.budget.visits += 1
        used, leaving, guaranteed = queue.allocated, queue.leaving, queue.guaranteed
        if not any(used.get(name, 0) - leaving.get(name, 0) > guaranteed.get(name, 0) for name in rights):
            return
        if queue.applications and self.victim_queue(queue) is not None:
            yield queue
        for child in queue.children.values():
            yield from self._leaves_to_spare(child, rights)

    def victim_queue(self, leaf: Queue) -> VictimQueue | None:
        """None if nothing in the leaf may be ended for this ask at all."""
        if leaf not in self._sides:
            self._sides[leaf] = self._new_side(leaf)
        return self._sides[leaf]

    def _new_side(self, leaf: Queue) -> VictimQueue | None:
        if leaf.properties.preemption_policy is PreemptionPolicy.DISABLED or leaf is self.queue:
            return None
        way = self.queue.path_to_root
        level = next(level for level, one in enumerate(way) if one in leaf.path_to_root)
        if not self._entitled[level]:
            return None
        below = leaf.path_to_root[: leaf.path_to_root.index(way[level])]
        budgets = tuple(self._budget(one) for one in below if one.guaranteed)
        return VictimQueue(level, below, budgets, self._priorities[level])

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
            self.budget.visits += 1
            if not may_end(allocation):
                continue
            application = allocation.application
            side = self.victim_queue(application.queue)
            if side is None or application is self.application:
                continue
            if not short.keys() <= self._entitled[side.common_ancestor]:
                continue
            if side.admits(allocation.spec.priority):
                yield candidate(allocation, self.unit, side.budgets)

    def victims_among(self, allocations: Iterable[Allocation]) -> VictimSet | None:
        """The victims if no node lacks room, but a max does, so that they may run anywhere: some of these."""
        there = (one for one in allocations if one.application.allocations.get(one.uuid) is one)
        return smallest_set(self.may_end(there, self.lacking), self.lacking, self.unit, self.budget)


def in_use(queue: Queue) -> Resources:
    """What counts against its guarantee: what stays allocated, and what its asks have a reserved right to."""
    return queue.allocated.minus(queue.leaving).plus(queue.quota_reserved)
