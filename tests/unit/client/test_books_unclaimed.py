"""Existing allocations that are reported before their application, or without it, are reported again."""

from __future__ import annotations

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.books import Books
from tests.unit.client.book_keeping import a_node, a_release, an_allocation, an_application, held, released


def with_node(*allocations: si_pb2.Allocation) -> Books:
    books = Books()
    info = a_node()
    info.existingAllocations.extend(allocations)
    books.sent_node(info)
    books.heard_nodes(si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="node")]))
    return books


def reported(books: Books) -> list[str]:
    list(books.report.applications())
    return [one.UUID for node in books.report.nodes() for one in node.existingAllocations]


def update(*allocations: si_pb2.Allocation) -> si_pb2.NodeInfo:
    info = a_node(action=si_pb2.NodeInfo.UPDATE)
    info.existingAllocations.extend(allocations)
    return info


def test_what_has_no_application_is_reported_again() -> None:
    books = with_node(an_allocation("e1"), an_allocation("e2", "other", application="gone"))
    assert held(books) == reported(books) == ["e1", "e2"]


def test_it_is_of_its_application_when_that_is_added() -> None:
    books = with_node(an_allocation("e1"))
    books.sent_application(an_application())
    books.heard_applications(si_pb2.ApplicationResponse(accepted=[si_pb2.AcceptedApplication(applicationID="app")]))
    assert held(books) == reported(books) == ["e1"]
    books.heard_allocations(released(a_release("e1")))
    assert held(books) == []


def test_when_its_application_is_rejected_it_is_still_there() -> None:
    books = with_node(an_allocation("e1"))
    books.sent_application(an_application())
    books.heard_applications(si_pb2.ApplicationResponse(rejected=[si_pb2.RejectedApplication(applicationID="app")]))
    assert held(books) == reported(books) == ["e1"]


@pytest.mark.parametrize(
    "release",
    [
        a_release("e1"),
        a_release("e1", si_pb2.TIMEOUT),
        a_release("", key=""),
        a_release(""),
        si_pb2.AllocationRelease(UUID="e1", terminationType=si_pb2.STOPPED_BY_RM),
    ],
    ids=["one", "a confirmation", "of the application", "of the key", "by its UUID alone"],
)
def test_what_is_released_is_reported_no_longer(release: si_pb2.AllocationRelease) -> None:
    books = with_node(an_allocation("e1"), an_allocation("e2", application="other"))
    books.sent_release(release)
    assert reported(books) == ["e2"]


def test_it_goes_with_the_removal_of_its_application_and_when_the_scheduler_says_so() -> None:
    books = with_node(an_allocation("e1"), an_allocation("e2", application="other"))
    books.sent_removal("other")
    assert reported(books) == ["e1"]
    books.heard_allocations(released(a_release("e1")))
    assert reported(books) == []


def test_it_goes_with_its_node() -> None:
    books = with_node(an_allocation("e1"))
    books.sent_node(a_node(action=si_pb2.NodeInfo.DECOMISSION))
    assert held(books) == []


def test_an_update_replaces_the_only_one_of_its_key() -> None:
    books = with_node(an_allocation("e1"))
    books.sent_node(update(an_allocation("e9")))
    assert reported(books) == ["e9"]
    books.sent_node(update(an_allocation("e9"), an_allocation("e1")))
    assert sorted(reported(books)) == ["e1", "e9"]


def test_an_update_that_is_rejected_has_reported_nothing() -> None:
    books = with_node(an_allocation("e1"))
    books.sent_node(update(an_allocation("e2", "bad", application="gone")))
    reason = "existingAllocations[0] (allocationKey 'bad'): resourcePerAlloc is empty"
    books.heard_nodes(si_pb2.NodeResponse(rejected=[si_pb2.RejectedNode(nodeID="node", reason=reason)]))
    assert held(books) == ["e1"]
