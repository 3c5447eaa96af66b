"""Who is next at one place: the lines against a plain sorted list."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.model.host import ClosedFor, Closing
from schedulerd.core.model.line import _SHARED_NEEDS_MAX, Contender, Lines
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape
from tests.unit.core.builders import a_shape

pytestmark = pytest.mark.interpreted

CONTENDERS = 5
SHAPES = _SHARED_NEEDS_MAX + 4
"""So many that a contender may need more than fit into a shared line."""
ENTRIES_MAX = 100
"""More than this in a heap of a handful of contenders is a leak."""
CLOSING = Closing(Queue("q", None, is_leaf=True), ClosedFor.QUOTA)

Step = tuple[str, int, tuple[int, ...], float]


class Named(Contender):
    __slots__ = ("name", "share")

    def __init__(self, name: int) -> None:
        super().__init__()
        self.name = name
        self.share = 0.0

    def place(self) -> tuple[float, int]:
        return (self.share, self.name)


class World:
    """Some contenders in lines, and beside them what a naive implementation would know."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.contenders = [Named(name) for name in range(CONTENDERS)]
        self.shapes = [a_shape(memory=1 + number) for number in range(SHAPES)]
        self.needs: dict[Named, set[Shape]] = {one: set() for one in self.contenders}
        self.closed: set[Shape] = set()

    def needed(self) -> set[Shape]:
        return set().union(*self.needs.values())

    def naive_first(self) -> Named | None:
        able = [one for one in self.contenders if self.needs[one] - self.closed]
        return min(able, key=Named.place, default=None)

    def do(self, what: str, who: int, numbers: tuple[int, ...], share: float) -> None:
        contender = self.contenders[who]
        if what == "rekey":
            contender.share = share
            self.lines.rekey(contender, contender.place())
            return
        for shape in (self.shapes[number] for number in numbers):
            if what == "need" and shape not in self.needs[contender]:
                self.needs[contender].add(shape)
                self.lines.need(contender, contender.place(), shape)
            elif what == "unneed" and shape in self.needs[contender]:
                self.needs[contender].remove(shape)
                self.lines.unneed(contender, shape)
                self.closed &= self.needed()
            elif what == "close" and shape in self.needed() - self.closed:
                self.closed.add(shape)
                self.lines.close(shape, CLOSING)
            elif what == "reopen" and shape in self.closed:
                self.closed.remove(shape)
                self.lines.reopen(shape)

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
        assert set(world.lines.shapes()) == world.needed()
        assert set(world.lines.closed) == world.closed
    assert world.lines.first() is world.naive_first()
    standing = [(key, one.name) for key, one in world.lines if isinstance(one, Named)]
    assert sorted(standing) == sorted((one.place(), one.name) for one in world.contenders if world.needs[one])


def all_lines(lines: Lines) -> set[object]:
    return {line for by_shape in lines._by_shape.values() for line in by_shape}


def stand(lines: Lines, name: int, *shapes: Shape) -> Named:
    one = Named(name)
    for shape in shapes:
        lines.need(one, one.place(), shape)
    return one


def leave(lines: Lines, one: Named) -> None:
    for shape in list(one.needs):
        lines.unneed(one, shape)


def test_who_needs_nothing_stands_nowhere() -> None:
    lines, shape = Lines(), a_shape(memory=1)
    one = stand(lines, 1, shape)
    leave(lines, one)
    assert (one.line, one.entry) == (None, None)
    assert lines.first() is None
    lines.rekey(one, (5.0, 1))
    assert list(lines) == []


def test_those_who_need_the_same_share_a_line() -> None:
    lines, small, large = Lines(), a_shape(memory=1), a_shape(memory=2)
    one, other, third = stand(lines, 1, small, large), stand(lines, 2, large, small), stand(lines, 3, small)
    assert one.line is other.line
    assert third.line is not one.line
    assert len(all_lines(lines)) == 2


@pytest.mark.parametrize("count", [1, _SHARED_NEEDS_MAX, _SHARED_NEEDS_MAX + 1, 5 * _SHARED_NEEDS_MAX])
def test_it_waits_as_long_as_all_it_needs_is_closed(count: int) -> None:
    lines = Lines()
    shapes = [a_shape(memory=1 + size) for size in range(count)]
    one = stand(lines, 1, *shapes)
    for shape in shapes:
        assert lines.first() is one
        lines.close(shape, CLOSING)
    assert lines.first() is None
    for shape in shapes:
        lines.reopen(shape)
        assert lines.first() is one


def test_what_is_closed_stays_closed_for_who_comes_later() -> None:
    lines, shape = Lines(), a_shape(memory=1)
    stand(lines, 2, shape)
    lines.close(shape, CLOSING)
    first = stand(lines, 1, shape)
    assert lines.first() is None
    lines.reopen(shape)
    assert lines.first() is first


@pytest.mark.parametrize("others", [0, 2 * _SHARED_NEEDS_MAX], ids=["shared line", "line of its own"])
def test_a_shape_nobody_needs_is_forgotten_with_its_closing(others: int) -> None:
    lines, shape = Lines(), a_shape(memory=1)
    stand(lines, 1, *(a_shape(memory=2 + size) for size in range(others)))
    one = stand(lines, 2, shape, *(a_shape(memory=100 + size) for size in range(others)))
    lines.close(shape, CLOSING)
    lines.unneed(one, shape)
    assert shape not in lines
    assert shape not in lines.closed
    lines.need(one, one.place(), shape)
    assert lines.closed == {}


def test_a_closing_outlives_the_move_of_the_last_who_needs_it_to_another_line() -> None:
    lines, shape = Lines(), a_shape(memory=1)
    one = stand(lines, 1, shape)
    lines.close(shape, CLOSING)
    for size in range(2 * _SHARED_NEEDS_MAX):
        lines.need(one, one.place(), a_shape(memory=2 + size))
    assert lines.closed == {shape: CLOSING}


def test_an_empty_line_is_forgotten() -> None:
    lines, one = Lines(), Named(1)
    for size in range(500):
        shape = a_shape(memory=1 + size)
        lines.need(one, one.place(), shape)
        if size:
            lines.unneed(one, next(iter(one.needs)))
    assert len(all_lines(lines)) == len(lines.shapes()) == len(lines._shared) == lines._count == 1
    leave(lines, one)
    assert all_lines(lines) == set()
    assert (lines.shapes(), lines._shared, lines._count) == ([], {}, 0)


def test_new_places_do_not_pile_up_in_a_line() -> None:
    """One contender whose share changes with each placement leaves a bounded number of stale entries behind."""
    lines, shape = Lines(), a_shape(memory=1)
    idle, busy = stand(lines, 0, shape), stand(lines, 1, shape)
    for times in range(5_000):
        busy.share = float(times)
        lines.rekey(busy, busy.place())
    assert lines.first() is idle
    assert busy.line is not None
    assert len(busy.line.heap) < ENTRIES_MAX


def test_new_heads_do_not_pile_up_in_the_front() -> None:
    """Among the others is a line whose head changes all the time, behind one that stays first."""
    lines = Lines()
    idle, busy = stand(lines, 0, a_shape(memory=1)), stand(lines, 1, a_shape(memory=2))
    for times in range(5_000):
        busy.share = 5_000.0 - times
        lines.rekey(busy, busy.place())
        assert lines.first() is idle
    assert len(lines._front) < ENTRIES_MAX


def test_closing_and_reopening_does_not_pile_up_in_the_front() -> None:
    lines, shape = Lines(), a_shape(memory=2)
    idle = stand(lines, 0, a_shape(memory=1))
    stand(lines, 1, shape)
    for _ in range(5_000):
        lines.close(shape, CLOSING)
        lines.reopen(shape)
        assert lines.first() is idle
    assert len(lines._front) < ENTRIES_MAX


def test_lines_that_come_and_go_do_not_pile_up_in_the_front() -> None:
    lines = Lines()
    idle = stand(lines, 0, a_shape(memory=1))
    for size in range(2_000):
        leave(lines, stand(lines, 1, a_shape(memory=2 + size)))
        assert lines.first() is idle
    assert len(lines._front) < ENTRIES_MAX
