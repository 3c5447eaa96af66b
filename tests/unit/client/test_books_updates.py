"""The books after updates: what was found running, what was resized, and new tags."""

from __future__ import annotations

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.books import Books
from schedulerd.client.report import FORCE_CREATE_TAG
from tests.unit.client.book_keeping import (
    a_node,
    a_release,
    accepted,
    an_allocation,
    an_application,
    an_ask,
    found,
    placed,
    quotas,
    released,
    sized,
    tagged,
    there,
    wanted,
)


def test_what_an_update_found_running_is_reported_and_asked_for_no_longer(books: Books) -> None:
    books.sent_ask(an_ask())
    books.sent_node(found("node", an_allocation("mine")))
    assert there(books) == {"mine": ("node", "pod", 1)}
    assert wanted(books) == {}


def test_an_allocation_that_was_found_elsewhere_is_reported_there_and_once(books: Books) -> None:
    books.sent_node(a_node("other"))
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    moved = an_allocation("mine", node="other")
    moved.resourcePerAlloc.resources["memory"].value = 7
    books.sent_node(found("other", moved))
    assert there(books) == {"mine": ("other", "pod", 7)}
    books.sent_node(a_node(action=si_pb2.NodeInfo.DECOMISSION))
    assert [node.nodeID for node in books.report.nodes()] == ["other"]
    books.heard_allocations(released(a_release("mine")))
    assert there(books) == {}


def test_a_placement_that_an_update_has_overtaken_is_not_a_second_one(books: Books) -> None:
    books.sent_node(a_node("other"))
    books.sent_ask(an_ask())
    books.sent_node(found("other", an_allocation("mine", node="other")))
    books.heard_allocations(placed(an_allocation("u1")))
    assert there(books) == {"mine": ("other", "pod", 1)}
    books.sent_release(a_release("mine"))
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u2")))
    assert set(there(books)) == {"mine", "u2"}


def test_a_release_is_not_repeated_under_the_uuid_of_a_later_report(books: Books) -> None:
    books.sent_node(a_node("other"))
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_release(a_release("u1"))
    books.sent_node(found("other", an_allocation("mine", node="other")))
    assert there(books) == {"mine": ("other", "pod", 1)}
    assert list(books.report.releases()) == []


def test_an_update_that_is_rejected_leaves_out_the_allocation_that_the_reason_names(books: Books) -> None:
    for response in accepted()[:1]:
        books.heard_nodes(response)
    for key in ("pod", "other"):
        books.sent_node(found("node", an_allocation(f"u-{key}", key)))
    reason = "existingAllocations[0] (allocationKey 'pod'): no"
    books.heard_nodes(si_pb2.NodeResponse(rejected=[si_pb2.RejectedNode(nodeID="node", reason=reason)]))
    assert there(books) == {"u-other": ("node", "other", 1)}


def test_of_an_ask_for_several_the_uuid_says_which_moved(books: Books) -> None:
    books.sent_node(a_node("other"))
    books.sent_ask(an_ask(count=3))
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_node(found("other", an_allocation("mine", node="other")))
    books.sent_node(found("other", an_allocation("u1", node="other")))
    assert there(books) == {"u1": ("other", "pod", 1), "mine": ("other", "pod", 1)}
    assert wanted(books) == {"pod": 3}


def test_two_of_one_key_in_an_update_are_two(books: Books) -> None:
    books.sent_node(found("node", an_allocation("u1"), an_allocation("u2")))
    assert set(there(books)) == {"u1", "u2"}


def test_a_resized_allocation_is_reported_as_it_is(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_ask(sized(7))
    assert there(books) == {"u1": ("node", "pod", 7)}
    assert [each.resourcePerAlloc.resources["memory"].value for each in books.allocations()] == [7]
    assert wanted(books) == {}


def test_an_ask_that_was_placed_while_its_update_was_on_its_way_is_resized(books: Books) -> None:
    books.sent_ask(an_ask())
    books.sent_ask(sized(7))
    books.heard_allocations(placed(an_allocation("u1")))
    assert there(books) == {"u1": ("node", "pod", 7)}


def test_a_resize_that_is_rejected_changes_nothing(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_ask(sized(7))
    books.sent_ask(sized(-7))
    rejected = si_pb2.RejectedAllocationAsk(applicationID="app", allocationKey="pod", reason="no")
    books.heard_allocations(si_pb2.AllocationResponse(rejected=[rejected]))
    assert there(books) == {"u1": ("node", "pod", 7)}


def test_of_several_of_a_key_none_is_resized(books: Books) -> None:
    books.sent_ask(an_ask(count=2))
    books.heard_allocations(placed(an_allocation("u1"), an_allocation("u2")))
    books.sent_ask(sized(7, count=2))
    assert {memory for _, _, memory in there(books).values()} == {1}


def test_a_report_of_where_it_runs_is_newer_than_its_ask(books: Books) -> None:
    books.sent_ask(sized(7))
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_node(found("node", an_allocation("u1")))
    assert there(books) == {"u1": ("node", "pod", 1)}


def test_the_newest_tags_of_a_namespace_are_reported(books: Books) -> None:
    books.sent_application(tagged(resourcequota="{}"))
    books.heard_applications(accepted()[1])
    books.sent_application(tagged())
    assert quotas(books) == [{}]


def test_the_newest_task_groups_are_reported(books: Books) -> None:
    for needed in (2, 3):
        added = an_application()
        added.tags["schedulerd.io/task-groups"] = f'[{{"name": "w", "min": {needed}}}]'
        books.sent_application(added)
        books.heard_applications(accepted()[1])
    (reported,) = books.report.applications()
    assert reported.tags["schedulerd.io/task-groups"] == '[{"name": "w", "min": 3}]'


def test_an_application_that_was_reported_as_running_is_sent_so_with_other_tags_too(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    for is_reported in (False, True):
        added = an_application()
        added.tags["namespace.resourcemaxapps"] = "3" if is_reported else "2"
        books.sent_application(added)
        assert (FORCE_CREATE_TAG in added.tags) == is_reported
        (reported,) = books.report.applications()
        assert reported.tags["namespace.resourcemaxapps"] == added.tags["namespace.resourcemaxapps"]


def test_an_application_that_was_reported_otherwise_is_sent_so_with_other_tags_too(books: Books) -> None:
    books.sent_application(tagged(resourcequota="{}"))
    (reported,) = books.report.applications()
    reported.executionTimeoutMilliSeconds = 7  # what is left of its time
    books.report.application_changed(reported)
    added = tagged(resourcequota="lots")
    books.sent_application(added)
    assert (added.executionTimeoutMilliSeconds, added.tags["namespace.resourcequota"]) == (7, "lots")
    (again,) = books.report.applications()
    assert (again.executionTimeoutMilliSeconds, again.tags["namespace.resourcequota"]) == (0, "lots")


def test_tags_of_a_namespace_that_are_rejected_are_not_reported(books: Books) -> None:
    books.sent_application(tagged(resourcequota="{}"))
    books.heard_applications(accepted()[1])
    books.sent_application(tagged(resourcequota="lots"))
    rejected = si_pb2.RejectedApplication(applicationID="app", reason="no")
    books.heard_applications(si_pb2.ApplicationResponse(rejected=[rejected]))
    assert quotas(books) == [{"namespace.resourcequota": "{}"}]


def test_an_application_that_is_added_as_another_one_stays_what_it_was(books: Books) -> None:
    other = tagged(resourcequota="{}")
    other.queueName = "root.b"
    books.sent_application(other)
    assert [added.queueName for added in books.report.applications()] == ["root.a"]
