"""Who is next among the children of a queue: the index against a plain sorted list."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.model.line import NOTHING, Contender, Lines
from schedulerd.core.model.shape import Shape
from tests.unit.core.builders import a_shape

CONTENDERS = 6
SHAPES = 4


class Named(Contender):
    __slots__ = ("key", "name")

    def __init__(self, name: int) -> None:
        super().__init__()
        self.name = name
        self.key = 0.0

    def place(self) -> tuple[float, int]:
        return (self.key, self.name)


class World:
    """Some contenders in lines, and beside them what a naive implementation would know."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.contenders = [Named(name) for name in range(CONTENDERS)]
        self.shapes = [a_shape(memory=1 + number) for number in range(SHAPES)]
        self.closed: dict[Shape, None] = {}

    def naive_first(self) -> Named | None:
        able = [
            one
            for one in self.contenders
            if any(not shape.parked and shape not in self.closed for shape in one.needs)
        ]
        return min(able, key=Named.place, default=None)

    def do(self, what: str, who: int, shapes: frozenset[int], key: float) -> None:
        contender = self.contenders[who]
        if what == "stand":
            contender.key = key
            self.lines.stand(contender, frozenset(self.shapes[at] for at in shapes), contender.place())
        elif what == "rekey":
            contender.key = key if contender.needs else contender.key
            self.lines.rekey(contender, contender.place())
        elif what == "park":
            for at in shapes:
                self.shapes[at].parked = not self.shapes[at].parked
        else:
            self.closed = dict.fromkeys(self.shapes[at] for at in shapes)


steps = st.tuples(
    st.sampled_from(["stand", "stand", "rekey", "rekey", "park", "close"]),
    st.integers(0, CONTENDERS - 1),
    st.frozensets(st.integers(0, SHAPES - 1), max_size=SHAPES),
    st.sampled_from([0.0, 0.5, 0.5, 1.0, 2.0]),
)


@given(st.lists(steps, max_size=120))
def test_first_is_what_a_sorted_list_says(plan: list[tuple[str, int, frozenset[int], float]]) -> None:
    world = World()
    for step in plan:
        world.do(*step)
        expected = world.naive_first()
        assert world.lines.first(world.closed) is expected
        assert world.lines.is_open(world.closed) is (expected is not None)
        waiting = sorted((one.place(), one.name) for one in world.contenders if one.needs)
        assert sorted((key, one.name) for key, one in world.lines if isinstance(one, Named)) == waiting
        event("somebody is first" if expected is not None else "nobody is first")
        if expected is None and waiting:
            event("everybody waits for what is parked or closed")


def test_who_needs_nothing_stands_nowhere() -> None:
    lines, one = Lines(), Named(1)
    lines.stand(one, frozenset({a_shape(memory=1)}), (0.0, 1))
    lines.stand(one, NOTHING, (0.0, 1))
    assert one.entry is None
    assert lines.first(()) is None
    lines.rekey(one, (5.0, 1))
    assert list(lines) == []


def test_new_places_do_not_pile_up() -> None:
    """One contender whose share changes with each placement leaves a bounded number of stale entries behind."""
    lines, shape = Lines(), a_shape(memory=1)
    busy, idle = Named(1), Named(2)
    lines.stand(idle, frozenset({shape}), (-1.0, 2))
    lines.stand(busy, frozenset({shape}), (0.0, 1))
    for times in range(10_000):
        lines.rekey(busy, (float(times), 1))
    assert lines.first(()) is idle
    assert sum(len(line.heap) for line in lines._lines.values()) < 100


def test_an_empty_line_is_forgotten() -> None:
    lines, one = Lines(), Named(1)
    for size in range(500):
        lines.stand(one, frozenset({a_shape(memory=size + 1)}), (0.0, 1))
    assert len(lines._lines) == 1
