"""Requests -> commands: nothing is lost, nothing is judged, and no piece is large."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language import commands
from schedulerd.core.language.checks import RESOURCE_NAMES_MAX
from schedulerd.core.language.commands import NodeAction, TerminationType
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.wire import decode as cutting
from schedulerd.wire import shared_resources
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.reading import PIECE_BYTES_MAX
from tests.unit.wire.messages import messages

RM = "rm-1"
TEXTS = ["app-1", "default", f"[{RM}]default", "[other]default", "si/node-partition"]


def name_inside(partition: str) -> str:
    """How the core knows a partition that is written in any of the three ways."""
    return partition[len(RM) + 2 :] if partition.startswith(f"[{RM}]") else partition


def amounts(message: si_pb2.Resource) -> dict[str, int]:
    return {name: quantity.value for name, quantity in message.resources.items()}


def expected_ask(ask: si_pb2.AllocationAsk) -> commands.NewAsk:
    policy_set = ask.HasField("preemptionPolicy")
    return commands.NewAsk(
        application_id=ask.applicationID,
        allocation_key=ask.allocationKey,
        resources=Resources(amounts(ask.resourceAsk)),
        partition=name_inside(ask.partitionName),
        max_allocations=ask.maxAllocations,
        priority=ask.priority,
        execution_timeout_ms=ask.executionTimeoutMilliSeconds,
        tags=dict(ask.tags),
        task_group=ask.taskGroupName,
        placeholder=ask.placeholder,
        originator=ask.Originator,
        allow_preempt_self=ask.preemptionPolicy.allowPreemptSelf if policy_set else True,
        allow_preempt_other=ask.preemptionPolicy.allowPreemptOther if policy_set else False,
    )


def expected_termination(number: int) -> TerminationType:
    return TerminationType(number) if 0 <= number <= 4 else TerminationType.UNKNOWN_TERMINATION_TYPE


def expected_existing(message: si_pb2.Allocation) -> commands.ExistingAllocation:
    return commands.ExistingAllocation(
        application_id=message.applicationID,
        allocation_key=message.allocationKey,
        uuid=message.UUID,
        resources=Resources(amounts(message.resourcePerAlloc)),
        node_id=message.nodeID,
        partition=name_inside(message.partitionName),
        priority=message.priority,
        task_group=message.taskGroupName,
        placeholder=message.placeholder,
        tags=dict(message.allocationTags),
    )


def expected_node(node: si_pb2.NodeInfo) -> commands.NodeUpdate:
    capacity, occupied = node.HasField("schedulableResource"), node.HasField("occupiedResource")
    return commands.NodeUpdate(
        node_id=node.nodeID,
        action=NodeAction(node.action) if 0 <= node.action <= 6 else NodeAction.UNKNOWN,
        action_number=node.action,
        partition=name_inside(dict(node.attributes).get("si/node-partition", "")),
        capacity=Resources(amounts(node.schedulableResource)) if capacity else None,
        occupied=Resources(amounts(node.occupiedResource)) if occupied else None,
        attributes=dict(node.attributes),
        existing=[expected_existing(allocation) for allocation in node.existingAllocations],
    )


@given(messages(si_pb2.AllocationRequest, TEXTS, rmID=RM))
def test_every_allocation_request_arrives_as_it_is(request: si_pb2.AllocationRequest) -> None:
    pieces = list(RequestDecoder().allocations(request))
    assert {piece.rm_id for piece in pieces} <= {RM}
    assert list(chain(*(piece.asks for piece in pieces))) == [expected_ask(ask) for ask in request.asks]
    assert list(chain(*(piece.releases for piece in pieces))) == [
        commands.AllocationRelease(
            application_id=release.applicationID,
            partition=name_inside(release.partitionName),
            uuid=release.UUID,
            allocation_key=release.allocationKey,
            termination=expected_termination(release.terminationType),
            message=release.message,
        )
        for release in request.releases.allocationsToRelease
    ]
    assert list(chain(*(piece.ask_releases for piece in pieces))) == [
        commands.AskRelease(
            application_id=release.applicationID,
            partition=name_inside(release.partitionName),
            allocation_key=release.allocationKey,
            termination=expected_termination(release.terminationType),
            message=release.message,
        )
        for release in request.releases.allocationAsksToRelease
    ]


@pytest.mark.parametrize("action", NodeAction)
def test_every_action_has_its_number(action: NodeAction) -> None:
    """Also the one that the specification lacks, which hardly any example above would have."""
    info = si_pb2.NodeInfo(action=si_pb2.NodeInfo.ActionFromRM.ValueType(action))
    (command,) = RequestDecoder().nodes(si_pb2.NodeRequest(rmID=RM, nodes=[info]))
    assert command.nodes[0].action is action


@given(messages(si_pb2.NodeRequest, TEXTS, rmID=RM))
def test_every_node_request_arrives_as_it_is(request: si_pb2.NodeRequest) -> None:
    pieces = list(RequestDecoder().nodes(request))
    assert list(chain(*(piece.nodes for piece in pieces))) == [expected_node(node) for node in request.nodes]


@given(messages(si_pb2.ApplicationRequest, TEXTS, rmID=RM))
def test_every_application_request_arrives_as_it_is(request: si_pb2.ApplicationRequest) -> None:
    pieces = list(RequestDecoder().applications(request))
    assert list(chain(*(piece.new for piece in pieces))) == [
        commands.NewApplication(
            application_id=new.applicationID,
            queue=new.queueName,
            partition=name_inside(new.partitionName),
            user=new.ugi.user,
            groups=tuple(new.ugi.groups),
            tags=dict(new.tags),
            execution_timeout_ms=new.executionTimeoutMilliSeconds,
            placeholder_ask=Resources(amounts(new.placeholderAsk)),
            gang_style=new.gangSchedulingStyle,
        )
        for new in request.new
    ]
    assert list(chain(*(piece.remove for piece in pieces))) == [
        commands.ApplicationRemoval(removal.applicationID, name_inside(removal.partitionName))
        for removal in request.remove
    ]


@given(messages(si_pb2.RegisterResourceManagerRequest))
def test_every_registration_arrives_as_it_is(request: si_pb2.RegisterResourceManagerRequest) -> None:
    configuration = ConfigurationText("text", "queues.yaml")
    assert RequestDecoder().registration(request, (), configuration) == commands.RegisterResourceManager(
        rm_id=request.rmID,
        partitions=(),
        version=request.version,
        policy_group=request.policyGroup,
        build_info=dict(request.buildInfo),
        configuration=configuration,
        extra_config=dict(request.extraConfig),
    )


def ask_request(*sizes: dict[str, int]) -> si_pb2.AllocationRequest:
    request = si_pb2.AllocationRequest(rmID=RM)
    for number, size in enumerate(sizes):
        ask = request.asks.add(allocationKey=str(number), applicationID="app-1")
        for name, amount in size.items():
            ask.resourceAsk.resources[name].value = amount
    return request


@given(st.lists(st.integers(0, 1700), min_size=3, max_size=3))
def test_pieces_are_bounded_and_keep_the_order(counts: list[int]) -> None:
    request = ask_request(*({"vcore": 1} for _ in range(counts[0])))
    for number in range(counts[1]):
        request.releases.allocationsToRelease.add(UUID=str(number))
    for number in range(counts[2]):
        request.releases.allocationAsksToRelease.add(applicationID="app", allocationKey=str(number))
    pieces = list(RequestDecoder().allocations(request))
    sizes = [len(piece.asks) + len(piece.releases) + len(piece.ask_releases) for piece in pieces]
    assert all(size == cutting.ITEMS_MAX for size in sizes[:-1])
    assert all(0 < size <= cutting.ITEMS_MAX for size in sizes)
    sequence = [
        item
        for piece in pieces
        for item in (
            *(("ask", ask.allocation_key) for ask in piece.asks),
            *(("release", release.uuid) for release in piece.releases),
            *(("ask release", release.allocation_key) for release in piece.ask_releases),
        )
    ]
    names = ("ask", "release", "ask release")
    assert sequence == [
        (name, str(number)) for name, count in zip(names, counts, strict=True) for number in range(count)
    ]


def test_releases_that_are_searched_for_in_all_applications_are_few_in_a_command() -> None:
    request = ask_request({"vcore": 1})
    for number in range(2 * cutting.SEARCHES_MAX + 1):
        request.releases.allocationAsksToRelease.add(allocationKey=str(number))
        request.releases.allocationAsksToRelease.add(applicationID="app", allocationKey=str(number))
    pieces = list(RequestDecoder().allocations(request))
    assert [len(piece.asks) for piece in pieces] == [1, 0, 0]
    searched = [[one for one in piece.ask_releases if not one.application_id] for piece in pieces]
    assert [len(one) for one in searched] == [cutting.SEARCHES_MAX, cutting.SEARCHES_MAX, 1]
    keys = [one.allocation_key for piece in pieces for one in piece.ask_releases]
    assert keys == [one.allocationKey for one in request.releases.allocationAsksToRelease]


def test_pieces_of_a_large_request_take_no_more_items_from_so_many_bytes_on() -> None:
    request = ask_request(*({"vcore": 1} for _ in range(cutting.ITEMS_MAX * 2)))
    for ask in request.asks[:10]:
        ask.tags["long"] = "x" * (PIECE_BYTES_MAX // 2)
    request.releases.allocationsToRelease.add(UUID="last")
    pieces = list(RequestDecoder().allocations(request, request.ByteSize()))
    assert [len(piece.asks) for piece in pieces] == [2, 2, 2, 2, 2, cutting.ITEMS_MAX, cutting.ITEMS_MAX - 10]
    assert [ask.allocation_key for piece in pieces for ask in piece.asks] == [str(one) for one in range(400)]
    assert [len(piece.releases) for piece in pieces] == [0, 0, 0, 0, 0, 0, 1]
    empty = si_pb2.AllocationRequest(rmID=RM)
    assert list(RequestDecoder().allocations(empty, PIECE_BYTES_MAX + 1)) == []


def test_few_bytes_of_applications_come_in_one_step() -> None:
    """In each dialect; their names may take long to match."""
    request = si_pb2.ApplicationRequest(rmID=RM)
    for number in range(10):
        request.new.add(applicationID=f"app-{number}", ugi={"user": "u" * (cutting.APPLICATIONS_BYTES_MAX // 2)})
    pieces = list(RequestDecoder().applications(request, request.ByteSize()))
    assert [[new.application_id for new in piece.new] for piece in pieces] == [
        [f"app-{first}", f"app-{first + 1}"] for first in range(0, 10, 2)
    ]


def test_nodes_weigh_their_attributes_and_the_tags_of_their_allocations() -> None:
    request = si_pb2.NodeRequest(rmID=RM)
    values = {str(number): "" for number in range(cutting.VALUES_PER_ITEM * cutting.ITEMS_MAX // 2)}
    for number in range(4):
        node = request.nodes.add(nodeID=str(number), attributes=values)
        if number == 3:
            node.existingAllocations.add(allocationTags=values)
    pieces = [[node.node_id for node in piece.nodes] for piece in RequestDecoder().nodes(request)]
    assert pieces == [["0"], ["1"], ["2"], ["3"]]


def test_of_more_kinds_of_resource_than_there_may_be_one_too_many_is_read() -> None:
    size = {str(number): number for number in range(RESOURCE_NAMES_MAX + 10)}
    (ask,) = next(RequestDecoder().allocations(ask_request(size))).asks
    assert len(ask.resources) == RESOURCE_NAMES_MAX + 1


def test_nodes_weigh_what_they_bring_along() -> None:
    request = si_pb2.NodeRequest(rmID=RM)
    for number, allocations in enumerate([0, cutting.ITEMS_MAX - 2, 0, cutting.ITEMS_MAX - 1, 2000, 0, 0]):
        node = request.nodes.add(nodeID=str(number))
        for _ in range(allocations):
            node.existingAllocations.add()
    pieces = [[node.node_id for node in piece.nodes] for piece in RequestDecoder().nodes(request)]
    assert pieces == [["0", "1"], ["2"], ["3"], ["4"], ["5", "6"]]


def test_an_empty_request_is_no_command() -> None:
    decoder = RequestDecoder()
    assert list(decoder.allocations(si_pb2.AllocationRequest(rmID=RM))) == []
    assert list(decoder.applications(si_pb2.ApplicationRequest(rmID=RM))) == []
    assert list(decoder.nodes(si_pb2.NodeRequest(rmID=RM))) == []


def test_equal_resources_are_one_object() -> None:
    decoder = RequestDecoder()
    first, second, other = next(decoder.allocations(ask_request({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}))).asks
    assert first.resources is second.resources
    assert other.resources is not first.resources
    again = next(decoder.allocations(ask_request({"a": 1, "b": 2}))).asks[0]
    assert again.resources is first.resources
    zero, nothing = next(decoder.allocations(ask_request({"a": 0}, {}))).asks
    assert dict(zero.resources) == {"a": 0}, "a resource that is named with 0 stays named"
    assert dict(nothing.resources) == {}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_resources, "SHAPES_MAX", 10)
    decoder = RequestDecoder()
    sizes = [{"vcore": amount} for amount in range(1, 40)]
    for count, (size, remembered) in enumerate(zip(sizes, [*range(1, 11)] * 4, strict=False), start=1):
        (ask,) = next(decoder.allocations(ask_request(size))).asks
        assert dict(ask.resources) == size
        assert (len(decoder.shared.by_bytes), len(decoder.shared._by_content)) == (remembered, remembered), count


@pytest.mark.parametrize(("more_bytes", "remembered"), [(0, True), (1, False)])
def test_a_long_size_is_read_anew_each_time(more_bytes: int, remembered: bool) -> None:
    message = si_pb2.Resource()
    message.resources["x" * 200].value = 1
    name = "x" * (200 + shared_resources.SHAPE_BYTES_MAX - message.ByteSize() + more_bytes)
    decoder = RequestDecoder()
    first, again = (next(decoder.allocations(ask_request({name: 1}))).asks[0].resources for _ in range(2))
    assert dict(first) == dict(again) == {name: 1}
    assert (first is again) == remembered
