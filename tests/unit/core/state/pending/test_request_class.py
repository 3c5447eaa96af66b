"""Classes of asks: one object per distinct request, and one per request and account, known as long as anybody asks."""

from __future__ import annotations

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.pending.request_class import PendingClass, RequestClasses
from schedulerd.core.state.quotas.limit_subject import LimitSubject
from schedulerd.core.state.quotas.quota_key import PLAIN, QuotaKey


def pending(classes: RequestClasses, key: QuotaKey = PLAIN, **amounts: int) -> PendingClass:
    return classes.pending_class(classes.of(Resources(amounts)), key)


def test_equal_requests_are_one_class_while_it_is_used() -> None:
    classes = RequestClasses()
    one = pending(classes, memory=1, gpu=0)
    classes.use(one)
    assert classes.of(Resources(memory=1)) is one.request_class
    assert pending(classes, memory=1) is one
    assert classes.of(Resources(memory=2)) is not one.request_class


def test_a_request_class_has_its_amounts_without_zeros_and_by_name() -> None:
    request_class = RequestClasses().of(Resources(vcore=2, gpu=0, memory=1))
    assert request_class.items == (("memory", 1), ("vcore", 2))
    assert dict(request_class.resources) == {"memory": 1, "vcore": 2}


def test_a_class_that_no_ask_has_is_forgotten() -> None:
    classes = RequestClasses()
    one = pending(classes, memory=1)
    classes.use(one)
    classes.use(one)
    classes.mark_unschedulable(one)
    classes.disuse(one)
    assert (list(classes.known()), list(classes.known_requests())) == ([one], [one.request_class])
    assert list(classes.unschedulable()) == [one]
    classes.disuse(one)
    assert (list(classes.known()), list(classes.known_requests())) == ([], [])
    assert list(classes.unschedulable()) == []
    assert not one.unschedulable
    assert classes.of(Resources(memory=1)) is not one.request_class


def test_a_request_class_is_known_as_long_as_any_account_asks_for_it() -> None:
    classes = RequestClasses()
    plain = pending(classes, memory=1)
    starting = classes.pending_class(plain.request_class, QuotaKey(starts_application=True))
    classes.use(plain)
    classes.use(starting)
    classes.disuse(plain)
    assert (list(classes.known()), list(classes.known_requests())) == ([starting], [plain.request_class])


def test_a_class_that_was_forgotten_makes_way_for_the_one_that_is_known_now() -> None:
    classes = RequestClasses()
    forgotten = classes.of(Resources(memory=1))
    assert classes.current(forgotten) is forgotten, "nobody else asks for as much"
    known = pending(classes, memory=1)
    classes.use(known)
    assert classes.current(forgotten) is known.request_class
    assert classes.current(known.request_class) is known.request_class


def test_a_class_is_marked_once_and_unmarked_once() -> None:
    classes = RequestClasses()
    one, other = pending(classes, memory=1), pending(classes, memory=2)
    for each in (one, other):
        classes.use(each)
        classes.mark_unschedulable(each)
        classes.mark_unschedulable(each)
    assert list(classes.unschedulable()) == [one, other]
    classes.mark_schedulable(one)
    classes.mark_schedulable(one)
    assert list(classes.unschedulable()) == [other]
    assert (one.unschedulable, other.unschedulable) == (False, True)


def test_a_request_on_another_account_is_a_pending_class_of_its_own() -> None:
    classes, ann, bob = RequestClasses(), LimitSubject("ann", ""), LimitSubject("bob", "")
    plain = classes.of(Resources(memory=1))
    of_ann = classes.pending_class(plain, QuotaKey(ann))
    classes.use(of_ann)
    assert (of_ann.request_class, of_ann.items, of_ann.quota_key.limit_subject) == (plain, plain.items, ann)
    assert classes.pending_class(plain, QuotaKey(LimitSubject("ann", ""))) is of_ann, "equal subjects are one"
    assert classes.pending_class(plain, QuotaKey(ann, starts_application=True)) is not of_ann
    assert classes.pending_class(plain, QuotaKey(bob)) is not of_ann
    classes.disuse(of_ann)
    assert classes.pending_class(plain, QuotaKey(ann)) is not of_ann


def test_when_everything_is_enqueued_anew_no_class_is_known() -> None:
    classes = RequestClasses()
    one = pending(classes, memory=1)
    classes.use(one)
    classes.mark_unschedulable(one)
    classes.forget_all()
    assert (list(classes.known()), list(classes.known_requests())) == ([], [])
    assert not classes.any_unschedulable()
    assert (one.uses, one.unschedulable, one.request_class.pending) == (0, False, {})
