"""What the books say is still to be asked for, and which releases are still to be told."""

from __future__ import annotations

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.books import Books
from tests.unit.client.book_keeping import (
    a_release,
    an_allocation,
    an_ask,
    asked_anew,
    held,
    placed,
    released,
    sized,
    there,
    wanted,
)


def test_an_ask_is_repeated_for_what_is_still_to_come(books: Books) -> None:
    books.sent_ask(an_ask(count=5, priority=3))
    books.heard_allocations(placed(an_allocation("u1"), an_allocation("u2"), an_allocation("u3")))
    books.sent_release(a_release("u1"))
    books.heard_allocations(released(a_release("u1")))
    (ask,) = books.report.asks()
    assert (ask.priority, ask.maxAllocations) == (3, 4), "two are there, and two are to come"
    books.heard_allocations(placed(an_allocation("u4"), an_allocation("u5")))
    assert wanted(books) == {}


def test_an_ask_that_is_said_again_counts_what_came_of_it_before(books: Books) -> None:
    books.sent_ask(an_ask(count=3))
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_ask(an_ask(count=2, priority=9))
    (ask,) = books.report.asks()
    assert (ask.priority, ask.maxAllocations) == (9, 2)
    books.sent_ask(an_ask(count=1))
    assert wanted(books) == {}


@pytest.mark.parametrize("key", ["pod", ""])
def test_what_was_withdrawn_by_either_side_is_not_asked_for(books: Books, key: str) -> None:
    books.sent_ask(an_ask(count=2))
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_ask_release(si_pb2.AllocationAskRelease(applicationID="app", allocationKey=key))
    assert wanted(books) == {}
    assert held(books) == ["u1"]
    for name in ("withdrawn", "rejected"):
        books.sent_ask(an_ask(name))
    books.heard_allocations(
        si_pb2.AllocationResponse(
            releasedAsks=[
                si_pb2.AllocationAskRelease(
                    applicationID="app", allocationKey="withdrawn", terminationType=si_pb2.TIMEOUT
                )
            ],
            rejected=[si_pb2.RejectedAllocationAsk(applicationID="app", allocationKey="rejected")],
        )
    )
    assert wanted(books) == {}


def test_a_release_is_repeated_until_it_is_confirmed(books: Books) -> None:
    books.sent_ask(an_ask(count=2))
    books.heard_allocations(placed(an_allocation("u1"), an_allocation("u2")))
    books.sent_release(a_release("", key="pod"))
    assert [release.UUID for release in books.report.releases()] == ["u1", "u2"]
    books.heard_allocations(released(a_release("u2")))
    assert [release.UUID for release in books.report.releases()] == held(books) == ["u1"]


def test_an_ask_behind_the_release_of_its_allocation_is_asked_for_anew(books: Books) -> None:
    """The pod was refused by its node: it is released and asked for again before the release is confirmed."""
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_release(a_release("u1"))
    books.sent_ask(sized(7))
    assert there(books) == {"u1": ("node", "pod", 1)}
    assert [release.UUID for release in books.report.releases()] == ["u1"]
    assert (wanted(books), asked_anew(books)) == ({}, {"pod": 1}), "it comes after the release"
    books.heard_allocations(released(a_release("u1")))
    assert (wanted(books), asked_anew(books)) == ({"pod": 1}, {})
    books.heard_allocations(placed(an_allocation("u2")))
    assert (wanted(books), asked_anew(books)) == ({}, {})
    assert there(books) == {"u2": ("node", "pod", 7)}


def test_an_ask_anew_may_be_placed_before_the_release_is_confirmed(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_release(a_release("u1"))
    books.sent_ask(an_ask())
    confirmed = si_pb2.AllocationResponse(new=[an_allocation("u2")], released=[a_release("u1")])
    books.heard_allocations(confirmed)
    assert (wanted(books), asked_anew(books)) == ({}, {})
    assert held(books) == ["u2"]
    books.sent_ask(sized(7))
    assert there(books) == {"u2": ("node", "pod", 7)}


def test_an_ask_anew_is_withdrawn_like_any_other(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_release(a_release("u1"))
    books.sent_ask(an_ask())
    books.sent_ask_release(si_pb2.AllocationAskRelease(applicationID="app", allocationKey="pod"))
    assert (wanted(books), asked_anew(books)) == ({}, {})
    books.heard_allocations(released(a_release("u1")))
    assert (wanted(books), asked_anew(books)) == ({}, {})
