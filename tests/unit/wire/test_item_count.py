"""Items are counted in the bytes of a message as they are in the message itself, and bytes that are none do no harm."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.wire.item_count import FIELDS_MAX, item_counts
from tests.unit.wire.messages import messages

REQUESTS: list[type[Message]] = [
    si_pb2.AllocationRequest,
    si_pb2.ApplicationRequest,
    si_pb2.NodeRequest,
    si_2021_pb2.UpdateRequest,
    callback_pb2.CallbackAnswer,
]


def items_in(message: Message) -> int:
    """The elements of all its lists of messages, at any depth."""
    count = 0
    for field, content in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in content if field.is_repeated else [content]:
            count += field.is_repeated + items_in(one)
    return count


def counted(raw: bytes, request_type: type[Message]) -> int:
    """By the bytes, to the end."""
    *_, count = item_counts(raw, request_type)
    return count


@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda one: one.DESCRIPTOR.name)
@given(st.data())
def test_the_bytes_have_as_many_items_as_the_message(request_type: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(request_type))
    assert counted(message.SerializeToString(), request_type) == items_in(message)


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        (si_pb2.AllocationRequest(asks=[si_pb2.AllocationAsk()] * 300), 300),
        (si_pb2.NodeRequest(nodes=[si_pb2.NodeInfo(existingAllocations=[si_pb2.Allocation()] * 299)]), 300),
        (
            si_pb2.AllocationRequest(
                releases=si_pb2.AllocationReleasesRequest(
                    allocationsToRelease=[si_pb2.AllocationRelease()] * 100,
                    allocationAsksToRelease=[si_pb2.AllocationAskRelease()] * 200,
                )
            ),
            300,
        ),
    ],
    ids=["of the message", "of an item", "of a part"],
)
def test_empty_items_are_items_too(request_: Message, count: int) -> None:
    assert counted(request_.SerializeToString(), type(request_)) == count


def test_what_comes_in_parts_is_counted_in_all_of_them() -> None:
    releases = si_pb2.AllocationReleasesRequest(allocationsToRelease=[si_pb2.AllocationRelease()] * 10)
    part = si_pb2.AllocationRequest(releases=releases)
    assert counted(part.SerializeToString() * 3, si_pb2.AllocationRequest) == 30


def test_a_tag_may_be_written_longer_than_it_has_to_be() -> None:
    assert counted(b"\x8a\x00\x00" * 5, si_pb2.AllocationRequest) == 5
    assert len(si_pb2.AllocationRequest.FromString(b"\x8a\x00\x00" * 5).asks) == 5


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        (b"\x0a\x00" * FIELDS_MAX, [FIELDS_MAX]),
        (b"\x0a\x00" * (2 * FIELDS_MAX + 1), [FIELDS_MAX, 2 * FIELDS_MAX, 2 * FIELDS_MAX + 1]),
        (b"\x78\x00" * (2 * FIELDS_MAX + 1), [0, 0, 0]),
        (
            si_pb2.NodeRequest(
                nodes=[si_pb2.NodeInfo(existingAllocations=[si_pb2.Allocation()] * FIELDS_MAX)]
            ).SerializeToString(),
            [FIELDS_MAX, FIELDS_MAX + 1],
        ),
    ],
    ids=["as many as are looked at at a time", "items", "fields of numbers that there are not", "in an item"],
)
def test_a_bounded_number_of_fields_is_looked_at_at_a_time(raw: bytes, counts: list[int]) -> None:
    assert list(item_counts(raw, si_pb2.NodeRequest)) == counts


def test_what_comes_before_a_mistake_counts() -> None:
    raw = b"\x0a\x00" * 11 + b"\xff" * 1_000_000
    assert list(item_counts(raw, si_pb2.AllocationRequest)) == [11]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_left_to_the_decoder(raw: bytes) -> None:
    try:
        count = items_in(si_2021_pb2.UpdateRequest.FromString(raw))
    except DecodeError:
        counted(raw, si_2021_pb2.UpdateRequest)
    else:  # There may be more, in what its reader skips.
        assert counted(raw, si_2021_pb2.UpdateRequest) >= bool(count)


def test_a_number_without_end_costs_nothing() -> None:
    with pytest.raises(DecodeError):
        si_pb2.AllocationRequest.FromString(b"\xff" * 5_000_000)
    assert list(item_counts(b"\xff" * 5_000_000, si_pb2.AllocationRequest)) == [0]
