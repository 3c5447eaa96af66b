"""What one request may bring: as many items as the setting says, and not one more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.language.checks import TAGS_LENGTH_MAX
from schedulerd.daemon.sessions.open_calls import Refused
from schedulerd.daemon.transport import request_limits
from schedulerd.daemon.transport.request_limits import VERSION_LENGTH_MAX, RequestLimits
from schedulerd.wire.item_count import FIELDS_MAX
from schedulerd.wire.reading import PIECE_BYTES_MAX
from tests.loops import each_row

UNKNOWN_FIELD = b"\x78\x00"
"""Of number 15, which no request has."""

RequestT = TypeVar("RequestT", bound=Message)

ALLOCATION, NODE, NEW_NODE = (
    si_pb2.Allocation(),
    si_pb2.NodeInfo(existingAllocations=[si_pb2.Allocation()] * 2),
    si_2021_pb2.NewNodeInfo(existingAllocations=[si_2021_pb2.Allocation()] * 2),
)
RELEASES = si_pb2.AllocationReleasesRequest(
    allocationsToRelease=[si_pb2.AllocationRelease()] * 3, allocationAsksToRelease=[si_pb2.AllocationAskRelease()] * 4
)
RELEASES_2021 = si_2021_pb2.AllocationReleasesRequest.FromString(RELEASES.SerializeToString())

REQUESTS: list[tuple[Message, int]] = [
    (si_pb2.AllocationRequest(asks=[si_pb2.AllocationAsk()] * 2, releases=RELEASES), 9),
    (si_pb2.ApplicationRequest(new=[si_pb2.AddApplicationRequest()] * 2), 2),
    (si_pb2.ApplicationRequest(remove=[si_pb2.RemoveApplicationRequest()] * 3), 3),
    (si_pb2.NodeRequest(nodes=[NODE, si_pb2.NodeInfo()]), 4),
    (si_2021_pb2.UpdateRequest(asks=[si_2021_pb2.AllocationAsk()] * 2, releases=RELEASES_2021), 9),
    (si_2021_pb2.UpdateRequest(newSchedulableNodes=[NEW_NODE], updatedNodes=[si_2021_pb2.UpdateNodeInfo()]), 4),
    (si_2021_pb2.UpdateRequest(utilizationReports=[si_2021_pb2.UtilizationReport()] * 5), 5),
    (si_2021_pb2.UpdateRequest(newApplications=[si_2021_pb2.AddApplicationRequest()]), 1),
    (si_2021_pb2.UpdateRequest(removeApplications=[si_2021_pb2.RemoveApplicationRequest()]), 1),
]


def parsed(raw: bytes, request_type: type[RequestT], items_max: int) -> RequestT:
    return asyncio.run(RequestLimits(items_max, 1).parser(request_type)(raw))


@each_row(("request_", "count"), REQUESTS)
def test_a_request_with_one_item_too_many_is_refused(request_: Message, count: int) -> None:
    raw = request_.SerializeToString()
    assert parsed(raw, type(request_), count) == request_
    with pytest.raises(Refused) as refused:
        parsed(raw, type(request_), count - 1)
    assert refused.value.ending.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.ending.details == (
        f"the request has more than {count - 1} items (setting max_message_items): send them in several requests"
    )


def registration(**fields: object) -> si_pb2.RegisterResourceManagerRequest:
    return si_pb2.RegisterResourceManagerRequest(rmID="rm", **fields)  # type: ignore[arg-type]


def test_a_registration_carries_so_much_about_its_sender_and_no_more() -> None:
    check = RequestLimits(1, 1).check_registration
    full = {"k": "v" * (TAGS_LENGTH_MAX - 1)}
    check(registration(version="v" * VERSION_LENGTH_MAX, buildInfo=full), [])
    for fields, words in (
        ({"version": "v" * (VERSION_LENGTH_MAX + 1)}, "version: has 257 characters; at most 256 are allowed"),
        ({"buildInfo": {**full, "l": ""}}, "buildInfo have 65537 characters in all; at most 65536 are allowed"),
    ):
        with pytest.raises(Refused) as refused:
            check(registration(**fields), [])
        assert refused.value.ending.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.ending.details == words


def test_so_many_resource_managers_are_taken_and_those_that_are_may_register_again() -> None:
    check = RequestLimits(1, 2).check_registration
    check(registration(), ["a"])
    check(registration(), ["a", "rm"])
    with pytest.raises(Refused) as refused:
        check(registration(), ["a", "b"])
    assert refused.value.ending.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.ending.details.startswith("2 resource managers are registered already, which is the limit")


def test_one_client_registers_a_quarter_of_them() -> None:
    check = RequestLimits(1, 8).check_registration
    check(registration(), ["a", "b"], ["a"])
    check(registration(), ["a", "b", "rm"], ["a", "rm"])
    with pytest.raises(Refused) as refused:
        check(registration(), ["a", "b"], ["a", "b"])
    assert refused.value.ending.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.ending.details.startswith("this client has registered 2 resource managers already, a quarter")


def test_predicate_results_are_items_too() -> None:
    answer = callback_pb2.CallbackAnswer(predicates=[callback_pb2.PredicatesResult()] * 3)
    raw = answer.SerializeToString()
    assert parsed(raw, callback_pb2.CallbackAnswer, 3) == answer
    with pytest.raises(Refused):
        parsed(raw, callback_pb2.CallbackAnswer, 2)


def test_the_loop_turns_while_the_items_of_a_large_request_are_counted() -> None:
    slices = 30
    parse = RequestLimits(1, 1).parser(si_pb2.AllocationRequest)

    async def turns_meanwhile() -> int:
        counting = asyncio.create_task(parse(UNKNOWN_FIELD * FIELDS_MAX * slices))
        turns = 0
        while not counting.done():
            await asyncio.sleep(0)
            turns += 1
        assert not (await counting).asks
        return turns

    assert asyncio.run(turns_meanwhile()) >= slices


def test_a_request_that_is_too_short_to_have_too_many_items_is_not_looked_through() -> None:
    parse = RequestLimits(FIELDS_MAX * 2, 1).parser(si_pb2.AllocationRequest)
    reading = parse(UNKNOWN_FIELD * FIELDS_MAX * 2)
    with pytest.raises(StopIteration):
        reading.send(None)


def test_of_large_requests_that_come_together_one_piece_is_read_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    read_at: list[int] = []

    def pieces(_raw: bytes, request: Message) -> Iterator[None]:
        for _ in range(3):
            read_at.append(turns)
            yield

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def play() -> None:
        monkeypatch.setattr(request_limits, "read_in_pieces", pieces)
        parse = RequestLimits(10**9, 1).parser(si_pb2.AllocationRequest)
        counting = asyncio.create_task(count_turns())
        await asyncio.gather(*(parse(bytes(PIECE_BYTES_MAX + 1)) for _ in range(20)))
        counting.cancel()

    asyncio.run(play())
    assert len(read_at) == len(set(read_at)) == 60
