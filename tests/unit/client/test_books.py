"""The books: what they say in a full report, after whatever was said and heard before."""

from __future__ import annotations

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import messages
from schedulerd.client.books import Books
from schedulerd.client.report import ALLOW_PREEMPTION_TAG, FORCE_CREATE_TAG

POD = messages.resource({"memory": 1})


def a_node(
    name: str = "node", action: si_pb2.NodeInfo.ActionFromRM.ValueType = si_pb2.NodeInfo.CREATE
) -> si_pb2.NodeInfo:
    return messages.node(name, {"memory": 100}, action=action, attributes={"si/node-partition": "gpu"})


def an_application(name: str = "app") -> si_pb2.AddApplicationRequest:
    return si_pb2.AddApplicationRequest(applicationID=name, queueName="root.a", partitionName="gpu")


def an_ask(key: str = "pod", count: int = 1, priority: int = 0) -> si_pb2.AllocationAsk:
    return si_pb2.AllocationAsk(
        applicationID="app", allocationKey=key, maxAllocations=count, priority=priority, resourceAsk=POD
    )


def an_allocation(uuid: str, key: str = "pod", node: str = "node", application: str = "app") -> si_pb2.Allocation:
    return si_pb2.Allocation(UUID=uuid, allocationKey=key, applicationID=application, nodeID=node, resourcePerAlloc=POD)


def a_release(
    uuid: str, termination: si_pb2.TerminationType.ValueType = si_pb2.STOPPED_BY_RM, key: str = "pod"
) -> si_pb2.AllocationRelease:
    return si_pb2.AllocationRelease(UUID=uuid, applicationID="app", allocationKey=key, terminationType=termination)


def placed(*allocations: si_pb2.Allocation) -> si_pb2.AllocationResponse:
    return si_pb2.AllocationResponse(new=allocations)


def released(*releases: si_pb2.AllocationRelease) -> si_pb2.AllocationResponse:
    return si_pb2.AllocationResponse(released=releases)


def accepted() -> tuple[si_pb2.NodeResponse, si_pb2.ApplicationResponse]:
    return (
        si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="node")]),
        si_pb2.ApplicationResponse(accepted=[si_pb2.AcceptedApplication(applicationID="app")]),
    )


@pytest.fixture
def books() -> Books:
    """A node and an application, both accepted."""
    found = Books()
    found.sent_node(a_node())
    found.sent_application(an_application())
    nodes, applications = accepted()
    found.heard_nodes(nodes)
    found.heard_applications(applications)
    return found


def wanted(books: Books) -> dict[str, int]:
    """`maxAllocations` by key of what would be asked for."""
    return {ask.allocationKey: ask.maxAllocations for ask in books.report.asks()}


def held(books: Books) -> list[str]:
    return [allocation.UUID for allocation in books.allocations()]


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


def asked_anew(books: Books) -> dict[str, int]:
    return {ask.allocationKey: ask.maxAllocations for ask in books.report.asks_anew()}


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
    books.heard_applications(si_pb2.ApplicationResponse(updated=[completed], accepted=[added]))
    assert wanted(books) == {"pod": 1}, "the responses were joined"
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


def found(node: str, *allocations: si_pb2.Allocation) -> si_pb2.NodeInfo:
    return messages.node(node, None, action=si_pb2.NodeInfo.UPDATE, existing=allocations)


def there(books: Books) -> dict[str, tuple[str, str, int]]:
    """Node, key and memory of what is reported, by UUID."""
    return {
        each.UUID: (node.nodeID, each.allocationKey, each.resourcePerAlloc.resources["memory"].value)
        for node in books.report.nodes()
        for each in node.existingAllocations
    }


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


def sized(memory: int, key: str = "pod", count: int = 1) -> si_pb2.AllocationAsk:
    ask = an_ask(key, count)
    ask.resourceAsk.CopyFrom(messages.resource({"memory": memory}))
    return ask


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


def tagged(**tags: str) -> si_pb2.AddApplicationRequest:
    added = an_application()
    added.tags.update({f"namespace.{name}": value for name, value in tags.items()})
    return added


def quotas(books: Books) -> list[dict[str, str]]:
    return [dict(added.tags) for added in books.report.applications()]


def test_the_newest_tags_of_a_namespace_are_reported(books: Books) -> None:
    books.sent_application(tagged(resourcequota="{}"))
    books.heard_applications(accepted()[1])
    books.sent_application(tagged())
    assert quotas(books) == [{}]


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
