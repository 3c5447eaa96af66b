"""Which ask is next, worked out the slow way: sort everything anew, take the first that rules and nodes allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import ApplicationOrder, PriorityPolicy, QueueOrder
from schedulerd.core.views.values import Amounts, ApplicationView, PartitionView, QueueView
from tests.property.naive import Recount

PLACEABLE = (ApplicationState.ACCEPTED, ApplicationState.STARTING, ApplicationState.RUNNING)


def largest_share(used: Amounts, *measures: Amounts) -> Fraction:
    """The largest share of what the first of these that names the type says; 1 if that is nothing."""
    wholes = ((amount, next((one[name] for one in measures if name in one), None)) for name, amount in used.items())
    shares = (Fraction(amount, whole) if whole else Fraction(1) for amount, whole in wholes if whole is not None)
    return max(shares, default=Fraction(0))


def fits(size: Amounts, room: Amounts) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in size.items())


def rank(priority: int | None) -> int:
    """Highest first, nothing pending last."""
    return 2**40 if priority is None else -priority


class Sorted:
    """The partition as it is shown, walked from the root. Keys of asks sort by age, ids of applications too."""

    def __init__(self, partition: PartitionView, recount: Recount) -> None:
        self._recount = recount
        self._queues = {queue.path: queue for queue in partition.queues}
        self._applications = partition.applications
        self._rooms = [node.available for node in partition.nodes if node.schedulable]
        capacity = Resources()
        for node in partition.nodes:
            capacity.add(node.capacity.items() if node.schedulable else ())
        self._capacity = capacity.nonzero()

    def next(self) -> tuple[str, str] | None:
        """(application, key) of the ask that has to be placed next."""
        return next(self._placeable(self._queues["root"]), None)

    def _placeable(self, queue: QueueView) -> Iterator[tuple[str, str]]:
        children, applications = self._children(queue), self._applications_in(queue)
        line: list[QueueView | ApplicationView] = [*sorted(children, key=self._queue_order(queue))]
        if self._recount.specs[queue.path].is_leaf:  # children are left from when it was a parent
            line = sorted([*children, *applications], key=self._application_order(queue))
        for one in line:
            if isinstance(one, QueueView):
                yield from self._placeable(one)
            elif self._is_its_turn(queue, one):
                yield from self._asks(one)

    def _asks(self, app: ApplicationView) -> Iterator[tuple[str, str]]:
        for ask in sorted(app.asks, key=lambda one: (-one.priority, one.allocation_key)):
            has_room = any(fits(ask.resources, room) for room in self._rooms)
            if has_room and not self._recount.refusal(app.application_id, ask.resources):
                yield app.application_id, ask.allocation_key

    def _children(self, queue: QueueView) -> list[QueueView]:
        return [one for one in self._queues.values() if one.path.rpartition(".")[0] == queue.path]

    def _applications_in(self, queue: QueueView) -> list[ApplicationView]:
        return [one for one in self._applications if one.queue == queue.path]

    def _is_its_turn(self, queue: QueueView, app: ApplicationView) -> bool:
        """In a state-aware leaf one starts at a time: the first submitted that wants to."""
        if app.state not in PLACEABLE:
            return False
        if queue.application_order != ApplicationOrder.STATE_AWARE or app.state != ApplicationState.ACCEPTED:
            return True
        others = self._applications_in(queue)
        if any(one.state == ApplicationState.STARTING for one in others):
            return False
        passed = {one.application_id for one in others if one.lets_next_start}
        wanting = [one.application_id for one in others if one.state == ApplicationState.ACCEPTED and one.asks]
        is_after = [name for name in wanting if name < app.application_id and name not in passed]
        return app.application_id in wanting and not is_after

    def _queue_order(self, parent: QueueView) -> Callable[[QueueView], tuple[Any, ...]]:
        def order(queue: QueueView) -> tuple[Any, ...]:
            measures = [queue.guaranteed, *self._maxima(queue)]
            if self._recount.specs[parent.path].properties.queue_order is QueueOrder.DRF:
                measures = []
            share = largest_share(queue.allocated, *measures, self._capacity)
            priority = rank(self._queue_priority(queue))
            by_priority = self._recount.specs[parent.path].properties.priority_sort
            first = (priority, share) if by_priority else (share, priority)
            return *first, -sum(queue.pending.values()), queue.path

        return order

    def _application_order(self, leaf: QueueView) -> Callable[[ApplicationView | QueueView], tuple[Any, ...]]:
        """Queues go before applications that are equal otherwise."""

        def order(one: ApplicationView | QueueView) -> tuple[Any, ...]:
            if isinstance(one, QueueView):
                age, name, priority = "", one.path, self._queue_priority(one)
            else:
                age = name = one.application_id
                priority = self._application_priority(one)
                if leaf.application_order == ApplicationOrder.STATE_AWARE:
                    priority = self._priority_of_its_start(one)
            place: Any = age
            if leaf.application_order in (ApplicationOrder.FAIR, ApplicationOrder.DRF):
                place = largest_share(one.allocated, self._capacity)
            if self._recount.specs[leaf.path].properties.priority_sort:
                return rank(priority), place, age, name
            return place, rank(priority), age, name

        return order

    def _maxima(self, queue: QueueView) -> Iterator[Amounts]:
        """The max of the queue, of its parent, and so on."""
        path = queue.path
        while path:
            yield self._queues[path].max
            path = path.rpartition(".")[0]

    def _application_priority(self, app: ApplicationView) -> int | None:
        return max((ask.priority for ask in app.asks), default=None)

    def _priority_of_its_start(self, app: ApplicationView) -> int | None:
        """One that an older application let start comes after that one, whatever its priority."""
        before = [
            self._application_priority(one)
            for one in self._applications
            if one.queue == app.queue and one.lets_next_start and one.application_id < app.application_id
        ]
        own = self._application_priority(app)
        if own is None or app.state != ApplicationState.ACCEPTED:
            return own
        return min([own, *(one for one in before if one is not None)])

    def _queue_priority(self, queue: QueueView) -> int | None:
        inside = [self._application_priority(app) for app in self._applications_in(queue)]
        inside += [self._queue_priority(child) for child in self._children(queue)]
        pending = [priority for priority in inside if priority is not None]
        if not pending:
            return None
        properties = self._recount.specs[queue.path].properties
        fenced = properties.priority_policy is PriorityPolicy.FENCE
        return properties.priority_offset + (0 if fenced else max(pending))
