"""Shapes: one object per distinct request, known as long as somebody asks for it, and parked while no node fits it."""

from __future__ import annotations

from schedulerd.core.model.party import Party
from schedulerd.core.model.shape import Shapes
from schedulerd.core.resources import Resources


def test_equal_requests_are_one_shape_while_it_is_used() -> None:
    shapes = Shapes()
    shape = shapes.of(Resources(memory=1, gpu=0))
    shapes.use(shape)
    assert shapes.of(Resources(memory=1)) is shape
    assert shapes.of(Resources(memory=2)) is not shape


def test_a_shape_has_its_amounts_without_zeros_and_by_name() -> None:
    shape = Shapes().of(Resources(vcore=2, gpu=0, memory=1))
    assert shape.items == (("memory", 1), ("vcore", 2))
    assert dict(shape.resources) == {"memory": 1, "vcore": 2}


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
    assert shapes.of(Resources(memory=1)) is not shape


def test_a_shape_that_was_forgotten_gives_way_to_the_one_that_is_known_now() -> None:
    shapes = Shapes()
    forgotten = shapes.of(Resources(memory=1))
    assert shapes.current(forgotten) is forgotten, "nobody else asks for as much"
    known = shapes.of(Resources(memory=1))
    shapes.use(known)
    assert shapes.current(forgotten) is known
    assert shapes.current(known) is known


def test_a_shape_is_parked_once_and_woken_once() -> None:
    shapes = Shapes()
    shape, other = shapes.of(Resources(memory=1)), shapes.of(Resources(memory=2))
    for one in (shape, other):
        shapes.use(one)
        shapes.park(one)
        shapes.park(one)
    assert list(shapes.parked()) == [shape, other]
    shapes.unpark(shape)
    shapes.unpark(shape)
    assert list(shapes.parked()) == [other]
    assert (shape.parked, other.parked) == (False, True)


def test_a_request_on_somebodys_account_is_a_shape_of_its_own() -> None:
    shapes, ann, bob = Shapes(), Party("ann", ""), Party("bob", "")
    plain = shapes.of(Resources(memory=1))
    of_ann = shapes.gated(plain, ann, starts=False)
    shapes.use(of_ann)
    assert (of_ann.items, of_ann.party) == (plain.items, ann)
    assert shapes.gated(plain, Party("ann", ""), starts=False) is of_ann, "equal parties are interchangeable"
    assert shapes.gated(plain, ann, starts=True) is not of_ann
    assert shapes.gated(plain, bob, starts=False) is not of_ann
    assert shapes.gated(plain, None, starts=False) is plain
    shapes.disuse(of_ann)
    assert shapes.gated(plain, ann, starts=False) is not of_ann


def test_when_everything_is_lined_up_anew_no_shape_is_known() -> None:
    shapes = Shapes()
    shape = shapes.of(Resources(memory=1))
    shapes.use(shape)
    shapes.park(shape)
    shapes.forget_all()
    assert (list(shapes.known()), shapes.any_parked()) == ([], False)
    assert (shape.uses, shape.parked) == (0, False)
