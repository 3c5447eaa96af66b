"""request classes: one object per distinct request, known as long as somebody asks for it, and parked while no node
fits it."""

from __future__ import annotations

from schedulerd.core.model.request_class import RequestClasses
from schedulerd.core.quotas.limit_subject import LimitSubject
from schedulerd.core.resources import Resources


def test_equal_requests_are_one_shape_while_it_is_used() -> None:
    request_classes = RequestClasses()
    request_class = request_classes.of(Resources(memory=1, gpu=0))
    request_classes.use(request_class)
    assert request_classes.of(Resources(memory=1)) is request_class
    assert request_classes.of(Resources(memory=2)) is not request_class


def test_a_shape_has_its_amounts_without_zeros_and_by_name() -> None:
    request_class = RequestClasses().of(Resources(vcore=2, gpu=0, memory=1))
    assert request_class.items == (("memory", 1), ("vcore", 2))
    assert dict(request_class.resources) == {"memory": 1, "vcore": 2}


def test_a_shape_nobody_asks_for_is_forgotten() -> None:
    request_classes = RequestClasses()
    request_class = request_classes.of(Resources(memory=1))
    request_classes.use(request_class)
    request_classes.use(request_class)
    request_classes.mark_unschedulable(request_class)
    request_classes.disuse(request_class)
    assert list(request_classes.known()) == [request_class]
    assert list(request_classes.unschedulable()) == [request_class]
    request_classes.disuse(request_class)
    assert list(request_classes.known()) == []
    assert list(request_classes.unschedulable()) == []
    assert not request_class.unschedulable
    assert request_classes.of(Resources(memory=1)) is not request_class


def test_a_shape_that_was_forgotten_gives_way_to_the_one_that_is_known_now() -> None:
    request_classes = RequestClasses()
    forgotten = request_classes.of(Resources(memory=1))
    assert request_classes.current(forgotten) is forgotten, "nobody else asks for as much"
    known = request_classes.of(Resources(memory=1))
    request_classes.use(known)
    assert request_classes.current(forgotten) is known
    assert request_classes.current(known) is known


def test_a_shape_is_parked_once_and_woken_once() -> None:
    request_classes = RequestClasses()
    request_class, other = request_classes.of(Resources(memory=1)), request_classes.of(Resources(memory=2))
    for one in (request_class, other):
        request_classes.use(one)
        request_classes.mark_unschedulable(one)
        request_classes.mark_unschedulable(one)
    assert list(request_classes.unschedulable()) == [request_class, other]
    request_classes.mark_schedulable(request_class)
    request_classes.mark_schedulable(request_class)
    assert list(request_classes.unschedulable()) == [other]
    assert (request_class.unschedulable, other.unschedulable) == (False, True)


def test_a_request_on_somebodys_account_is_a_shape_of_its_own() -> None:
    request_classes, ann, bob = RequestClasses(), LimitSubject("ann", ""), LimitSubject("bob", "")
    plain = request_classes.of(Resources(memory=1))
    of_ann = request_classes.with_account(plain, ann, starts=False)
    request_classes.use(of_ann)
    assert (of_ann.items, of_ann.limit_subject) == (plain.items, ann)
    assert request_classes.with_account(plain, LimitSubject("ann", ""), starts=False) is of_ann, (
        "equal parties are interchangeable"
    )
    assert request_classes.with_account(plain, ann, starts=True) is not of_ann
    assert request_classes.with_account(plain, bob, starts=False) is not of_ann
    assert request_classes.with_account(plain, None, starts=False) is plain
    request_classes.disuse(of_ann)
    assert request_classes.with_account(plain, ann, starts=False) is not of_ann


def test_when_everything_is_lined_up_anew_no_shape_is_known() -> None:
    request_classes = RequestClasses()
    request_class = request_classes.of(Resources(memory=1))
    request_classes.use(request_class)
    request_classes.mark_unschedulable(request_class)
    request_classes.forget_all()
    assert (list(request_classes.known()), request_classes.any_unschedulable()) == ([], False)
    assert (request_class.uses, request_class.unschedulable) == (0, False)
