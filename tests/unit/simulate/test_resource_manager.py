"""The simulated resource manager against hand-made responses: what it says when, and how it keeps its books."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.simulate.requests import ITEMS_PER_MESSAGE_MAX, Outgoing, RequestBuilder, ask_template
from schedulerd.simulate.resource_manager import SimulatedResourceManager
from schedulerd.simulate.workload import (
    LARGE,
    MEDIUM,
    SMALL,
    PlannedApplication,
    Start,
    Wave,
    Workload,
)


@dataclass(frozen=True)
class Scripted(Workload):
    """A workload of two nodes whose applications are given instead of drawn."""

    script: tuple[PlannedApplication, ...] = ()

    def applications(self) -> Iterator[PlannedApplication]:
        return iter(self.script)


def an_rm(*applications: PlannedApplication) -> SimulatedResourceManager:
    return SimulatedResourceManager(Scripted(2, 30.0, seed=1, script=applications))


def an_application(*waves: Wave, name: str = "app", arrives_s: float = 0.0) -> PlannedApplication:
    return PlannedApplication(name, "kind", "root.a", "alice", arrives_s, waves)


def asked_keys(outgoing: Outgoing) -> list[str]:
    return [ask.allocationKey for request in outgoing.allocations for ask in request.asks]


def released_uuids(outgoing: Outgoing) -> list[str]:
    return [each.UUID for request in outgoing.allocations for each in request.releases.allocationsToRelease]


def accept(rm: SimulatedResourceManager, name: str = "app") -> None:
    rm.take_applications(si_pb2.ApplicationResponse(accepted=[si_pb2.AcceptedApplication(applicationID=name)]))


def place(
    rm: SimulatedResourceManager, key: str, now_s: float, *, uuid: str | None = None, node: str = "node-00000"
) -> None:
    allocation = si_pb2.Allocation(applicationID="app", allocationKey=key, UUID=uuid or f"uuid-{key}", nodeID=node)
    rm.take_allocations(si_pb2.AllocationResponse(new=[allocation]), now_s)


def confirm(
    rm: SimulatedResourceManager,
    uuid: str,
    now_s: float,
    termination: si_pb2.TerminationType.ValueType = si_pb2.STOPPED_BY_RM,
) -> None:
    release = si_pb2.AllocationRelease(applicationID="app", UUID=uuid, terminationType=termination)
    rm.take_allocations(si_pb2.AllocationResponse(released=[release]), now_s)


def test_an_application_from_arrival_to_removal() -> None:
    rm = an_rm(an_application(Wave(Start.AT_ONCE, SMALL, (2.0,)), arrives_s=1.0))
    assert rm.advance(0.5) == Outgoing([], [])
    (added,) = rm.advance(1.0).applications
    assert [(new.applicationID, new.queueName, new.ugi.user) for new in added.new] == [("app", "root.a", "alice")]
    assert asked_keys(rm.advance(1.1)) == []
    accept(rm)
    (asked,) = rm.advance(1.2).allocations
    (ask,) = asked.asks
    assert (ask.applicationID, ask.allocationKey, ask.maxAllocations) == ("app", "app-0001", 1)
    assert ask.resourceAsk.resources["memory"].value == SMALL.memory_bytes
    assert ask.resourceAsk.resources["vcore"].value == SMALL.vcore_milli
    place(rm, "app-0001", 1.5)
    assert rm.advance(3.4) == Outgoing([], [])
    assert released_uuids(rm.advance(3.5)) == ["uuid-app-0001"]
    assert not rm.is_done()
    confirm(rm, "uuid-app-0001", 3.6)
    (removed,) = rm.advance(3.7).applications
    assert [each.applicationID for each in removed.remove] == ["app"]
    assert rm.is_done()
    assert rm.books.discrepancies(pending=rm.pending, held=rm.held) == []
    assert rm.books.placing.percentiles_s(50)[0] == pytest.approx(0.3)
    assert rm.books.confirming.percentiles_s(50)[0] == pytest.approx(0.1)


def test_waves_wait_for_what_they_are_said_to_wait_for() -> None:
    waves = (
        Wave(Start.AT_ONCE, SMALL, (5.0, 5.0)),
        Wave(Start.PREVIOUS_PLACED, SMALL, (1.0,)),
        Wave(Start.PREVIOUS_FINISHED, SMALL, (1.0,)),
    )
    rm = an_rm(an_application(*waves))
    rm.advance(0.0)
    accept(rm)
    assert asked_keys(rm.advance(0.0)) == ["app-0001", "app-0002"]
    place(rm, "app-0001", 0.0)
    assert asked_keys(rm.advance(0.0)) == []
    place(rm, "app-0002", 0.0)
    assert asked_keys(rm.advance(0.0)) == ["app-0003"]
    place(rm, "app-0003", 0.0)
    rm.advance(9.0)
    confirm(rm, "uuid-app-0001", 9.0)
    confirm(rm, "uuid-app-0003", 9.0)
    assert asked_keys(rm.advance(9.0)) == []
    confirm(rm, "uuid-app-0002", 9.0)
    assert asked_keys(rm.advance(9.0)) == ["app-0004"]


def a_running_rm(*run_s: float) -> SimulatedResourceManager:
    """With one accepted application whose pods were asked for at time 0."""
    rm = an_rm(an_application(Wave(Start.AT_ONCE, LARGE, run_s)))
    rm.advance(0.0)
    accept(rm)
    rm.advance(0.0)
    return rm


def test_loads_and_nodes_follow_what_runs() -> None:
    rm = a_running_rm(5.0, 5.0)
    load = rm.loads["root.a"]
    assert (load.pending, load.pending_vcore_milli, load.applications) == (2, 4_000, 1)
    place(rm, "app-0001", 0.0)
    place(rm, "app-0002", 0.0, node="node-00001")
    assert (load.pending, load.pending_memory_bytes) == (0, 0)
    assert (load.running, load.allocated_memory_bytes) == (2, 2 * LARGE.memory_bytes)
    assert rm.nodes["node-00000"].use() == LARGE.memory_bytes / (64 << 30)
    assert (rm.nodes_busy, rm.vcore_milli_used) == (2, 4_000)
    rm.advance(5.0)
    assert (load.running, load.allocated_vcore_milli, rm.nodes_busy, rm.nodes_busy_peak) == (0, 0, 0, 2)
    assert rm.nodes["node-00000"].use() == 0
    assert rm.held == 2


def test_stop_takes_back_what_waits_and_ends_what_runs() -> None:
    rm = a_running_rm(50.0, 50.0)
    place(rm, "app-0001", 0.0)
    rm.stop(1.0)
    (request,) = rm.advance(1.0).allocations
    assert [each.UUID for each in request.releases.allocationsToRelease] == ["uuid-app-0001"]
    assert [each.allocationKey for each in request.releases.allocationAsksToRelease] == ["app-0002"]
    assert not rm.is_done()
    confirm(rm, "uuid-app-0001", 1.1)
    assert rm.is_done()
    assert (rm.books.allocations, rm.books.asks_withdrawn, rm.pending) == (1, 1, 0)
    assert rm.books.discrepancies(pending=rm.pending, held=rm.held) == []


@pytest.mark.parametrize("application_is_gone", [False, True])
def test_an_ask_placed_while_it_was_taken_back_counts_as_placed_and_is_released(application_is_gone: bool) -> None:
    rm = a_running_rm(50.0) if application_is_gone else a_running_rm(50.0, 50.0)
    if not application_is_gone:
        place(rm, "app-0002", 0.0)
    rm.stop(1.0)
    rm.advance(1.0)
    place(rm, "app-0001", 1.1)
    assert "uuid-app-0001" in released_uuids(rm.advance(1.1))
    assert rm.books.asks_withdrawn == 0
    for uuid in ("uuid-app-0001",) if application_is_gone else ("uuid-app-0001", "uuid-app-0002"):
        confirm(rm, uuid, 1.2)
    assert rm.is_done()
    assert rm.books.discrepancies(pending=rm.pending, held=rm.held) == []


def test_an_ask_placed_twice_does_not_add_up() -> None:
    rm = a_running_rm(5.0)
    place(rm, "app-0001", 0.0)
    place(rm, "app-0001", 0.0, uuid="another")
    sums, held, surprise = rm.books.discrepancies(pending=rm.pending, held=rm.held)
    assert sums.startswith("1 asks sent, but 2 placed")
    assert held.startswith("2 allocations received")
    assert "no ask of that key is open" in surprise


def test_two_asks_placed_under_one_uuid_do_not_add_up() -> None:
    rm = a_running_rm(5.0, 5.0)
    place(rm, "app-0001", 0.0, uuid="same")
    place(rm, "app-0002", 0.0, uuid="same")
    assert rm.books.discrepancies(pending=rm.pending, held=rm.held) != []


def test_an_allocation_where_there_is_no_room_is_noticed() -> None:
    rm = a_running_rm(*[50.0] * 7)
    for number in range(1, 7):
        place(rm, f"app-{number:04}", 0.0)
    assert rm.books.surprises == 0
    place(rm, "app-0007", 0.0)
    (text,) = rm.books.surprise_texts
    assert "puts node 'node-00000' over its capacity" in text


def test_an_allocation_on_an_unknown_node_or_of_an_unknown_ask_is_noticed() -> None:
    rm = a_running_rm(5.0)
    place(rm, "app-0001", 0.0, node="elsewhere")
    place(rm, "app-0009", 0.0)
    assert rm.books.surprises == 2
    assert "there is no node 'elsewhere'" in rm.books.surprise_texts[0]


def test_rejections_end_asks_applications_and_nodes() -> None:
    rm = a_running_rm(5.0)
    rejection = si_pb2.RejectedAllocationAsk(applicationID="app", allocationKey="app-0001", reason="too big")
    rm.take_allocations(si_pb2.AllocationResponse(rejected=[rejection]), 0.0)
    assert (rm.books.asks_rejected, rm.pending) == (1, 0)
    assert rm.is_done()
    rm.take_allocations(si_pb2.AllocationResponse(rejected=[rejection]), 0.0)
    assert rm.books.surprises == 1

    rm = an_rm(an_application(Wave(Start.AT_ONCE, SMALL, (1.0,))))
    rm.advance(0.0)
    refused = si_pb2.RejectedApplication(applicationID="app", reason="no such queue")
    rm.take_applications(si_pb2.ApplicationResponse(rejected=[refused]))
    assert rm.is_done()
    assert rm.books.rejection_texts == ["application app: no such queue"]

    bad_node = si_pb2.RejectedNode(nodeID="node-00000", reason="exists")
    good_node = si_pb2.AcceptedNode(nodeID="node-00001")
    rm.take_nodes(si_pb2.NodeResponse(rejected=[bad_node], accepted=[good_node]))
    assert rm.nodes_unanswered == 0
    assert list(rm.nodes) == ["node-00001"]


def test_a_node_that_was_accepted_stays_when_something_else_about_it_is_rejected() -> None:
    rm = an_rm(an_application(Wave(Start.AT_ONCE, SMALL, (1.0,))))
    rm.take_nodes(si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="node-00000")]))
    rm.take_nodes(si_pb2.NodeResponse(rejected=[si_pb2.RejectedNode(nodeID="node-00000", reason="does not drain")]))
    assert list(rm.nodes) == ["node-00000", "node-00001"]
    assert (rm.nodes_unanswered, rm.books.nodes_rejected) == (1, 0)


@pytest.mark.parametrize("termination", [si_pb2.TIMEOUT, si_pb2.PREEMPTED_BY_SCHEDULER, si_pb2.PLACEHOLDER_REPLACED])
def test_what_the_scheduler_ends_is_confirmed_with_the_same_type(
    termination: si_pb2.TerminationType.ValueType,
) -> None:
    rm = a_running_rm(5.0)
    place(rm, "app-0001", 0.0)
    confirm(rm, "uuid-app-0001", 1.0, termination)
    (request,) = rm.advance(1.0).allocations
    (confirmed,) = request.releases.allocationsToRelease
    assert (confirmed.UUID, confirmed.terminationType) == ("uuid-app-0001", termination)
    assert rm.books.stopped_by_scheduler == 1
    assert rm.loads["root.a"].running == 0
    assert rm.is_done()
    assert rm.books.discrepancies(pending=rm.pending, held=rm.held) == []
    assert released_uuids(rm.advance(9.0)) == []


def test_nothing_comes_of_an_ask_after_its_release_was_confirmed() -> None:
    rm = a_running_rm(5.0)
    rm.stop(1.0)
    kind = si_pb2.STOPPED_BY_RM
    confirmed = si_pb2.AllocationAskRelease(applicationID="app", allocationKey="app-0001", terminationType=kind)
    rm.take_allocations(si_pb2.AllocationResponse(releasedAsks=[confirmed]), 1.5)
    assert (rm.books.asks_withdrawn, rm.books.surprises) == (1, 0)
    place(rm, "app-0001", 2.0)
    assert rm.books.surprises == 1


def test_an_ask_that_the_scheduler_takes_back_counts_as_released() -> None:
    rm = a_running_rm(5.0)
    withdrawn = si_pb2.AllocationAskRelease(applicationID="app", allocationKey="app-0001")
    rm.take_allocations(si_pb2.AllocationResponse(releasedAsks=[withdrawn, withdrawn]), 0.0)
    assert (rm.books.asks_withdrawn, rm.pending) == (1, 0)
    assert rm.is_done()


def test_messages_are_bounded() -> None:
    builder = RequestBuilder()
    template = ask_template("app", MEDIUM)
    for number in range(2 * ITEMS_PER_MESSAGE_MAX + 1):
        builder.ask(template, f"key-{number}")
    sizes = [len(request.asks) for request in builder.take().allocations]
    assert sizes == [ITEMS_PER_MESSAGE_MAX, ITEMS_PER_MESSAGE_MAX, 1]
    assert builder.take() == Outgoing([], [])


def test_nodes_are_registered_with_their_size_and_place() -> None:
    request = SimulatedResourceManager(Workload(3, 1.0, seed=1)).nodes_request()
    assert [node.nodeID for node in request.nodes] == ["node-00000", "node-00001", "node-00002"]
    node = request.nodes[0]
    assert node.action == si_pb2.NodeInfo.CREATE
    assert node.schedulableResource.resources["memory"].value == 64 << 30
    assert node.schedulableResource.resources["vcore"].value == 16_000
    assert node.attributes["si/rackname"] == "rack-000"
