"""The books: what they say in a full report, after whatever was said and heard before."""

from __future__ import annotations

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import messages
from schedulerd.client.books import Books
from schedulerd.client.report import ALLOW_PREEMPTION_TAG, FORCE_CREATE_TAG
from tests.unit.client.book_keeping import (
    a_node,
    a_release,
    an_allocation,
    an_application,
    an_ask,
    asked_anew,
    found,
    held,
    placed,
    released,
    sized,
    there,
    wanted,
)


def test_a_node_is_reported_with_what_is_on_it_and_applications_as_they_were_added(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    (node,) = books.report.nodes()
    assert (node.nodeID, node.schedulableResource.resources["memory"].value) == ("node", 100)
    assert [each.UUID for each in node.existingAllocations] == ["u1"]
    (application,) = books.report.applications()
    assert application.tags.pop(FORCE_CREATE_TAG) == "true"
    assert application == an_application()


def test_an_update_changes_what_it_carries_and_nothing_else(books: Books) -> None:
    books.sent_node(messages.node("node", {"memory": 7}, action=si_pb2.NodeInfo.UPDATE))
    books.sent_node(messages.node("node", None, action=si_pb2.NodeInfo.UPDATE, occupied={"memory": 3}))
    (node,) = books.report.nodes()
    assert node.action == si_pb2.NodeInfo.CREATE
    assert node.schedulableResource.resources["memory"].value == 7
    assert node.occupiedResource.resources["memory"].value == 3
    assert dict(node.attributes) == {"si/node-partition": "gpu"}


def test_a_draining_node_is_said_to_drain_in_its_partition(books: Books) -> None:
    books.sent_node(a_node(action=si_pb2.NodeInfo.DRAIN_NODE))
    (drain,) = books.report.changes_of_nodes()
    assert (drain.action, drain.attributes["si/node-partition"]) == (si_pb2.NodeInfo.DRAIN_NODE, "gpu")
    books.sent_node(a_node(action=si_pb2.NodeInfo.DRAIN_TO_SCHEDULABLE))
    assert list(books.report.changes_of_nodes()) == []


def test_a_removed_node_is_reported_until_all_of_it_is_confirmed(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_node(a_node(action=si_pb2.NodeInfo.DECOMISSION))
    assert len(list(books.report.nodes())) == 1
    assert [change.action for change in books.report.changes_of_nodes()] == [si_pb2.NodeInfo.DECOMISSION]
    books.heard_allocations(released(a_release("u1")))
    assert list(books.report.nodes()) == []


def test_a_removed_application_is_reported_until_all_of_it_is_confirmed(books: Books) -> None:
    books.sent_ask(an_ask(count=2))
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_removal("app")
    assert wanted(books) == {}
    (removal,) = books.report.removals()
    assert (removal.applicationID, removal.partitionName) == ("app", "gpu")
    books.heard_allocations(released(a_release("u1")))
    assert list(books.report.applications()) == list(books.report.removals()) == []


@pytest.mark.parametrize("state", ["Completed", "Failed"])
def test_an_application_that_is_over_is_not_reported(books: Books, state: str) -> None:
    update = si_pb2.UpdatedApplication(applicationID="app", state=state)
    books.heard_applications(si_pb2.ApplicationResponse(updated=[update]))
    assert list(books.report.applications()) == []


def test_an_application_is_reported_also_if_one_of_its_id_that_has_ended_long_ago_is_forgotten(books: Books) -> None:
    books.heard_applications(si_pb2.ApplicationResponse(accepted=[si_pb2.AcceptedApplication(applicationID="app")]))
    states = ["Expired", "Accepted", "Running"]
    updates = [si_pb2.UpdatedApplication(applicationID="app", state=state) for state in states]
    books.heard_applications(si_pb2.ApplicationResponse(updated=updates))
    assert [one.applicationID for one in books.report.applications()] == ["app"]


def test_an_application_that_ends_in_the_response_that_accepts_it_is_over(books: Books) -> None:
    """The one of before is forgotten in that response as well."""
    accepted = si_pb2.AcceptedApplication(applicationID="app")
    states = ["Expired", "Accepted", "Completed"]
    updates = [si_pb2.UpdatedApplication(applicationID="app", state=state) for state in states]
    books.heard_applications(si_pb2.ApplicationResponse(updated=updates, accepted=[accepted]))
    assert list(books.report.applications()) == []


def test_an_application_with_allocations_is_reported_as_one_that_runs_already(books: Books) -> None:
    (before,) = books.report.applications()
    assert dict(before.tags) == {}
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    (running,) = books.report.applications()
    assert dict(running.tags) == {FORCE_CREATE_TAG: "true"}


def test_what_is_rejected_for_being_there_already_stays(books: Books) -> None:
    books.sent_node(messages.node("node", {"memory": 1}))
    books.heard_nodes(si_pb2.NodeResponse(rejected=[si_pb2.RejectedNode(nodeID="node")]))
    again = an_application()
    again.queueName = "root.b"
    books.sent_application(again)
    books.heard_applications(si_pb2.ApplicationResponse(rejected=[si_pb2.RejectedApplication(applicationID="app")]))
    assert [node.schedulableResource.resources["memory"].value for node in books.report.nodes()] == [100]
    assert [application.queueName for application in books.report.applications()] == ["root.a"]


@pytest.mark.parametrize("kind", [si_pb2.STOPPED_BY_RM, si_pb2.UNKNOWN_TERMINATION_TYPE])
def test_the_confirmation_of_a_release_takes_nothing_from_an_ask_that_came_after_it(
    books: Books, kind: si_pb2.TerminationType.ValueType
) -> None:
    release = si_pb2.AllocationAskRelease(applicationID="app", allocationKey="key", terminationType=kind)
    books.sent_ask(an_ask("key"))
    books.sent_ask_release(release)
    books.sent_ask(an_ask("key"))
    books.heard_allocations(si_pb2.AllocationResponse(releasedAsks=[release]))
    assert [ask.allocationKey for ask in books.report.asks()] == ["key"]


def test_a_release_by_uuid_alone_is_in_the_books(books: Books) -> None:
    books.heard_allocations(placed(an_allocation("u1"), an_allocation("u2")))
    books.sent_release(si_pb2.AllocationRelease(UUID="u1", terminationType=si_pb2.STOPPED_BY_RM))
    assert [release.UUID for release in books.report.releases()] == ["u1"]
    books.sent_release(si_pb2.AllocationRelease(UUID="u2", terminationType=si_pb2.TIMEOUT))
    assert held(books) == ["u1"]


@pytest.mark.parametrize(("allowed", "tags"), [(True, {}), (False, {ALLOW_PREEMPTION_TAG: "false"})])
def test_a_report_says_by_a_tag_what_is_opted_out_of_preemption(
    books: Books, allowed: bool, tags: dict[str, str]
) -> None:
    ask = an_ask()
    ask.preemptionPolicy.allowPreemptSelf = allowed
    books.sent_ask(ask)
    books.heard_allocations(placed(an_allocation("u1")))
    for _ in range(2):
        ((reported,),) = [node.existingAllocations for node in books.report.nodes()]
        assert dict(reported.allocationTags) == tags
    assert [dict(one.allocationTags) for one in books.allocations()] == [{}], "as the scheduler said"


def test_an_allocation_of_an_ask_without_policy_is_reported_as_it_came(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    ((reported,),) = [node.existingAllocations for node in books.report.nodes()]
    assert not reported.allocationTags


def test_a_node_stays_when_its_undraining_is_rejected_also_after_a_report(books: Books) -> None:
    books.heard_allocations(placed(an_allocation("u1")))
    assert len(list(books.report.nodes())) == 1
    books.sent_node(messages.node("node", None, action=si_pb2.NodeInfo.DRAIN_TO_SCHEDULABLE))
    books.heard_nodes(si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="node")]))
    books.heard_nodes(si_pb2.NodeResponse(rejected=[si_pb2.RejectedNode(nodeID="node", reason="does not drain")]))
    assert [node.nodeID for node in books.report.nodes()] == ["node"]
    assert held(books) == ["u1"]


def test_what_is_not_taken_in_a_report_is_gone_with_all_it_had(books: Books) -> None:
    books.sent_ask(an_ask(count=2))
    books.heard_allocations(placed(an_allocation("u1"), an_allocation("u2", node="other")))
    assert len(list(books.report.nodes())) == len(list(books.report.applications())) == 1
    books.heard_nodes(si_pb2.NodeResponse(rejected=[si_pb2.RejectedNode(nodeID="node")]))
    assert held(books) == ["u2"]
    books.heard_applications(si_pb2.ApplicationResponse(rejected=[si_pb2.RejectedApplication(applicationID="app")]))
    assert held(books) == []


def test_an_allocation_on_a_node_that_was_removed_is_not_in_a_report(books: Books) -> None:
    """It was on its way when the node was removed, and so was its end when the scheduler was lost."""
    books.sent_ask(an_ask())
    books.sent_node(a_node(action=si_pb2.NodeInfo.DECOMISSION))
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_release(a_release("u1"))
    books.sent_ask(an_ask())
    (application,) = books.report.applications()
    assert FORCE_CREATE_TAG not in application.tags
    assert list(books.report.releases()) == []
    assert (wanted(books), asked_anew(books), held(books)) == ({"pod": 1}, {}, [])


def test_the_end_of_an_earlier_application_is_not_that_of_the_next_one_of_its_id(books: Books) -> None:
    completed = si_pb2.UpdatedApplication(applicationID="app", state="Completed")
    added = si_pb2.AcceptedApplication(applicationID="app")
    books.sent_removal("app")
    books.sent_application(an_application())
    books.sent_ask(an_ask())
    books.heard_applications(si_pb2.ApplicationResponse(updated=[completed]))
    assert wanted(books) == {"pod": 1}
    books.heard_applications(si_pb2.ApplicationResponse(accepted=[added]))
    assert wanted(books) == {"pod": 1}
    books.heard_applications(si_pb2.ApplicationResponse(updated=[completed]))
    assert wanted(books) == {}
    begun = si_pb2.UpdatedApplication(applicationID="app", state="Accepted")
    books.sent_application(an_application())
    books.heard_applications(si_pb2.ApplicationResponse(updated=[begun, completed], accepted=[added]))
    assert list(books.report.applications()) == [], "all of its life in one response"


def test_the_answer_to_an_earlier_application_is_not_that_to_the_next_one_of_its_id(books: Books) -> None:
    rejected = si_pb2.ApplicationResponse(rejected=[si_pb2.RejectedApplication(applicationID="two")])
    books.sent_application(an_application("two"))
    books.sent_removal("two")
    books.sent_application(an_application("two"))
    books.heard_applications(rejected)
    assert [one.applicationID for one in books.report.applications()] == ["app", "two"]
    books.heard_applications(rejected)
    assert [one.applicationID for one in books.report.applications()] == ["app"]


def test_what_an_update_found_running_is_of_the_next_application_of_its_id(books: Books) -> None:
    """The application has completed while the update was on its way, and is added again."""
    books.sent_node(found("node", an_allocation("u1")))
    completed = si_pb2.UpdatedApplication(applicationID="app", state="Completed")
    books.heard_applications(si_pb2.ApplicationResponse(updated=[completed]))
    assert there(books) == {"u1": ("node", "pod", 1)}
    books.sent_application(an_application())
    assert there(books) == {"u1": ("node", "pod", 1)}
    books.sent_ask(sized(7))
    assert (there(books), wanted(books)) == ({"u1": ("node", "pod", 7)}, {})
    books.sent_removal("app")
    books.sent_application(an_application())
    assert [release.UUID for release in books.report.releases()] == ["u1"], "it was removed with its application"
    books.heard_allocations(released(a_release("u1")))
    assert held(books) == []


def test_an_application_that_was_removed_and_reported_is_removed_before_the_next_one_of_its_id(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_removal("app")
    assert not books.takes_removal_due("app")
    assert [one.applicationID for one in books.report.applications()] == ["app"]
    assert books.takes_removal_due("app")
    books.sent_application(an_application())
    assert list(books.report.removals()) == []
    assert [release.UUID for release in books.report.releases()] == ["u1"]


def test_what_the_scheduler_wants_back_is_there_until_that_is_confirmed(books: Books) -> None:
    order = a_release("u1", si_pb2.PREEMPTED_BY_SCHEDULER)
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.heard_allocations(released(order))
    assert held(books) == ["u1"]
    assert books.is_wanted_back(order)
    books.sent_release(order)
    assert held(books) == []


@pytest.mark.parametrize("is_wanted_first", [True, False])
def test_what_was_wanted_back_goes_with_its_node(books: Books, is_wanted_first: bool) -> None:
    order = released(a_release("u1", si_pb2.PREEMPTED_BY_SCHEDULER))
    books.sent_ask(an_ask(count=2))
    books.heard_allocations(placed(an_allocation("u1"), an_allocation("u2")))
    if is_wanted_first:
        books.heard_allocations(order)
    books.sent_node(a_node(action=si_pb2.NodeInfo.DECOMISSION))
    if not is_wanted_first:
        books.heard_allocations(order)
    assert held(books) == ["u2"], "the end of the other one is told"
    books.heard_allocations(released(a_release("u2")))
    assert list(books.report.nodes()) == []


def test_what_was_on_a_node_that_was_removed_is_not_on_the_next_one_of_its_name(books: Books) -> None:
    """The scheduler was lost before it could say that."""
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.sent_node(a_node(action=si_pb2.NodeInfo.DECOMISSION))
    again = a_node()
    again.existingAllocations.append(an_allocation("u1-2"))
    books.sent_node(again)
    assert held(books) == ["u1-2"]
    books.heard_allocations(released(a_release("u1")))
    assert held(books) == ["u1-2"]


def test_a_node_is_forgotten_with_all_that_was_wanted_back(books: Books) -> None:
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.heard_allocations(released(a_release("u1", si_pb2.PREEMPTED_BY_SCHEDULER)))
    books.sent_node(a_node(action=si_pb2.NodeInfo.DECOMISSION))
    assert (held(books), list(books.report.nodes())) == ([], [])


def test_after_a_report_no_call_waits_for_what_was_wanted_back_before_it(books: Books) -> None:
    order = a_release("u1", si_pb2.PLACEHOLDER_REPLACED)
    books.sent_ask(an_ask())
    books.heard_allocations(placed(an_allocation("u1")))
    books.heard_allocations(released(order))
    assert list(books.report.nodes())
    assert not books.is_wanted_back(order)


def test_allocations_that_come_with_a_node_are_in_the_books(books: Books) -> None:
    books.sent_node(messages.node("second", {"memory": 100}, existing=[an_allocation("u1", node="second")]))
    assert held(books) == ["u1"]
    assert wanted(books) == {}
    assert {node.nodeID: len(node.existingAllocations) for node in books.report.nodes()} == {"node": 0, "second": 1}


def test_nothing_unknown_gets_into_the_books() -> None:
    books = Books()
    books.sent_ask(an_ask())
    books.sent_release(a_release("u1"))
    books.sent_removal("app")
    books.sent_node(a_node(action=si_pb2.NodeInfo.UPDATE))
    books.heard_allocations(placed(an_allocation("u1")))
    books.heard_allocations(released(a_release("u1")))
    assert list(books.report.nodes()) == list(books.report.applications()) == []
    assert wanted(books) == {}


def test_an_ask_is_reported_with_its_age_and_what_it_is_not_asked_about(books: Books) -> None:
    ask = an_ask()
    ask.tags.update(messages.ask_tags({"color": "red"}, predicates=False, asked_at_ns=5) or {})
    books.sent_ask(ask)
    (reported,) = books.report.asks()
    assert dict(reported.tags) == {"color": "red", "schedulerd.io/predicates": "none", "schedulerd.io/asked-at": "5"}
