"""Shapes: one object per distinct request, known as long as somebody asks for it, and woken by what has room."""

from __future__ import annotations

from schedulerd.core.model.shape import Shapes
from schedulerd.core.resources import Resources


def test_equal_requests_are_one_shape_while_it_is_used() -> None:
    shapes = Shapes()
    shape = shapes.of(Resources(memory=1, gpu=0))
    shapes.use(shape)
    assert shapes.of(Resources(memory=1)) is shape
    assert shapes.of(Resources(memory=2)) is not shape


def test_a_shape_nobody_asks_for_is_forgotten() -> None:
    shapes = Shapes()
    shape = shapes.of(Resources(memory=1))
    shapes.use(shape)
    shapes.use(shape)
    shapes.park(shape)
    shapes.disuse(shape)
    assert list(shapes.known()) == [shape]
    assert list(shapes.parked()) == [shape]
    shapes.disuse(shape)
    assert list(shapes.known()) == []
    assert list(shapes.parked()) == []
    assert not shape.parked


def test_a_node_wakes_exactly_what_fits_there() -> None:
    shapes = Shapes()
    small, large, other = (
        shapes.of(Resources(amounts)) for amounts in ({"memory": 2}, {"memory": 9}, {"memory": 1, "gpu": 1})
    )
    for shape in (small, large, other):
        shapes.use(shape)
        shapes.park(shape)
    shapes.wake(Resources(memory=5))
    assert [shape.parked for shape in (small, large, other)] == [False, True, True]
    assert list(shapes.parked()) == [large, other]
