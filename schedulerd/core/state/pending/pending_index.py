"""The pending index: the entities at one queue or application, in order, and the blocks there.

Entities that need the same set of pending classes share a class order. A class order is open while at least one class
of its set is not blocked. Blocking a class costs one step for each class order with the class, however many entities it
has, and so does unblocking. An entity that needs many classes has a class order of its own, so that its set can change
without a copy.

Two levels of heaps keep the order: one heap of entities in each class order, and one (`front`) of the first entries of
the open class orders. Both forget lazily: an outdated entry is dropped or corrected when it comes to the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace, merge
from typing import TYPE_CHECKING, Any, TypeAlias

from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.heap import in_order
from schedulerd.core.state.pending.request_class import PendingClass

if TYPE_CHECKING:
    from schedulerd.core.state.pending.parent_entity import Block

Key: TypeAlias = tuple[Any, ...]
"""The sort key of entities, smallest first. Its last element is unique, so there are no ties."""

_SHARED_NEEDS_MAX = 8
"""An entity that needs more classes than this has a class order of its own."""
_SLACK = 32


class SchedulingEntity:
    """Something with a position at its parent: the base of Queue, Application and AskGroup."""

    __slots__ = ("class_order", "entry", "needs", "priority")

    def __init__(self) -> None:
        self.needs: dict[PendingClass, None] = {}
        """The pending classes that it needs at its parent: those of its pending asks, except blocked and inactive
        ones."""
        self.class_order: ClassOrder | None = None
        """The class order that it is in; None if it needs nothing."""
        self.entry: _Entry | None = None
        """Its only valid entry in the class order."""
        self.priority: int | None = None
        """The highest pending priority that it shows its parent; None if nothing is pending."""

    def reset_position(self) -> None:
        """Forgets its position and its needs; only while all positions are rebuilt, because the index is not
        updated."""
        self.needs = {}
        self.class_order = self.entry = None


_Entry: TypeAlias = tuple[Any, ...]
"""Key, ticket and entity. Entries are compared by identity, which does not work for compiled tuples of fixed length."""


class ClassOrder:
    __slots__ = ("heap", "is_shared", "members", "open_classes", "pending_classes", "shown", "ticket")

    def __init__(self, *, is_shared: bool) -> None:
        self.heap: list[_Entry] = []
        self.members = 0
        """How many entities are in it."""
        self.is_shared = is_shared
        self.pending_classes: dict[PendingClass, None] = {}
        self.open_classes = 0
        """How many of its classes are not blocked here."""
        self.shown: _Entry | None = None
        """The first entry with which it is in the front."""
        self.ticket = 0
        """Number of its only valid entry in the front; 0 if it has none."""

    def first(self) -> _Entry:
        """The entry of its first entity; it must have one."""
        heap = self.heap
        entry = heap[0]
        entity: SchedulingEntity = entry[2]
        while entity.entry is not entry:
            heappop(heap)
            entry = heap[0]
            entity = entry[2]
        return entry

    def enqueue(self, entry: _Entry) -> None:
        """Gives an entity its new position; its old entry here, if there is one, becomes invalid."""
        heap = self.heap
        entity: SchedulingEntity = entry[2]
        if heap and heap[0] is entity.entry:
            entity.entry = entry
            heapreplace(heap, entry)
            return
        entity.entry = entry
        heappush(heap, entry)
        if len(heap) > 2 * self.members + _SLACK:
            self.heap = [valid for valid in heap if valid[2].entry is valid]
            heapify(self.heap)


def _as_key(pending_classes: dict[PendingClass, None]) -> PendingClass | frozenset[PendingClass]:
    return frozenset(pending_classes) if len(pending_classes) > 1 else next(iter(pending_classes))


class PendingIndex:
    """All entities at one parent, and the pending classes that are blocked there."""

    __slots__ = ("_by_class", "_count", "_front", "_serial", "_shared", "blocked_by")

    def __init__(self) -> None:
        self._shared: dict[PendingClass | frozenset[PendingClass], ClassOrder] = {}
        """Class orders by the classes that their members need; usually that is a single class."""
        self._by_class: dict[PendingClass, dict[ClassOrder, None]] = {}
        self._front: list[tuple[Key, int, ClassOrder]] = []
        self._count = 0
        """Number of class orders."""
        self._serial = 0
        self.blocked_by: dict[PendingClass, Block] = {}
        """Pending classes that are blocked here, with their blocks; only classes that an entity here needs."""

    @property
    def places_given(self) -> int:
        """How many positions were given so far, in class orders and in the front; tests count work with it."""
        return self._serial

    def __contains__(self, pending_class: PendingClass) -> bool:
        """Whether any entity here needs the class."""
        return pending_class in self._by_class

    def pending_classes(self) -> list[PendingClass]:
        """All classes that entities here need."""
        return list(self._by_class)

    def first(self) -> SchedulingEntity | None:
        """The first entity of all open class orders; None if no class order is open."""
        front = self._front
        while front:
            _, ticket, class_order = front[0]
            if class_order.ticket != ticket:
                heappop(front)
                continue
            heap = (
                class_order.heap
            )  # what `ClassOrder.first` does, without a call: every allocation comes here three times
            head = heap[0]
            entity: SchedulingEntity = head[2]
            while entity.entry is not head:
                heappop(heap)
                head = heap[0]
                entity = head[2]
            if head is class_order.shown:
                return entity
            class_order.shown = head
            heapreplace(front, (head[0], ticket, class_order))
        return None

    def rekey(self, entity: SchedulingEntity, key: Key) -> None:
        """The entity's sort key changed, and its needs did not. Does nothing if the entity needs nothing."""
        class_order, entry = entity.class_order, entity.entry
        if class_order is None or entry is None or entry[0] == key:
            return
        self._serial += 1
        class_order.enqueue((key, self._serial, entity))
        self._update_front(class_order)

    def enqueue(self, entity: SchedulingEntity, key: Key, pending_class: PendingClass) -> bool:
        """The entity needs one more class. Returns whether it is the first one here that needs it."""
        is_first = pending_class not in self._by_class
        entity.needs[pending_class] = None
        class_order = entity.class_order
        if class_order is None and (known := self._shared.get(pending_class)) is not None:
            self._join(known, entity, key)
            self._update_front(known)
        elif class_order is not None and not class_order.is_shared:
            self._add_class(class_order, pending_class)
            self._update_front(class_order)
        else:
            self._change_class_order(entity, key)
        return is_first

    def dequeue(self, entity: SchedulingEntity, pending_class: PendingClass) -> bool:
        """The entity, which must be here, no longer needs this class. Its sort key is unchanged. Returns whether it was
        the last one here that needed it."""
        del entity.needs[pending_class]
        class_order, entry = entity.class_order, entity.entry
        assert class_order is not None
        assert entry is not None
        if not entity.needs:
            entity.class_order = entity.entry = None
            self._leave(class_order)
        elif not class_order.is_shared and len(entity.needs) > _SHARED_NEEDS_MAX // 2:
            self._drop_class(class_order, pending_class)
        else:
            self._change_class_order(entity, entry[0])
        return pending_class not in self._by_class

    def block(self, pending_class: PendingClass, block: Block) -> None:
        """Blocks the class here until `unblock`."""
        self.blocked_by[pending_class] = block
        for class_order in self._by_class[pending_class]:
            class_order.open_classes -= 1
            if not class_order.open_classes:
                class_order.ticket = 0

    def unblock(self, pending_class: PendingClass) -> None:
        """Unblocks the class here."""
        self.blocked_by.pop(pending_class).propagated_to.pop(self, None)
        for class_order in self._by_class[pending_class]:
            class_order.open_classes += 1
            if class_order.open_classes == 1:
                self._update_front(class_order)

    def first_of(self, pending_class: PendingClass) -> tuple[Key, SchedulingEntity]:
        """The first entity that needs the class, blocked or not, with its key. At least one entity must need it."""
        entry = min([class_order.first() for class_order in self._by_class[pending_class]], key=lambda entry: entry[0])
        entity: SchedulingEntity = entry[2]
        return entry[0], entity

    def in_order(self, pending_class: PendingClass) -> Iterator[SchedulingEntity]:
        """All entities that need the class, in order, blocked or not. No class order may change during the
        iteration."""
        class_orders = [in_order(class_order.heap) for class_order in self._by_class.get(pending_class, ())]
        for entry in merge(*class_orders, key=lambda entry: entry[0]):
            if entry[2].entry is entry:
                yield entry[2]

    def class_orders(self, pending_class: PendingClass) -> Iterable[ClassOrder]:
        """The class orders of the entities that need the class. Each entity is in one class order."""
        return self._by_class.get(pending_class, ())

    def any_of(self, pending_class: PendingClass) -> Iterator[SchedulingEntity]:
        """The entities that need the class, in no order, blocked or not. Nothing is looked for: the first ones cost the
        same however many there are."""
        for class_order in self.class_orders(pending_class):
            for entry in class_order.heap:
                if entry[2].entry is entry:
                    yield entry[2]

    def __iter__(self) -> Iterator[tuple[Key, SchedulingEntity]]:
        """All entities with their keys; for the invariants."""
        class_orders = {class_order: None for class_orders in self._by_class.values() for class_order in class_orders}
        for class_order in class_orders:
            for entry in class_order.heap:
                if entry[2].entry is entry:
                    yield entry[0], entry[2]

    def dismantle(self) -> Iterator[None]:
        for class_orders in self._by_class.values():
            for class_order in class_orders:
                class_order.shown = None
                yield from clear_stepwise(class_order.heap, class_order.pending_classes)
        for block in self.blocked_by.values():
            yield from clear_stepwise(block.propagated_to)
        yield from clear_stepwise(self._front, self._shared, self._by_class, self.blocked_by)

    def _change_class_order(self, entity: SchedulingEntity, key: Key) -> None:
        """Moves the entity to the class order for its needs.

        It joins the new class order before it leaves the old one, so a class that is in both stays known here, with its
        block if it has one.
        """
        old = entity.class_order
        entity.entry = None
        class_order = self._class_order_for(entity)
        self._join(class_order, entity, key)
        if old is not None:
            self._leave(old)
        self._update_front(class_order)

    def _join(self, class_order: ClassOrder, entity: SchedulingEntity, key: Key) -> None:
        entity.class_order = class_order
        class_order.members += 1
        self._serial += 1
        class_order.enqueue((key, self._serial, entity))

    def _class_order_for(self, entity: SchedulingEntity) -> ClassOrder:
        if len(entity.needs) > _SHARED_NEEDS_MAX:
            class_order = ClassOrder(is_shared=False)
        else:
            needs = _as_key(entity.needs)
            known = self._shared.get(needs)
            if known is not None:
                return known
            class_order = self._shared[needs] = ClassOrder(is_shared=True)
        self._count += 1
        for pending_class in entity.needs:
            self._add_class(class_order, pending_class)
        return class_order

    def _leave(self, class_order: ClassOrder) -> None:
        class_order.members -= 1
        if class_order.members:
            return
        self._count -= 1
        if class_order.is_shared:
            del self._shared[_as_key(class_order.pending_classes)]
        for pending_class in list(class_order.pending_classes):
            self._drop_class(class_order, pending_class)
        class_order.ticket = 0

    def _add_class(self, class_order: ClassOrder, pending_class: PendingClass) -> None:
        class_order.pending_classes[pending_class] = None
        self._by_class.setdefault(pending_class, {})[class_order] = None
        if pending_class not in self.blocked_by:
            class_order.open_classes += 1

    def _drop_class(self, class_order: ClassOrder, pending_class: PendingClass) -> None:
        del class_order.pending_classes[pending_class]
        if pending_class not in self.blocked_by:
            class_order.open_classes -= 1
            if not class_order.open_classes:
                class_order.ticket = 0
        class_orders = self._by_class[pending_class]
        del class_orders[class_order]
        if not class_orders:
            del self._by_class[pending_class]
            block = self.blocked_by.pop(pending_class, None)
            if block is not None:
                block.propagated_to.pop(self, None)

    def _update_front(self, class_order: ClassOrder) -> None:
        """Enters an open class order into the front with its present first entry."""
        if not class_order.open_classes:
            return
        head, front = class_order.first(), self._front
        if class_order.ticket and head is class_order.shown:
            return
        class_order.shown = head
        self._serial += 1
        class_order.ticket = self._serial
        entry = (head[0], class_order.ticket, class_order)
        if front and front[0][2] is class_order:
            heapreplace(front, entry)
            return
        heappush(front, entry)
        if len(front) > 2 * self._count + _SLACK:
            self._front = [one for one in front if one[2].ticket == one[1]]
            heapify(self._front)
