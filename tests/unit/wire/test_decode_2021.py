"""UpdateRequest -> commands: everything arrives as it is, in the order that lets one message say everything."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.language import commands
from schedulerd.core.language.commands import Command, NodeAction, Operator, TerminationType
from schedulerd.core.language.resources import Resources
from schedulerd.wire import decode, decode_2021
from schedulerd.wire.decode_2021 import CONSTRAINT_BYTES_MAX, UpdateDecoder
from schedulerd.wire.shared_resources import SharedResources
from tests.unit.wire.messages import messages

RM = "rm-1"
TEXTS = ["app-1", "default", f"[{RM}]default", "[other]default", "si/node-partition", "high"]
CLASSES = {"high": 1000, "low": -10}
OPERATORS = ["IN", "NOT_IN", "EXIST", "NOT_EXIST"]
ACTIONS = ["UPDATE", "DRAIN_NODE", "DECOMISSION", "DRAIN_TO_SCHEDULABLE"]
TERMINATIONS = ["STOPPED_BY_RM", "TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED"]


def decoded(request: si_pb2.UpdateRequest) -> list[Command]:
    return list(UpdateDecoder(SharedResources(), CLASSES).commands(request))


@pytest.mark.parametrize("style", ["Hard", "Soft"])
def test_gangs_have_the_style_that_the_setting_gives(style: str) -> None:
    request = si_pb2.UpdateRequest(rmID=RM)
    request.newApplications.add(applicationID="app")
    (command,) = UpdateDecoder(SharedResources(), CLASSES, gang_style=style).commands(request)
    assert [one.gang_style for one in all_of("new", [command])] == [style]


def all_of(field: str, told: list[Command]) -> list[Any]:
    return list(chain(*(getattr(command, field, ()) for command in told)))


def name_inside(partition: str) -> str:
    """How the core knows a partition that is written in any of the three ways."""
    return partition[len(RM) + 2 :] if partition.startswith(f"[{RM}]") else partition


def amounts(message: si_pb2.Resource) -> Resources:
    return Resources({name: quantity.value for name, quantity in message.resources.items()})


def expected_priority(message: si_pb2.Priority) -> int:
    return CLASSES.get(message.priorityClassName, 0) if message.priorityClassName else message.priorityValue


def has_unknown_class(message: si_pb2.Priority) -> bool:
    return message.priorityClassName not in ("", *CLASSES)


def expected_expressions(expressions: Any) -> tuple[commands.Expression, ...]:
    return tuple(
        commands.Expression(one.targetKey, Operator[OPERATORS[one.targetOperator]], tuple(sorted({*one.targetValues})))
        for one in expressions
    )


def expressions_of(ask: si_pb2.AllocationAsk) -> list[si_pb2.AffinityTargetExpression]:
    simple = ask.placementConstraint.simpleConstraint
    affinity = simple.allocationAffinityAttribute
    return [*simple.nodeAffinityConstraint.targetExpressions, *affinity.tragetExpressions]


def expected_constraint(message: si_pb2.PlacementConstraint) -> commands.PlacementConstraint | None:
    simple = message.simpleConstraint
    affinity = simple.allocationAffinityAttribute
    nodes = expected_expressions(simple.nodeAffinityConstraint.targetExpressions)
    if not simple.HasField("allocationAffinityAttribute"):
        return commands.PlacementConstraint(nodes) if nodes else None
    bounds = affinity.minCardinality, affinity.maxCardinality
    allocations = expected_expressions(affinity.tragetExpressions)
    return commands.PlacementConstraint(
        nodes, commands.AllocationAffinity(affinity.scope, allocations, *bounds, required=affinity.required)
    )


def expected_ask(ask: si_pb2.AllocationAsk) -> commands.NewAsk:
    return commands.NewAsk(
        application_id=ask.applicationID,
        allocation_key=ask.allocationKey,
        resources=amounts(ask.resourceAsk),
        partition=name_inside(ask.partitionName),
        max_allocations=ask.maxAllocations,
        priority=expected_priority(ask.priority),
        execution_timeout_ms=ask.executionTimeoutMilliSeconds,
        tags=dict(ask.tags),
        task_group=ask.taskGroupName,
        placeholder=ask.placeholder,
        constraint=expected_constraint(ask.placementConstraint),
    )


@given(messages(si_pb2.UpdateRequest, TEXTS, items_max=2, rmID=RM))
def test_every_ask_arrives_as_it_is_or_with_what_is_unreadable(request: si_pb2.UpdateRequest) -> None:
    asks = all_of("asks", decoded(request))
    assert len(asks) == len(request.asks)
    for ask, message in zip(asks, request.asks, strict=True):
        unknown = [one for one in expressions_of(message) if not 0 <= one.targetOperator <= 3]
        if has_unknown_class(message.priority) or unknown:
            assert ask.unreadable
            assert (ask.application_id, ask.allocation_key) == (message.applicationID, message.allocationKey)
        else:
            assert ask == expected_ask(message)


@given(messages(si_pb2.UpdateRequest, TEXTS, items_max=2, rmID=RM))
def test_every_node_arrives_as_it_is(request: si_pb2.UpdateRequest) -> None:
    nodes = all_of("nodes", decoded(request))
    sent: list[Any] = [*request.newSchedulableNodes, *request.updatedNodes]
    assert [node.node_id for node in nodes] == [message.nodeID for message in sent]
    for node, message in zip(nodes, sent, strict=True):
        attributes = dict(message.attributes)
        assert node.attributes == attributes
        assert node.partition == name_inside(attributes.get("si/node-partition", ""))
        has = message.HasField("schedulableResource"), message.HasField("occupiedResource")
        assert (node.capacity is not None, node.occupied is not None) == has
        assert node.capacity in (None, amounts(message.schedulableResource))
        assert node.occupied in (None, amounts(message.occupiedResource))
        if isinstance(message, si_pb2.NewNodeInfo):
            assert node.action is NodeAction.CREATE
            assert node.existing == [
                expected_existing(one, node.existing[at].unreadable)
                for at, one in enumerate(message.existingAllocations)
            ]
        else:
            known = 0 <= message.action < len(ACTIONS)
            assert node.action is (NodeAction[ACTIONS[message.action]] if known else NodeAction.UNKNOWN)
            assert (node.action_number, node.existing) == (message.action, [])


def expected_existing(message: si_pb2.Allocation, unreadable: str) -> commands.ExistingAllocation:
    assert bool(unreadable) == has_unknown_class(message.priority)
    return commands.ExistingAllocation(
        application_id=message.applicationID,
        allocation_key=message.allocationKey,
        uuid=message.UUID,
        resources=amounts(message.resourcePerAlloc),
        node_id=message.nodeID,
        partition=name_inside(message.partitionName),
        priority=expected_priority(message.priority),
        task_group=message.taskGroupName,
        placeholder=message.placeholder,
        tags=dict(message.allocationTags),
        queue=message.queueName,
        unreadable=unreadable,
    )


def some(message_type: type[Message]) -> st.SearchStrategy[list[Message]]:
    return st.lists(messages(message_type, TEXTS, items_max=2), max_size=2)


# Put together here, as few of any requests have the small things inside their items.
ALL_THE_REST = st.builds(
    si_pb2.UpdateRequest,
    rmID=st.just(RM),
    newApplications=some(si_pb2.AddApplicationRequest),
    removeApplications=some(si_pb2.RemoveApplicationRequest),
    releases=st.builds(
        si_pb2.AllocationReleasesRequest,
        allocationsToRelease=some(si_pb2.AllocationRelease),
        allocationAsksToRelease=some(si_pb2.AllocationAskRelease),
    ),
    utilizationReports=some(si_pb2.UtilizationReport),
)


@given(ALL_THE_REST)
def test_all_the_rest_arrives_as_it_is(request: si_pb2.UpdateRequest) -> None:
    told = decoded(request)
    assert {command.rm_id for command in told} <= {RM}  # type: ignore[union-attr]  # these all have one
    assert all_of("new", told) == [
        commands.NewApplication(
            application_id=new.applicationID,
            queue=new.queueName,
            partition=name_inside(new.partitionName),
            user=new.ugi.user,
            groups=tuple(new.ugi.groups),
            tags=dict(new.tags),
            execution_timeout_ms=new.executionTimeoutMilliSeconds,
            placeholder_ask=amounts(new.placeholderAsk),
            gang_style="Hard",
        )
        for new in request.newApplications
    ]
    assert all_of("remove", told) == [
        commands.ApplicationRemoval(one.applicationID, name_inside(one.partitionName))
        for one in request.removeApplications
    ]
    assert all_of("releases", told) == [
        commands.AllocationRelease(
            application_id=one.applicationID,
            partition=name_inside(one.partitionName),
            uuid=one.UUID,
            termination=expected_termination(one.terminationType),
            message=one.message,
        )
        for one in request.releases.allocationsToRelease
    ]
    assert all_of("ask_releases", told) == [
        commands.AskRelease(one.applicationID, name_inside(one.partitionName), one.allocationkey, message=one.message)
        for one in request.releases.allocationAsksToRelease
    ]
    assert all_of("reports", told) == [
        commands.Utilization(one.ID, amounts(one.actualUsedResource)) for one in request.utilizationReports
    ]


def expected_termination(number: int) -> TerminationType:
    known = 0 <= number < len(TERMINATIONS)
    return TerminationType[TERMINATIONS[number]] if known else TerminationType.UNKNOWN_TERMINATION_TYPE


def test_what_others_refer_to_comes_first_and_what_ends_comes_last() -> None:
    request = si_pb2.UpdateRequest(rmID=RM)
    request.utilizationReports.add(ID="n1")
    request.removeApplications.add(applicationID="app-1")
    request.releases.allocationAsksToRelease.add(allocationkey="k1")
    request.releases.allocationsToRelease.add(UUID="u1")
    request.asks.add(allocationKey="k1")
    request.updatedNodes.add(nodeID="n1")
    request.newSchedulableNodes.add(nodeID="n1")
    request.newApplications.add(applicationID="app-1")
    fields = ("new", "nodes", "asks", "releases", "ask_releases", "remove", "reports")
    told = [
        (field, len(getattr(command, field)))
        for command in decoded(request)
        for field in fields
        if getattr(command, field, None)
    ]
    assert told == [
        ("new", 1),
        ("nodes", 2),
        ("asks", 1),
        ("releases", 1),
        ("ask_releases", 1),
        ("remove", 1),
        ("reports", 1),
    ]
    actions = [node.action for node in all_of("nodes", decoded(request))]
    assert actions == [NodeAction.CREATE, NodeAction.UPDATE]


def test_no_command_is_large() -> None:
    request = si_pb2.UpdateRequest(rmID=RM)
    for number in range(decode.ITEMS_MAX + 1):
        request.newApplications.add(applicationID=str(number))
        request.removeApplications.add(applicationID=str(number))
        request.newSchedulableNodes.add(nodeID=str(number))
        request.asks.add(allocationKey=str(number))
        request.utilizationReports.add(ID=str(number))
    told = decoded(request)
    for field in ("new", "remove", "nodes", "asks", "reports"):
        sizes = [len(getattr(command, field)) for command in told if getattr(command, field, None)]
        assert sizes == [decode.ITEMS_MAX, 1], field


def test_an_empty_request_is_no_command() -> None:
    assert decoded(si_pb2.UpdateRequest(rmID=RM)) == []


@pytest.mark.parametrize(
    ("message", "priority"),
    [
        (si_pb2.Priority(priorityValue=-3), -3),
        (si_pb2.Priority(priorityClassName="high"), 1000),
        (si_pb2.Priority(priorityClassName=""), 0),
        (si_pb2.Priority(), 0),
        (None, 0),
    ],
)
def test_a_priority_is_a_number_or_a_name(message: si_pb2.Priority | None, priority: int) -> None:
    (ask,) = all_of("asks", decoded(si_pb2.UpdateRequest(rmID=RM, asks=[si_pb2.AllocationAsk(priority=message)])))
    assert (ask.priority, ask.unreadable) == (priority, "")


@pytest.mark.parametrize(
    ("classes", "known"),
    [(CLASSES, "known are high, low"), ({}, "no class is")],
)
def test_the_reason_for_an_unknown_class_names_those_that_are_known(classes: dict[str, int], known: str) -> None:
    request = si_pb2.UpdateRequest(rmID=RM)
    request.asks.add(priority=si_pb2.Priority(priorityClassName="hihg"))
    (command,) = UpdateDecoder(SharedResources(), classes).commands(request)
    (ask,) = all_of("asks", [command])
    assert ask.unreadable == (
        f"priority.priorityClassName is 'hihg', which is not configured (priority_classes): {known}"
    )


def test_the_reason_for_an_unknown_operator_says_where_it_stands() -> None:
    constraint = si_pb2.PlacementConstraint()
    affinity = constraint.simpleConstraint.allocationAffinityAttribute
    affinity.tragetExpressions.add(targetKey="a")
    affinity.tragetExpressions.add(targetKey="a", targetOperator=7)
    request = si_pb2.UpdateRequest(rmID=RM, asks=[si_pb2.AllocationAsk(placementConstraint=constraint)])
    (ask,) = all_of("asks", decoded(request))
    assert ask.unreadable == (
        "placementConstraint.simpleConstraint.allocationAffinityAttribute.tragetExpressions[1].targetOperator is 7; "
        "it must be IN (0), NOT_IN (1), EXIST (2) or NOT_EXIST (3)"
    )


def test_equal_constraints_are_one_object_and_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_2021, "CONSTRAINTS_MAX", 4)
    request = si_pb2.UpdateRequest(rmID=RM)
    for number in (*range(10), 9):
        expression = si_pb2.AffinityTargetExpression(targetKey="rack", targetValues=[str(number)])
        ask = request.asks.add()
        ask.placementConstraint.simpleConstraint.nodeAffinityConstraint.targetExpressions.append(expression)
    decoder = UpdateDecoder(SharedResources(), {})
    asks = all_of("asks", list(decoder.commands(request)))
    assert [ask.constraint.node[0].values for ask in asks] == [(str(number),) for number in (*range(10), 9)]
    assert asks[-1].constraint is asks[-2].constraint
    assert len(decoder._constraints) <= 4


@pytest.mark.parametrize(("more_bytes", "remembered"), [(0, 1), (1, 0)])
def test_a_long_constraint_is_read_anew_each_time(more_bytes: int, remembered: int) -> None:
    request = si_pb2.UpdateRequest(rmID=RM)
    ask = request.asks.add()
    expression = ask.placementConstraint.simpleConstraint.nodeAffinityConstraint.targetExpressions.add(targetKey="rack")
    expression.targetValues.append("x" * 900)
    rest = CONSTRAINT_BYTES_MAX - ask.placementConstraint.ByteSize() + more_bytes
    expression.targetValues[0] += "x" * rest
    assert ask.placementConstraint.ByteSize() == CONSTRAINT_BYTES_MAX + more_bytes
    decoder = UpdateDecoder(SharedResources(), {})
    (read,) = all_of("asks", list(decoder.commands(request)))
    assert read.constraint.node[0].values == ("x" * (900 + rest),)
    assert len(decoder._constraints) == remembered
