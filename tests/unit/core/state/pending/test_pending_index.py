"""Which entity is first at one parent: the pending index against a plain sorted list."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.parent_entity import Block, BlockReason
from schedulerd.core.state.pending.pending_index import _SHARED_NEEDS_MAX, PendingIndex, SchedulingEntity
from schedulerd.core.state.pending.request_class import PendingClass
from tests.unit.core.builders import a_pending_class

pytestmark = pytest.mark.interpreted

ENTITIES = 5
CLASSES = _SHARED_NEEDS_MAX + 4
"""So many that an entity may need more than a shared class order can have."""
ENTRIES_MAX = 100
"""More than this in a heap of a handful of entities is a leak."""
BLOCK = Block(Queue("q", None, is_leaf=True), BlockReason.QUOTA)

Step = tuple[str, int, tuple[int, ...], float]


class Named(SchedulingEntity):
    __slots__ = ("name", "share")

    def __init__(self, name: int) -> None:
        super().__init__()
        self.name = name
        self.share = 0.0

    def place(self) -> tuple[float, int]:
        return (self.share, self.name)


class World:
    """Some entities in the index, and beside them what a naive implementation would know."""

    def __init__(self) -> None:
        self.index = PendingIndex()
        self.entities = [Named(name) for name in range(ENTITIES)]
        self.pending_classes = [a_pending_class(memory=1 + number) for number in range(CLASSES)]
        self.needs: dict[Named, set[PendingClass]] = {one: set() for one in self.entities}
        self.blocked: set[PendingClass] = set()

    def needed(self) -> set[PendingClass]:
        return set().union(*self.needs.values())

    def naive_first(self) -> Named | None:
        able = [one for one in self.entities if self.needs[one] - self.blocked]
        return min(able, key=Named.place, default=None)

    def do(self, what: str, who: int, numbers: tuple[int, ...], share: float) -> None:
        entity = self.entities[who]
        if what == "rekey":
            entity.share = share
            self.index.rekey(entity, entity.place())
            return
        for pending_class in (self.pending_classes[number] for number in numbers):
            if what == "enqueue" and pending_class not in self.needs[entity]:
                self.needs[entity].add(pending_class)
                self.index.enqueue(entity, entity.place(), pending_class)
            elif what == "dequeue" and pending_class in self.needs[entity]:
                self.needs[entity].remove(pending_class)
                self.index.dequeue(entity, pending_class)
                self.blocked &= self.needed()
            elif what == "block" and pending_class in self.needed() - self.blocked:
                self.blocked.add(pending_class)
                self.index.block(pending_class, BLOCK)
            elif what == "unblock" and pending_class in self.blocked:
                self.blocked.remove(pending_class)
                self.index.unblock(pending_class)

    def note(self) -> None:
        """Tells hypothesis' statistics which states were reached."""
        if any(len(needs) > _SHARED_NEEDS_MAX for needs in self.needs.values()):
            event("an entity has a class order of its own")
        if self.needed() and self.naive_first() is None:
            event("all entities wait for blocked classes")
        if self.blocked and self.naive_first() is not None:
            event("a class is blocked, an entity is first")


steps = st.tuples(
    st.sampled_from(["enqueue", "enqueue", "enqueue", "dequeue", "rekey", "rekey", "block", "unblock"]),
    st.integers(0, ENTITIES - 1),
    st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=CLASSES, unique=True).map(tuple),
    st.sampled_from([0.0, 0.5, 0.5, 1.0, 2.0]),
)


@given(st.lists(steps, max_size=60), st.booleans())
def test_first_is_what_a_sorted_list_says(plan: list[Step], read_after_each: bool) -> None:
    """Reading drops and replaces stale entries, so it is tried with and without it in between."""
    world = World()
    for step in plan:
        world.do(*step)
        world.note()
        if read_after_each:
            assert world.index.first() is world.naive_first()
        assert set(world.index.pending_classes()) == world.needed()
        assert set(world.index.blocked_by) == world.blocked
    assert world.index.first() is world.naive_first()
    entered = [(key, one.name) for key, one in world.index if isinstance(one, Named)]
    assert sorted(entered) == sorted((one.place(), one.name) for one in world.entities if world.needs[one])


def class_orders(index: PendingIndex) -> set[object]:
    return {class_order for of_class in index._by_class.values() for class_order in of_class}


def enter(index: PendingIndex, name: int, *pending_classes: PendingClass) -> Named:
    one = Named(name)
    for pending_class in pending_classes:
        index.enqueue(one, one.place(), pending_class)
    return one


def leave(index: PendingIndex, one: Named) -> None:
    for pending_class in list(one.needs):
        index.dequeue(one, pending_class)


def test_an_entity_that_needs_nothing_has_no_position() -> None:
    index, pending_class = PendingIndex(), a_pending_class(memory=1)
    one = enter(index, 1, pending_class)
    leave(index, one)
    assert (one.class_order, one.entry) == (None, None)
    assert index.first() is None
    index.rekey(one, (5.0, 1))
    assert list(index) == []


def test_entities_that_need_the_same_classes_share_a_class_order() -> None:
    index, small, large = PendingIndex(), a_pending_class(memory=1), a_pending_class(memory=2)
    one, other, third = enter(index, 1, small, large), enter(index, 2, large, small), enter(index, 3, small)
    assert one.class_order is other.class_order
    assert third.class_order is not one.class_order
    assert len(class_orders(index)) == 2


@pytest.mark.parametrize("count", [1, _SHARED_NEEDS_MAX, _SHARED_NEEDS_MAX + 1, 5 * _SHARED_NEEDS_MAX])
def test_it_waits_as_long_as_all_it_needs_is_blocked(count: int) -> None:
    index = PendingIndex()
    pending_classes = [a_pending_class(memory=1 + size) for size in range(count)]
    one = enter(index, 1, *pending_classes)
    for pending_class in pending_classes:
        assert index.first() is one
        index.block(pending_class, BLOCK)
    assert index.first() is None
    for pending_class in pending_classes:
        index.unblock(pending_class)
        assert index.first() is one


def test_what_is_blocked_stays_blocked_for_an_entity_that_comes_later() -> None:
    index, pending_class = PendingIndex(), a_pending_class(memory=1)
    enter(index, 2, pending_class)
    index.block(pending_class, BLOCK)
    first = enter(index, 1, pending_class)
    assert index.first() is None
    index.unblock(pending_class)
    assert index.first() is first


@pytest.mark.parametrize("others", [0, 2 * _SHARED_NEEDS_MAX], ids=["shared class order", "class order of its own"])
def test_a_class_that_no_entity_needs_is_forgotten_with_its_block(others: int) -> None:
    index, pending_class = PendingIndex(), a_pending_class(memory=1)
    enter(index, 1, *(a_pending_class(memory=2 + size) for size in range(others)))
    one = enter(index, 2, pending_class, *(a_pending_class(memory=100 + size) for size in range(others)))
    index.block(pending_class, BLOCK)
    index.dequeue(one, pending_class)
    assert pending_class not in index
    assert pending_class not in index.blocked_by
    index.enqueue(one, one.place(), pending_class)
    assert index.blocked_by == {}


def test_a_block_outlives_the_move_of_the_last_entity_with_the_class_to_another_class_order() -> None:
    index, pending_class = PendingIndex(), a_pending_class(memory=1)
    one = enter(index, 1, pending_class)
    index.block(pending_class, BLOCK)
    for size in range(2 * _SHARED_NEEDS_MAX):
        index.enqueue(one, one.place(), a_pending_class(memory=2 + size))
    assert index.blocked_by == {pending_class: BLOCK}


def test_an_empty_class_order_is_forgotten() -> None:
    index, one = PendingIndex(), Named(1)
    for size in range(500):
        pending_class = a_pending_class(memory=1 + size)
        index.enqueue(one, one.place(), pending_class)
        if size:
            index.dequeue(one, next(iter(one.needs)))
    assert len(class_orders(index)) == len(index.pending_classes()) == len(index._shared) == index._count == 1
    leave(index, one)
    assert class_orders(index) == set()
    assert (index.pending_classes(), index._shared, index._count) == ([], {}, 0)


def test_new_positions_do_not_pile_up_in_a_class_order() -> None:
    """One entity whose share changes with each placement leaves a bounded number of stale entries behind."""
    index, pending_class = PendingIndex(), a_pending_class(memory=1)
    idle, busy = enter(index, 0, pending_class), enter(index, 1, pending_class)
    for times in range(5_000):
        busy.share = float(times)
        index.rekey(busy, busy.place())
    assert index.first() is idle
    assert busy.class_order is not None
    assert len(busy.class_order.heap) < ENTRIES_MAX


def test_new_first_entries_do_not_pile_up_in_the_front() -> None:
    """Among the others is a class order whose first entity changes all the time, behind one that stays first."""
    index = PendingIndex()
    idle, busy = enter(index, 0, a_pending_class(memory=1)), enter(index, 1, a_pending_class(memory=2))
    for times in range(5_000):
        busy.share = 5_000.0 - times
        index.rekey(busy, busy.place())
        assert index.first() is idle
    assert len(index._front) < ENTRIES_MAX


def test_blocking_and_unblocking_does_not_pile_up_in_the_front() -> None:
    index, pending_class = PendingIndex(), a_pending_class(memory=2)
    idle = enter(index, 0, a_pending_class(memory=1))
    enter(index, 1, pending_class)
    for _ in range(5_000):
        index.block(pending_class, BLOCK)
        index.unblock(pending_class)
        assert index.first() is idle
    assert len(index._front) < ENTRIES_MAX


def test_class_orders_that_come_and_go_do_not_pile_up_in_the_front() -> None:
    index = PendingIndex()
    idle = enter(index, 0, a_pending_class(memory=1))
    for size in range(2_000):
        leave(index, enter(index, 1, a_pending_class(memory=2 + size)))
        assert index.first() is idle
    assert len(index._front) < ENTRIES_MAX
