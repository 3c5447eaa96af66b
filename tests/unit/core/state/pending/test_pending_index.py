"""Who is next at one place: the lines against a plain sorted list."""

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

CONTENDERS = 5
SHAPES = _SHARED_NEEDS_MAX + 4
"""So many that a entity may need more than fit into a shared line."""
ENTRIES_MAX = 100
"""More than this in a heap of a handful of entities is a leak."""
CLOSING = Block(Queue("q", None, is_leaf=True), BlockReason.QUOTA)

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
    """Some entities in lines, and beside them what a naive implementation would know."""

    def __init__(self) -> None:
        self.lines = PendingIndex()
        self.entities = [Named(name) for name in range(CONTENDERS)]
        self.pending_classes = [a_pending_class(memory=1 + number) for number in range(SHAPES)]
        self.needs: dict[Named, set[PendingClass]] = {one: set() for one in self.entities}
        self.closed: set[PendingClass] = set()

    def needed(self) -> set[PendingClass]:
        return set().union(*self.needs.values())

    def naive_first(self) -> Named | None:
        able = [one for one in self.entities if self.needs[one] - self.closed]
        return min(able, key=Named.place, default=None)

    def do(self, what: str, who: int, numbers: tuple[int, ...], share: float) -> None:
        entity = self.entities[who]
        if what == "rekey":
            entity.share = share
            self.lines.rekey(entity, entity.place())
            return
        for pending_class in (self.pending_classes[number] for number in numbers):
            if what == "need" and pending_class not in self.needs[entity]:
                self.needs[entity].add(pending_class)
                self.lines.need(entity, entity.place(), pending_class)
            elif what == "unneed" and pending_class in self.needs[entity]:
                self.needs[entity].remove(pending_class)
                self.lines.unneed(entity, pending_class)
                self.closed &= self.needed()
            elif what == "close" and pending_class in self.needed() - self.closed:
                self.closed.add(pending_class)
                self.lines.block(pending_class, CLOSING)
            elif what == "reopen" and pending_class in self.closed:
                self.closed.remove(pending_class)
                self.lines.unblock(pending_class)

    def note(self) -> None:
        """Tells hypothesis' statistics which states were reached."""
        if any(len(needs) > _SHARED_NEEDS_MAX for needs in self.needs.values()):
            event("somebody stands alone")
        if self.needed() and self.naive_first() is None:
            event("everybody waits for what is closed")
        if self.closed and self.naive_first() is not None:
            event("something is closed, somebody is first")


steps = st.tuples(
    st.sampled_from(["need", "need", "need", "unneed", "rekey", "rekey", "close", "reopen"]),
    st.integers(0, CONTENDERS - 1),
    st.lists(st.integers(0, SHAPES - 1), min_size=1, max_size=SHAPES, unique=True).map(tuple),
    st.sampled_from([0.0, 0.5, 0.5, 1.0, 2.0]),
)


@given(st.lists(steps, max_size=60), st.booleans())
def test_first_is_what_a_sorted_list_says(plan: list[Step], look_after_each: bool) -> None:
    """Looking drops and replaces stale entries, so it is tried with and without it in between."""
    world = World()
    for step in plan:
        world.do(*step)
        world.note()
        if look_after_each:
            assert world.lines.first() is world.naive_first()
        assert set(world.lines.pending_classes()) == world.needed()
        assert set(world.lines.blocked_by) == world.closed
    assert world.lines.first() is world.naive_first()
    standing = [(key, one.name) for key, one in world.lines if isinstance(one, Named)]
    assert sorted(standing) == sorted((one.place(), one.name) for one in world.entities if world.needs[one])


def all_lines(lines: PendingIndex) -> set[object]:
    return {line for by_shape in lines._by_class.values() for line in by_shape}


def stand(lines: PendingIndex, name: int, *pending_classes: PendingClass) -> Named:
    one = Named(name)
    for pending_class in pending_classes:
        lines.need(one, one.place(), pending_class)
    return one


def leave(lines: PendingIndex, one: Named) -> None:
    for pending_class in list(one.needs):
        lines.unneed(one, pending_class)


def test_an_entity_that_needs_nothing_has_no_position() -> None:
    lines, pending_class = PendingIndex(), a_pending_class(memory=1)
    one = stand(lines, 1, pending_class)
    leave(lines, one)
    assert (one.class_order, one.entry) == (None, None)
    assert lines.first() is None
    lines.rekey(one, (5.0, 1))
    assert list(lines) == []


def test_entities_that_need_the_same_classes_share_a_class_order() -> None:
    lines, small, large = PendingIndex(), a_pending_class(memory=1), a_pending_class(memory=2)
    one, other, third = stand(lines, 1, small, large), stand(lines, 2, large, small), stand(lines, 3, small)
    assert one.class_order is other.class_order
    assert third.class_order is not one.class_order
    assert len(all_lines(lines)) == 2


@pytest.mark.parametrize("count", [1, _SHARED_NEEDS_MAX, _SHARED_NEEDS_MAX + 1, 5 * _SHARED_NEEDS_MAX])
def test_it_waits_as_long_as_all_it_needs_is_blocked(count: int) -> None:
    lines = PendingIndex()
    pending_classes = [a_pending_class(memory=1 + size) for size in range(count)]
    one = stand(lines, 1, *pending_classes)
    for pending_class in pending_classes:
        assert lines.first() is one
        lines.block(pending_class, CLOSING)
    assert lines.first() is None
    for pending_class in pending_classes:
        lines.unblock(pending_class)
        assert lines.first() is one


def test_what_is_blocked_stays_blocked_for_an_entity_that_comes_later() -> None:
    lines, pending_class = PendingIndex(), a_pending_class(memory=1)
    stand(lines, 2, pending_class)
    lines.block(pending_class, CLOSING)
    first = stand(lines, 1, pending_class)
    assert lines.first() is None
    lines.unblock(pending_class)
    assert lines.first() is first


@pytest.mark.parametrize("others", [0, 2 * _SHARED_NEEDS_MAX], ids=["shared line", "line of its own"])
def test_a_class_that_no_entity_needs_is_forgotten_with_its_block(others: int) -> None:
    lines, pending_class = PendingIndex(), a_pending_class(memory=1)
    stand(lines, 1, *(a_pending_class(memory=2 + size) for size in range(others)))
    one = stand(lines, 2, pending_class, *(a_pending_class(memory=100 + size) for size in range(others)))
    lines.block(pending_class, CLOSING)
    lines.unneed(one, pending_class)
    assert pending_class not in lines
    assert pending_class not in lines.blocked_by
    lines.need(one, one.place(), pending_class)
    assert lines.blocked_by == {}


def test_a_block_outlives_the_move_of_the_last_entity_with_the_class_to_another_class_order() -> None:
    lines, pending_class = PendingIndex(), a_pending_class(memory=1)
    one = stand(lines, 1, pending_class)
    lines.block(pending_class, CLOSING)
    for size in range(2 * _SHARED_NEEDS_MAX):
        lines.need(one, one.place(), a_pending_class(memory=2 + size))
    assert lines.blocked_by == {pending_class: CLOSING}


def test_an_empty_class_order_is_forgotten() -> None:
    lines, one = PendingIndex(), Named(1)
    for size in range(500):
        pending_class = a_pending_class(memory=1 + size)
        lines.need(one, one.place(), pending_class)
        if size:
            lines.unneed(one, next(iter(one.needs)))
    assert len(all_lines(lines)) == len(lines.pending_classes()) == len(lines._shared) == lines._count == 1
    leave(lines, one)
    assert all_lines(lines) == set()
    assert (lines.pending_classes(), lines._shared, lines._count) == ([], {}, 0)


def test_new_positions_do_not_pile_up_in_a_class_order() -> None:
    """One entity whose share changes with each placement leaves a bounded number of stale entries behind."""
    lines, pending_class = PendingIndex(), a_pending_class(memory=1)
    idle, busy = stand(lines, 0, pending_class), stand(lines, 1, pending_class)
    for times in range(5_000):
        busy.share = float(times)
        lines.rekey(busy, busy.place())
    assert lines.first() is idle
    assert busy.class_order is not None
    assert len(busy.class_order.heap) < ENTRIES_MAX


def test_new_heads_do_not_pile_up_in_the_front() -> None:
    """Among the others is a line whose head changes all the time, behind one that stays first."""
    lines = PendingIndex()
    idle, busy = stand(lines, 0, a_pending_class(memory=1)), stand(lines, 1, a_pending_class(memory=2))
    for times in range(5_000):
        busy.share = 5_000.0 - times
        lines.rekey(busy, busy.place())
        assert lines.first() is idle
    assert len(lines._front) < ENTRIES_MAX


def test_blocking_and_unblocking_does_not_pile_up_in_the_front() -> None:
    lines, pending_class = PendingIndex(), a_pending_class(memory=2)
    idle = stand(lines, 0, a_pending_class(memory=1))
    stand(lines, 1, pending_class)
    for _ in range(5_000):
        lines.block(pending_class, CLOSING)
        lines.unblock(pending_class)
        assert lines.first() is idle
    assert len(lines._front) < ENTRIES_MAX


def test_lines_that_come_and_go_do_not_pile_up_in_the_front() -> None:
    lines = PendingIndex()
    idle = stand(lines, 0, a_pending_class(memory=1))
    for size in range(2_000):
        leave(lines, stand(lines, 1, a_pending_class(memory=2 + size)))
        assert lines.first() is idle
    assert len(lines._front) < ENTRIES_MAX
