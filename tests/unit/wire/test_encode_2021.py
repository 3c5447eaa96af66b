"""Facts -> UpdateResponse: everything on one stream, in the numbers and names of 2021-02."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.unclaimed import UnclaimedEnded
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.wire import response_builder
from schedulerd.wire.dialect import Dialect, Stream
from schedulerd.wire.encode import ResponseEncoder
from schedulerd.wire.response_builder import Response
from schedulerd.wire.response_builder_2021 import RESYNC_RESPONSE
from tests.instants import EPOCH_NS, at
from tests.unit.wire.facts import TOLD, any_facts, new_responses

RM = "rm-1"
TERMINATIONS = {"STOPPED_BY_RM": 0, "TIMEOUT": 1, "PREEMPTED_BY_SCHEDULER": 2, "PLACEHOLDER_REPLACED": 3}
ANY_FACTS = any_facts(*get_args(facts.Fact), told=(*TOLD, NodeRecommended))


def encoder() -> ResponseEncoder:
    """One for which rm-1 speaks this dialect, and nobody else does."""
    made = ResponseEncoder()
    made.set_dialect(RM, Dialect.V2021_02)
    return made


def drained(said: Sequence[facts.Fact]) -> list[Response]:
    filled = encoder()
    filled.add(said, at(0))
    return filled.drain()


def told(said: Sequence[facts.Fact]) -> si_pb2.UpdateResponse:
    """All that rm-1 hears, as one message."""
    mine = [response for response in drained(said) if response.rm_id == RM]
    assert {response.stream for response in mine} <= {Stream.UPDATE}
    return si_pb2.UpdateResponse.FromString(b"".join(response.payload for response in mine))


def amounts(resources: Resources) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in resources.items()})


@given(ANY_FACTS)
def test_each_fact_about_allocations_is_told_as_the_interface_says(said: list[Any]) -> None:
    update = told(said)
    mine = [fact for fact in said if getattr(fact, "rm_id", None) == RM]
    assert list(update.newAllocations) == [
        si_pb2.Allocation(
            allocationKey=fact.allocation_key,
            allocationTags=dict(fact.tags),
            UUID=fact.uuid,
            resourcePerAlloc=amounts(fact.resources),
            priority=si_pb2.Priority(priorityValue=fact.priority) if fact.priority else None,
            queueName=fact.queue,
            nodeID=fact.node_id,
            applicationID=fact.application_id,
            partitionName=f"[{RM}]{fact.partition}",
            taskGroupName=fact.task_group,
            placeholder=bool(fact.task_group) and fact.placeholder,
        )
        for fact in mine
        if isinstance(fact, facts.Allocated) and not fact.recovered
    ]
    assert list(update.releasedAllocations) == [
        si_pb2.AllocationRelease(
            partitionName=f"[{RM}]{fact.partition}",
            applicationID=fact.application_id,
            UUID=fact.uuid,
            terminationType=TERMINATIONS.get(fact.termination.name, 0),  # type: ignore[arg-type]
            message=fact.message,
        )
        for fact in mine
        if isinstance(fact, facts.ReleaseRequested)
        or (isinstance(fact, facts.Released | UnclaimedEnded) and fact.confirm)
    ]
    assert list(update.releasedAllocationAsks) == [
        si_pb2.AllocationAskRelease(
            partitionName=f"[{RM}]{fact.partition}",
            applicationID=fact.application_id,
            allocationkey=fact.allocation_key,
            message=fact.message,
        )
        for fact in mine
        if isinstance(fact, facts.AskWithdrawn | facts.EarlyAskReleased) and fact.termination is not None
    ]
    assert list(update.rejectedAllocations) == [
        si_pb2.RejectedAllocationAsk(
            allocationKey=fact.allocation_key, applicationID=fact.application_id, reason=fact.reason
        )
        for fact in mine
        if isinstance(fact, facts.AskRejected)
    ]


@given(ANY_FACTS)
def test_all_other_facts_are_told_as_the_interface_says(said: list[Any]) -> None:
    update = told(said)
    mine = [fact for fact in said if getattr(fact, "rm_id", None) == RM]

    def ids(items: Any, field: str) -> list[Any]:
        return [(getattr(item, field), getattr(item, "reason", "")) for item in items]

    def expected(fact_type: type, field: str) -> list[Any]:
        return [(getattr(fact, field), getattr(fact, "reason", "")) for fact in mine if isinstance(fact, fact_type)]

    assert ids(update.acceptedApplications, "applicationID") == expected(facts.ApplicationAccepted, "application_id")
    assert ids(update.rejectedApplications, "applicationID") == expected(facts.ApplicationRejected, "application_id")
    assert ids(update.acceptedNodes, "nodeID") == expected(facts.NodeAccepted, "node_id")
    assert ids(update.rejectedNodes, "nodeID") == expected(facts.NodeRejected, "node_id")
    assert list(update.updatedApplications) == [
        si_pb2.UpdatedApplication(
            applicationID=fact.application_id,
            state=fact.state.value,
            stateTransitionTimestamp=EPOCH_NS + fact.at_ns,
            message=fact.cause,
        )
        for fact in mine
        if isinstance(fact, facts.ApplicationChanged)
        and fact.old_state is not None
        and fact.state is not ApplicationState.REJECTED
    ]
    assert list(update.nodeRecommendations) == [
        si_pb2.NodeRecommendation(
            recommendedSchedulableResource=amounts(fact.schedulable), message=f"node {fact.node_id}: {fact.message}"
        )
        for fact in mine
        if isinstance(fact, NodeRecommended)
    ]
    assert update.action == si_pb2.UpdateResponse.NOACTION


@given(ANY_FACTS)
def test_an_rm_gets_one_dialect_whatever_others_use(said: list[facts.Fact]) -> None:
    responses = drained(said)
    addressees = [(response.rm_id, response.stream) for response in responses]
    assert len(addressees) == len(set(addressees)) + new_responses(said)
    for response in responses:
        assert (response.rm_id == RM) == (response.stream is Stream.UPDATE)
        if response.rm_id == RM:
            message = si_pb2.UpdateResponse.FromString(response.payload)
            assert response.items == sum(len(items) for _, items in message.ListFields()) > 0


def accepted(number: int) -> facts.NodeAccepted:
    return facts.NodeAccepted(RM, "default", str(number))


def test_a_response_has_a_bounded_number_of_items_over_all_its_lists() -> None:
    rejected = [facts.NodeRejected(RM, "default", "n", facts.RejectCode.EMPTY_ID, "why") for _ in range(700)]
    responses = drained([*rejected, *(accepted(number) for number in range(700))])
    assert [response.items for response in responses] == [response_builder.ITEMS_MAX, 1400 - response_builder.ITEMS_MAX]
    whole = si_pb2.UpdateResponse.FromString(b"".join(response.payload for response in responses))
    assert [node.nodeID for node in whole.acceptedNodes] == [str(number) for number in range(700)]
    assert len(whole.rejectedNodes) == 700


def test_an_rm_that_is_forgotten_may_use_the_other_dialect() -> None:
    made = encoder()
    made.add([accepted(1)], at(0))
    made.forget(RM)
    made.add([accepted(2)], at(0))
    (response,) = made.drain()
    assert response.stream is Stream.NODE


@pytest.mark.parametrize("kind", TerminationType)
def test_termination_types_have_their_own_numbers(kind: TerminationType) -> None:
    released = facts.Released(
        **{field.name: "" for field in dataclasses.fields(facts.Released)}
        | {"rm_id": RM, "termination": kind, "confirm": True}  # type: ignore[arg-type]
    )
    (release,) = told([released]).releasedAllocations
    assert release.terminationType == max(0, int(kind) - 1)


def test_resync_is_a_response_of_its_own() -> None:
    assert si_pb2.UpdateResponse.FromString(RESYNC_RESPONSE) == si_pb2.UpdateResponse(
        action=si_pb2.UpdateResponse.RESYNC
    )
