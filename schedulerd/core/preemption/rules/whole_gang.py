"""Victims for a gang that gathers: for all of its slots without room together, or none.

The slots are searched for one after the other (`search.py`). A victim for a later slot may free more than that slot
needs, so that an earlier victim is not needed: those are left out here, the most protected first, until none can be.
A slot can move for that to another node of the plan, or to one where a victim is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.preemption.rules.preemption_context import in_use
from schedulerd.core.preemption.rules.victims import rank_of, unit_weights
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.nodes.packing import rank
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.plans.plan import PlannedPreemption

SLOTS_MAX = 256
"""For a gang that lacks room for more slots nothing is preempted: a search for each of them would take too long."""


def open_groups(partition: Partition, application: Application) -> list[AskGroup]:
    """The groups of slots, in the order in which they are searched for."""
    largest = partition.largest()
    groups = [group for group in application.groups.values() if group.placeholder]
    return sorted(
        (one for one in groups if one.has_ready), key=lambda one: (*rank(one.request_class, largest), one.key())
    )


def open_slots(
    partition: Partition, application: Application, planned: Sequence[PlannedPreemption] = ()
) -> Iterator[tuple[AskGroup, Ask]]:
    """The asks of slots that have neither room nor a right to it, beside what is planned; each once."""
    counts = Counter(one.ask for one in planned)
    for group in open_groups(partition, application):
        for ask in group.in_order():
            if ask.unchecked > ask.entitled + counts[ask]:
                yield group, ask


def lacking(application: Application) -> int:
    """How many slots have neither room nor a right to it."""
    groups = (group for group in application.groups.values() if group.placeholder)
    return sum(max(0, ask.unchecked - ask.entitled) for group in groups for ask in group)


def without_needless(partition: Partition, planned: Sequence[PlannedPreemption]) -> tuple[PlannedPreemption, ...]:
    """The plan with the victims that it needs, all of it together. It must be assumed (`plans.assuming`)."""
    return _Whole(partition, planned).needed()


class _Whole:
    """The plan, while victims are left out: where each slot is, and what is left where."""

    def __init__(self, partition: Partition, planned: Sequence[PlannedPreemption]) -> None:
        self._partition = partition
        self._planned = planned
        self._nodes = [one.node for one in planned]
        names = dict.fromkeys(name for one in planned for name, _ in one.ask.request_class.items)
        freed = dict.fromkeys(victim.node for one in planned for victim in one.victims if victim.node.ordered)
        self._spare = {node: _only(names, _spare(node)) for node in dict.fromkeys((*self._nodes, *freed))}
        """What the slots leave of each node of the plan, and of those where a victim is, of the resources that they ask
        for."""
        self._below_max: list[tuple[Queue, Resources]] = []
        """What their queues leave of their max, of these resources."""
        for queue in planned[0].application.queue.path_to_root:
            used = in_use(queue)
            left = Resources({name: queue.max[name] - used[name] for name in names if name in queue.max})
            self._below_max.append((queue, left))

    def needed(self) -> tuple[PlannedPreemption, ...]:
        unit = unit_weights(self._partition.total())

        def protection(victim: Allocation) -> tuple[tuple[int, int], int]:
            return rank_of(victim), sum(amount * unit.get(name, 0) for name, amount in victim.request_class.items)

        together: dict[Allocation | Application, list[Allocation]] = {}
        for victim in (victim for one in self._planned for victim in one.victims):
            is_whole = victim.application.is_disrupted_as_one
            together.setdefault(victim.application if is_whole else victim, []).append(victim)
        victims = sorted(together.values(), key=lambda some: max(map(protection, some)), reverse=True)
        while True:
            left = [some for some in victims if not self._can_do_without_all(some)]
            if len(left) == len(victims):
                return self._with(dict.fromkeys(victim for some in left for victim in some))
            victims = left

    def _with(self, needed: dict[Allocation, None]) -> tuple[PlannedPreemption, ...]:
        """The plan on the nodes where the slots are now. Victims on a node belong to a slot there."""
        first = {node: at for at, node in reversed(list(enumerate(self._nodes)))}
        victims: list[list[Allocation]] = [[] for _ in self._planned]
        for at, one in enumerate(self._planned):
            for victim in one.victims:
                if victim in needed:
                    is_here = self._nodes[at] is victim.node or victim.node not in first
                    victims[at if is_here else first[victim.node]].append(victim)
        return tuple(
            replace(one, node=node, victims=tuple(of_slot), further=())
            for one, node, of_slot in zip(self._planned, self._nodes, victims, strict=True)
        )

    def _can_do_without_all(self, victims: Sequence[Allocation]) -> bool:
        """Whether all slots have room if these victims stay: one, or a gang that is disrupted as a whole."""
        if len(victims) == 1:
            return self._can_do_without(victims[0])
        nodes, spare = list(self._nodes), {node: Resources(left) for node, left in self._spare.items()}
        below_max = [(queue, Resources(left)) for queue, left in self._below_max]
        if all(map(self._can_do_without, victims)):
            return True
        self._nodes, self._spare, self._below_max = nodes, spare, below_max
        return False

    def _can_do_without(self, victim: Allocation) -> bool:
        """Whether all slots have room if this victim stays; if so, it does."""
        self._partition.retry_timers.budget.visits += 1
        items = victim.request_class.items
        below = [left for queue, left in self._below_max if queue in victim.application.queue.path_to_root]
        if any(name in left and left[name] < amount for left in below for name, amount in items):
            return False
        if victim.node in self._spare and not self._makes_do(victim.node, items):
            return False
        for left in below:
            left.subtract((name, amount) for name, amount in items if name in left)
        return True

    def _makes_do(self, node: Node, items: Items) -> bool:
        """Takes the items back from the node, and moves slots from it until it has room for the others; False, with
        nothing changed, if that is not possible."""
        self._take(node, items, 1)
        moves: list[tuple[int, Node]] = []
        for at, one in enumerate(self._nodes) if _is_short(self._spare[node]) else ():
            if one is node and _is_short(self._spare[node]):
                other = self._other_node(self._planned[at].ask.request_class, node)
                if other is not None:
                    self._move(at, other)
                    moves.append((at, other))
        if not _is_short(self._spare[node]):
            return True
        for at, _ in moves:
            self._move(at, node)
        self._take(node, items, -1)
        return False

    def _other_node(self, request_class: RequestClass, node: Node) -> Node | None:
        if request_class.required_node or self._partition.constraints.affinity(request_class) is not None:
            return None
        for other, spare in self._spare.items():
            if other is not node and spare.lacks(request_class.items) is None:
                self._partition.retry_timers.budget.visits += 1
                if self._partition.objection(request_class, other) is None:
                    return other
        return None

    def _move(self, at: int, node: Node) -> None:
        items = self._planned[at].ask.request_class.items
        self._take(self._nodes[at], items, -1)
        self._take(node, items, 1)
        self._nodes[at] = node

    def _take(self, node: Node, items: Items, times: int) -> None:
        spare = self._spare[node]
        for name, amount in items:
            if name in spare:
                spare[name] -= times * amount


def _spare(node: Node) -> Resources:
    return node.available.plus(node.leaving).minus(node.entitled_reserved)


def _only(names: dict[str, None], amounts: Resources) -> Resources:
    return Resources({name: amounts[name] for name in names})


def _is_short(spare: Resources) -> bool:
    return any(amount < 0 for amount in spare.values())
