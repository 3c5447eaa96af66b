"""Facts -> responses: each is told once, to the right stream, and in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language import checks
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.unclaimed import UnclaimedEnded
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.wire import response_builder
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder
from schedulerd.wire.response_builder import Response
from tests.instants import EPOCH_NS, at
from tests.unit.wire.facts import any_fact, any_facts, new_responses

MESSAGES: dict[Stream, Any] = {
    Stream.ALLOCATION: si_pb2.AllocationResponse,
    Stream.APPLICATION: si_pb2.ApplicationResponse,
    Stream.NODE: si_pb2.NodeResponse,
}

ANY_FACTS = any_facts(*get_args(facts.Fact))


def drained(said: Sequence[facts.Fact]) -> list[Response]:
    encoder = ResponseEncoder()
    encoder.add(said, at(0))
    return encoder.drain()


def told(responses: Sequence[Response], rm_id: str, stream: Stream) -> Any:
    """All an RM hears on a stream, as one message: serialised messages joined are one message with all lists."""
    payloads = [response.payload for response in responses if (response.rm_id, response.stream) == (rm_id, stream)]
    return MESSAGES[stream].FromString(b"".join(payloads))


def amounts(resources: Resources) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in resources.items()})


@given(ANY_FACTS)
def test_each_fact_is_told_as_the_interface_says(said: list[facts.Fact]) -> None:
    responses = drained(said)
    for rm_id in ("rm-1", "rm-2"):
        mine: list[Any] = [fact for fact in said if getattr(fact, "rm_id", None) == rm_id]
        assert told(responses, rm_id, Stream.ALLOCATION) == si_pb2.AllocationResponse(
            new=[
                si_pb2.Allocation(
                    allocationKey=fact.allocation_key,
                    allocationTags=dict(fact.tags),
                    UUID=fact.uuid,
                    resourcePerAlloc=amounts(fact.resources),
                    priority=fact.priority,
                    nodeID=fact.node_id,
                    applicationID=fact.application_id,
                    partitionName=f"[{rm_id}]{fact.partition}",
                    taskGroupName=fact.task_group,
                    placeholder=bool(fact.task_group) and fact.placeholder,
                )
                for fact in mine
                if isinstance(fact, facts.Allocated) and not fact.recovered
            ],
            released=[
                si_pb2.AllocationRelease(
                    partitionName=f"[{rm_id}]{fact.partition}",
                    applicationID=fact.application_id,
                    UUID=fact.uuid,
                    terminationType=int(fact.termination),  # type: ignore[arg-type]
                    message=fact.message,
                    allocationKey=fact.allocation_key,
                )
                for fact in mine
                if isinstance(fact, facts.ReleaseRequested)
                or (isinstance(fact, facts.Released | UnclaimedEnded) and fact.confirm)
            ],
            releasedAsks=[
                si_pb2.AllocationAskRelease(
                    partitionName=f"[{rm_id}]{fact.partition}",
                    applicationID=fact.application_id,
                    allocationKey=fact.allocation_key,
                    terminationType=int(fact.termination or 0),  # type: ignore[arg-type]
                    message=fact.message,
                )
                for fact in mine
                if isinstance(fact, facts.AskWithdrawn | facts.EarlyAskReleased) and fact.termination is not None
            ],
            rejected=[
                si_pb2.RejectedAllocationAsk(
                    allocationKey=fact.allocation_key, applicationID=fact.application_id, reason=fact.reason
                )
                for fact in mine
                if isinstance(fact, facts.AskRejected)
            ],
        )
        assert told(responses, rm_id, Stream.APPLICATION) == si_pb2.ApplicationResponse(
            rejected=[
                si_pb2.RejectedApplication(applicationID=fact.application_id, reason=fact.reason)
                for fact in mine
                if isinstance(fact, facts.ApplicationRejected)
            ],
            accepted=[
                si_pb2.AcceptedApplication(applicationID=fact.application_id)
                for fact in mine
                if isinstance(fact, facts.ApplicationAccepted)
            ],
            updated=[
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
            ],
        )
        assert told(responses, rm_id, Stream.NODE) == si_pb2.NodeResponse(
            rejected=[
                si_pb2.RejectedNode(nodeID=fact.node_id, reason=fact.reason)
                for fact in mine
                if isinstance(fact, facts.NodeRejected)
            ],
            accepted=[
                si_pb2.AcceptedNode(nodeID=fact.node_id) for fact in mine if isinstance(fact, facts.NodeAccepted)
            ],
        )


@given(ANY_FACTS)
def test_there_is_one_response_per_rm_and_stream_and_none_is_empty(said: list[facts.Fact]) -> None:
    responses = drained(said)
    addressees = [(response.rm_id, response.stream) for response in responses]
    assert len(addressees) == len(set(addressees)) + new_responses(said)
    for response in responses:
        message = MESSAGES[response.stream].FromString(response.payload)
        assert response.items == sum(len(items) for _, items in message.ListFields()) > 0


def test_the_end_of_an_application_is_not_in_the_response_that_accepts_the_next_one_of_its_id() -> None:
    """The lists of a response have no order among each other."""

    def accepted(name: str) -> facts.ApplicationAccepted:
        return facts.ApplicationAccepted("rm-1", "default", "root.q", name)

    def changed(name: str, state: ApplicationState) -> facts.ApplicationChanged:
        return facts.ApplicationChanged("rm-1", "default", "root.q", name, ApplicationState.RUNNING, state, "", 0)

    said: list[facts.Fact] = [
        changed("a", ApplicationState.COMPLETED),
        accepted("b"),
        accepted("a"),
        changed("a", ApplicationState.FAILED),
        accepted("c"),
        changed("c", ApplicationState.STARTING),
    ]
    first, second = (si_pb2.ApplicationResponse.FromString(one.payload) for one in drained(said))
    assert [one.applicationID for one in first.accepted] == ["b"]
    assert [(one.applicationID, one.state) for one in first.updated] == [("a", "Completed")]
    assert [one.applicationID for one in second.accepted] == ["a", "c"]
    assert [(one.applicationID, one.state) for one in second.updated] == [("a", "Failed"), ("c", "Starting")]


@given(any_fact(facts.Allocated))
def test_an_allocation_read_back_is_what_was_said(fact: facts.Allocated) -> None:
    fact.recovered, fact.placeholder = False, bool(fact.task_group)
    (response,) = drained([fact])
    (allocation,) = si_pb2.AllocationResponse.FromString(response.payload).new
    node = si_pb2.NodeInfo(existingAllocations=[allocation])
    (command,) = RequestDecoder().nodes(si_pb2.NodeRequest(rmID=fact.rm_id, nodes=[node]))
    (existing,) = command.nodes[0].existing
    fields = {field.name for field in dataclasses.fields(existing)} & {field.name for field in dataclasses.fields(fact)}
    fields.remove("queue")  # only 2021-02 has it
    assert {name: getattr(existing, name) for name in fields} == {name: getattr(fact, name) for name in fields}
    assert len(fields) == 10, "all that an existing allocation carries"


def released(number: int) -> facts.Released:
    return facts.Released(
        rm_id="rm-1",
        partition="default",
        queue="root.a",
        application_id="app-1",
        allocation_key=f"key-{number}",
        uuid=str(number),
        node_id="node-1",
        resources=Resources(vcore=1),
        placeholder=False,
        termination=TerminationType.STOPPED_BY_RM,
        confirm=True,
        message="",
    )


@pytest.mark.parametrize(
    "count", [1, response_builder.ITEMS_MAX - 1, response_builder.ITEMS_MAX, response_builder.ITEMS_MAX + 1, 2500]
)
def test_a_response_has_a_bounded_number_of_items(count: int) -> None:
    responses = drained([released(number) for number in range(count)])
    assert [response.items for response in responses[:-1]] == [response_builder.ITEMS_MAX] * (
        (count - 1) // response_builder.ITEMS_MAX
    )
    items = told(responses, "rm-1", Stream.ALLOCATION).released
    assert [item.UUID for item in items] == [str(number) for number in range(count)]


def placed(number: int, tags: dict[str, str]) -> facts.Allocated:
    return facts.Allocated(
        partition="",
        queue="",
        application_id="",
        allocation_key="",
        node_id="",
        uuid=str(number),
        rm_id="rm-1",
        resources=Resources(),
        priority=0,
        tags=tags,
        task_group="",
        placeholder=False,
        recovered=False,
        asked_at_ns=0,
    )


def test_a_response_has_a_bounded_size_and_nothing_is_left_out() -> None:
    tags = {"label": "x" * checks.TAGS_LENGTH_MAX}
    said: list[facts.Fact] = [fact for number in range(100) for fact in (placed(number, tags), released(number))]
    responses = drained(said)
    sizes = [len(response.payload) for response in responses]
    one = len(drained([placed(0, tags)])[0].payload)
    assert (
        response_builder.RESPONSE_BYTES_MAX
        <= min(sizes[:-1])
        <= max(sizes)
        < response_builder.RESPONSE_BYTES_MAX + 2 * one
    )
    everything = told(responses, "rm-1", Stream.ALLOCATION)
    in_order = [str(number) for number in range(100)]
    assert [item.UUID for item in everything.new] == [item.UUID for item in everything.released] == in_order
    first = told(responses[:1], "rm-1", Stream.ALLOCATION)
    assert 0 <= len(first.new) - len(first.released) <= 1, "what was said first comes first"


def test_a_response_is_full_at_the_very_size(monkeypatch: pytest.MonkeyPatch) -> None:
    item_bytes = told(drained([released(1)]), "rm-1", Stream.ALLOCATION).released[0].ByteSize()
    for size, items in ((2 * item_bytes, [2, 1]), (2 * item_bytes + 1, [3])):
        monkeypatch.setattr(response_builder, "RESPONSE_BYTES_MAX", size)
        assert [response.items for response in drained([released(number) for number in range(3)])] == items


@pytest.mark.parametrize("character", ["x", "\N{MUSICAL SYMBOL G CLEF}"])
def test_ids_and_reasons_of_any_length_come_back_in_a_response_of_bounded_size(character: str) -> None:
    long, reason = (
        character * (response_builder.REJECTED_ID_LENGTH_MAX + 1),
        character * (response_builder.TEXT_LENGTH_MAX + 1),
    )
    cut, reason_cut = long[:-1], f"{reason[:-1]}... ({len(reason)} characters)"
    code, common = facts.RejectCode.INVALID_FIELD, {"rm_id": "rm-1", "partition": "default", "reason": reason}
    responses = drained(
        [
            facts.AskRejected(**common, code=code, application_id=long, allocation_key=long),
            facts.ApplicationRejected(**common, code=code, application_id=long),
            facts.NodeRejected(**common, code=code, node_id=long),
        ]
    )
    assert max(len(response.payload) for response in responses) <= response_builder.RESPONSE_BYTES_MAX
    (ask,) = told(responses, "rm-1", Stream.ALLOCATION).rejected
    (application,) = told(responses, "rm-1", Stream.APPLICATION).rejected
    (node,) = told(responses, "rm-1", Stream.NODE).rejected
    assert (ask.allocationKey, ask.applicationID) == (cut, cut)
    assert (application.applicationID, node.nodeID) == (cut, cut)
    assert {ask.reason, application.reason, node.reason} == {reason_cut}


def test_a_batch_starts_empty() -> None:
    encoder = ResponseEncoder()
    encoder.add([released(1)], at(0))
    assert len(encoder.drain()) == 1
    assert encoder.drain() == []


def test_what_was_said_to_an_rm_can_be_forgotten() -> None:
    encoder = ResponseEncoder()
    other = dataclasses.replace(released(1), rm_id="rm-2")
    encoder.add([*(released(number) for number in range(response_builder.ITEMS_MAX + 1)), other], at(0))
    encoder.forget("rm-1")
    encoder.add([released(7)], at(0))
    responses = encoder.drain()
    assert [item.UUID for item in told(responses, "rm-1", Stream.ALLOCATION).released] == ["7"]
    assert len(told(responses, "rm-2", Stream.ALLOCATION).released) == 1


def test_so_many_sizes_are_kept_ready_and_one_more_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_builder, "SHAPES_MAX", 4)
    ready = response_builder.ReadyResources(si_pb2.Resource)
    request_classes = [Resources(vcore=amount) for amount in range(5)]
    made = [ready.of(request_class) for request_class in request_classes[:4]]
    assert all(
        ready.of(request_class) is message for request_class, message in zip(request_classes, made, strict=False)
    )
    ready.of(request_classes[4])
    assert ready.of(request_classes[0]) is not made[0]


def test_more_sizes_than_are_kept_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_builder, "SHAPES_MAX", 4)
    allocated = facts.Allocated(
        **{field.name: "x" for field in dataclasses.fields(facts.Allocated)}
        | {"recovered": False, "priority": 0, "tags": {}, "asked_at_ns": 0, "placeholder": False, "task_group": ""}  # type: ignore[arg-type]
        | {"slot": False}
    )
    said = [dataclasses.replace(allocated, resources=Resources(vcore=amount)) for amount in range(20)]
    new = told(drained(said), "x", Stream.ALLOCATION).new
    assert [allocation.resourcePerAlloc.resources["vcore"].value for allocation in new] == list(range(20))


def test_the_rm_is_told_of_no_slot() -> None:
    slot = dataclasses.replace(placed(1, {}), placeholder=True, slot=True)
    gone = dataclasses.replace(released(2), confirm=False, slot=True)
    assert drained([slot, gone]) == []
