"""What an ask is entitled to, and which allocations may be preempted for it.

An ask is entitled to what its queues are guaranteed and do not use. For each victim, the queues below the lowest common
ancestor of both queues count. On the side of the ask, they must stay within their guarantees with the ask, in all
resources that these name and the ask asks for, and one of these must be short. On the side of the victim, see `Budget`.
If a max on the ask's path lacks room, all victims must be below the queue with that max. In its own leaf, if that says
so (`preemption.within-queue`), an ask preempts by priority alone, whatever is guaranteed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from schedulerd.core.language.facts.preemption import PreemptionRefusal
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PreemptionPolicy, WithinQueue
from schedulerd.core.preemption.rules.budget import Budget
from schedulerd.core.preemption.rules.victims import (
    Candidate,
    VictimSet,
    candidate,
    smallest_set,
    unit_weights,
    whole_candidate,
)
from schedulerd.core.state.model.allocation import Allocation, Ask, may_be_preempted
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.work_budget import WorkBudget
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.quotas.limit_subject import LimitSubject
from schedulerd.core.state.quotas.rules import blocked, blocked_by_limits, blocked_by_user_limits
from schedulerd.sentences import preemption

QUEUES_NOTED_MAX = 3
"""Maximum number of queues that are noted to have no more than their guarantees."""


@dataclass(frozen=True, slots=True)
class VictimQueue:
    """The terms on which allocations of one leaf queue may be preempted for the ask."""

    common_ancestor: int
    """Level of the lowest common ancestor on the ask's path to the root (0 is the leaf)."""
    below: tuple[Queue, ...]
    """The queues from the leaf up to the common ancestor, which is not included."""
    budgets: tuple[Budget, ...]
    priority: int
    """The ask's priority as the common ancestor sees it."""
    _admitted: dict[int, bool] = field(default_factory=dict)

    def admits(self, priority: int) -> bool:
        """Whether an allocation of this priority may be preempted."""
        if priority not in self._admitted:
            shown = priority
            for one in self.below:
                shown = one.shown_priority(shown)
            self._admitted[priority] = shown <= self.priority
        return self._admitted[priority]


class PreemptionContext:
    """What an ask is entitled to, computed from the state of one moment. After a change a new context must be made."""

    def __init__(
        self, partition: Partition, application: Application, group: AskGroup, ask: Ask, budget: WorkBudget
    ) -> None:
        self.application = application
        self.partition = partition
        self.queue: Queue = application.queue
        self.ask = ask
        self.group = group
        self.budget = budget
        self.unit = unit_weights(self.partition.total())
        self.preempts_within = _preempts_within(application, ask)
        """Whether allocations of lower priority in the ask's own leaf may be preempted for it."""
        self.lacking, self._limiting_queue = self._short_of_quota()
        """The amounts that the max of queues on the path lacks for the ask. Victims anywhere below the limiting queue
        free them."""
        self._entitled = [self._rights(level) for level in range(len(self.queue.path_to_root))]
        self.has_guarantee = any(self._entitled[1:])
        """Whether the ask is entitled to room of other queues."""
        self.entitled_to = frozenset().union(*self._entitled)
        """All resources that are guaranteed to the ask at some level. The ask is entitled to room that is short of one
        of them."""
        self._priorities = self._priorities_at_levels()
        self._victim_queues: dict[Queue, VictimQueue | None] = {}
        self._budgets: dict[Queue, Budget] = {}
        self.protected: dict[Queue, str] = {}
        """The first queues that were found to use no more than they are guaranteed, with a resource that is asked for;
        for the reason that people read."""
        self.limit = self._limit()
        """The quota or limit that keeps the ask out whatever is preempted, as a sentence; '' if there is none."""

    def refusal(self) -> PreemptionRefusal | None:
        """Why no victims need to be searched for; None if the search makes sense."""
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
                together = (
                    self._reserved_for_subject(key.limit_subject, queue)
                    .plus(self.ask.request_class.resources)
                    .canonical()
                )
                why = blocked_by_user_limits(queue, together, key)
            if why is not None:
                return why.clause()
            if key.starts_application and self._counts_starts(queue) and self._others_are_to_start(queue):
                return f"applications that are about to start may be the last that queue {queue.written} lets run"
        why = blocked(self.queue, items, key) if self._limiting_queue == 0 and not self.preempts_within else None
        return why.clause() if why is not None else ""

    def _may_have_room(self) -> bool:
        """Whether room may become free without victims: by pending releases or by aging reservations."""
        own = len(self.ask.reservations) - self.ask.entitled
        return self.partition.aging_reservations > own or bool(self.partition.root.leaving)

    def _counts_starts(self, queue: Queue) -> bool:
        limit_subject = self.group.pending_class.quota_key.limit_subject
        limits = [] if limit_subject is None else [limit for limit, _, _ in limit_subject.limits_among(queue.limits)]
        return bool(queue.max_applications) or any(limit.max_applications for limit in limits)

    def _others_are_to_start(self, queue: Queue) -> bool:
        """Whether entitled reservations are held for other applications that will start to run with them. They compete
        for the limited number of running applications, and which one is counted first is known only when they start."""
        return any(
            one.is_entitled and one.application is not self.application and not one.application.usage_ledgers
            for one in self.partition.reservations
            if queue in one.application.queue.path_to_root
        )

    def _reserved_for_subject(self, limit_subject: LimitSubject, queue: Queue) -> Resources:
        """What entitled reservations of the same user or group will use in the queue."""
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
        """The amounts that the max of queues on the path lacks for the ask, and the level of the lowest such queue, the
        limiting queue; None if none lacks room."""
        lacking, limiting_level = Resources(), None
        for level, queue in enumerate(self.queue.path_to_root):
            for name, amount in self.ask.request_class.items:
                if name in queue.max:
                    short = in_use(queue)[name] + amount - queue.max[name]
                    if short > 0:
                        lacking[name] = max(lacking[name], short)
                        limiting_level = level if limiting_level is None else limiting_level
        return lacking, limiting_level

    def _rights(self, level: int) -> frozenset[str]:
        """The resources that are guaranteed to the ask against victims below `path_to_root[level]`.

        A guarantee speaks of the resources that it names: with the ask, each queue stays within its guarantee in all
        named resources that are asked for, or nothing is guaranteed to the ask. Inside its own leaf it has a right to
        everything, by priority, if the leaf says so.
        """
        way = self.queue.path_to_root
        if level == 0:
            return frozenset(name for name, _ in self.ask.request_class.items if self.preempts_within)
        if self._limiting_queue is not None and level > self._limiting_queue:
            return frozenset()
        if any(one.properties.preemption_policy is PreemptionPolicy.FENCE for one in way[:level]):
            return frozenset()
        rights = set()
        for one in way[:level]:
            for name, amount in self.ask.request_class.items if one.guaranteed else ():
                if one.guaranteed[name]:
                    if in_use(one)[name] + amount > one.guaranteed[name]:
                        return frozenset()
                    rights.add(name)
        return frozenset(rights)

    def _priorities_at_levels(self) -> list[int]:
        """The ask's priority as each queue on its path sees it, with offsets and fences."""
        shown = [self.ask.spec.priority]
        for queue in self.queue.path_to_root:
            shown.append(queue.shown_priority(shown[-1]))
        return shown

    def why(self, short: Resources, victims: Iterable[Allocation]) -> str:
        """What entitles the ask, which is short of the resources in `short`, to these victims, as a sentence."""
        if not self.has_guarantee or (
            self.preempts_within and all(one.application.queue is self.queue for one in victims)
        ):
            priority = self.ask.spec.priority
            return preemption.priority(self.queue.written, priority)
        guaranteed = frozenset().union(*self._entitled[1:])
        wanted = short.keys() & guaranteed or guaranteed
        level = next(level for level, rights in enumerate(self._entitled) if level and rights & wanted)
        name = min(self._entitled[level] & wanted)
        one = next(one for one in self.queue.path_to_root[:level] if one.guaranteed[name])
        return preemption.below_guarantee(one.written, name, in_use(one)[name], one.guaranteed[name])

    def victim_leaves(self) -> Iterator[Queue]:
        """The leaf queues with possible victims, as far as guarantees go."""
        if self.preempts_within and self.victim_queue(self.queue) is not None:
            yield self.queue
        for level, rights in enumerate(self._entitled):
            if level and rights:
                for child in self.queue.path_to_root[level].children.values():
                    if child is not self.queue.path_to_root[level - 1]:
                        yield from self._leaves_to_spare(child)

    def _leaves_to_spare(self, queue: Queue) -> Iterator[Queue]:
        """What a victim frees of something short, its queues use above their guarantees, whether guaranteed or not."""
        self.budget.visits += 1
        used, leaving, guaranteed = queue.allocated, queue.leaving, queue.guaranteed
        items = self.ask.request_class.items
        if not any(used.get(name, 0) - leaving.get(name, 0) > guaranteed.get(name, 0) for name, _ in items):
            kept = next((name for name, _ in items if used.get(name, 0) and guaranteed.get(name, 0)), None)
            if kept is not None and len(self.protected) < QUEUES_NOTED_MAX:
                self.protected[queue] = kept
            return
        if queue.applications and self.victim_queue(queue) is not None:
            yield queue
        for child in queue.children.values():
            yield from self._leaves_to_spare(child)

    def victim_queue(self, leaf: Queue) -> VictimQueue | None:
        """What holds for victims in the leaf; None if the ask may not preempt anything there."""
        if leaf not in self._victim_queues:
            self._victim_queues[leaf] = self._new_victim_queue(leaf)
        return self._victim_queues[leaf]

    def _new_victim_queue(self, leaf: Queue) -> VictimQueue | None:
        if leaf.properties.preemption_policy is PreemptionPolicy.DISABLED:
            return None
        if leaf is self.queue:
            lower = self.ask.spec.priority - 1
            return VictimQueue(0, (), (), lower) if self.preempts_within else None
        way = self.queue.path_to_root
        level = next(level for level, one in enumerate(way) if one in leaf.path_to_root)
        if not self._entitled[level]:
            return None
        below = leaf.path_to_root[: leaf.path_to_root.index(way[level])]
        budgets = tuple(self._budget(one) for one in below if one.guaranteed)
        return VictimQueue(level, below, budgets, self._priorities[level])

    def budgets_of(self, leaf: Queue) -> list[tuple[Queue, Budget]]:
        """What holds for victims in the leaf: each queue with a guarantee, and what it can spare."""
        found = self.victim_queue(leaf)
        return [(one, self._budget(one)) for one in found.below if one.guaranteed] if found is not None else []

    def _budget(self, queue: Queue) -> Budget:
        """The budget of the queue. All leaves below a queue share its budget."""
        if queue not in self._budgets:
            used = queue.allocated.minus(queue.leaving)
            self._budgets[queue] = Budget(
                {name: used[name] - amount for name, amount in queue.guaranteed.items() if amount}
            )
        return self._budgets[queue]

    def may_be_preempted(
        self, allocations: Iterable[Allocation], short: Resources, at: Node | None = None
    ) -> Iterator[Candidate]:
        """Those of the allocations, in their order, that may be preempted for the resources in `short`: on the node
        `at`, or, if that is None, for what a max lacks. A gang that is disrupted as a whole comes once."""
        seen: set[Application] = set()
        for allocation in allocations:
            self.budget.visits += 1
            if not may_be_preempted(self.partition.spec, allocation):
                continue
            application = allocation.application
            victim_queue = self.victim_queue(application.queue)
            if victim_queue is None or application is self.application:
                continue
            if self._entitled[victim_queue.common_ancestor].isdisjoint(short):
                continue
            if application.is_disrupted_as_one:
                if application not in seen:
                    seen.add(application)
                    yield from self._whole(allocation, victim_queue, at)
            elif victim_queue.admits(allocation.spec.priority):
                yield candidate(allocation, self.unit, victim_queue.budgets)

    def _whole(self, allocation: Allocation, victim_queue: VictimQueue, at: Node | None) -> Iterator[Candidate]:
        """The gang of the allocation, which is disrupted as a whole, if each of its members may be preempted."""
        members = allocation.application.disrupted_together()
        self.budget.visits += len(members)
        if all(
            may_be_preempted(self.partition.spec, one) and victim_queue.admits(one.spec.priority) for one in members
        ):
            yield whole_candidate(allocation, members, self.unit, victim_queue.budgets, at)

    def victims_among(self, allocations: Iterable[Allocation]) -> VictimSet | None:
        """The victim set among these allocations if only a max lacks room, and no node does, so victims may run
        anywhere."""
        there = (one for one in allocations if one.application.allocations.get(one.uuid) is one)
        return smallest_set(self.may_be_preempted(there, self.lacking), self.lacking, self.unit, self.budget)


def _preempts_within(application: Application, ask: Ask) -> bool:
    """Whether the ask may preempt in its own leaf: not for a part of a gang that lacks more than this one. For slots
    victims are chosen as a whole."""
    if application.queue.properties.preemption_within_queue is not WithinQueue.PRIORITY:
        return False
    return (
        not ask.spec.placeholder
        or ask.spec.slot
        or sum(group.pending for group in application.groups.values() if group.placeholder) <= 1
    )


def is_closed(application: Application, group: AskGroup) -> bool:
    """Whether the class of the group was found blocked or unschedulable."""
    ancestors = (application, *application.queue.path_to_root)
    return (
        bool(group.needs)
        and application.propagates_demand
        and any(group.pending_class in ancestor.pending_index.blocked_by for ancestor in ancestors)
    )


def no_right(application: Application, ask: Ask) -> str:
    """Why nothing will ever be preempted for the ask, if it requires no node; '' if something may be."""
    way, names = application.queue.path_to_root, [name for name, _ in ask.request_class.items]
    if application.queue.properties.preemption_within_queue is WithinQueue.PRIORITY:
        return ""
    if any(queue.guaranteed[name] for queue in way for name in names):
        return ""
    return preemption.no_guarantee(of_others=any(queue.guaranteed for queue in way))


def in_use(queue: Queue) -> Resources:
    """What counts against the guarantee of the queue: allocations that are not being released, and entitled
    reservations."""
    return queue.allocated.minus(queue.leaving).plus(queue.quota_reserved)
