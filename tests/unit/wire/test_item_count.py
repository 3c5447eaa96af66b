"""Items are counted in the bytes of a message as they are in the message itself, and bytes that are none do no harm."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.wire.item_count import has_more_items
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


@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda one: one.DESCRIPTOR.name)
@given(st.data())
def test_the_bytes_have_as_many_items_as_the_message(request_type: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(request_type))
    raw, count = message.SerializeToString(), items_in(message)
    assert has_more_items(raw, request_type, count) is False
    if count:
        assert has_more_items(raw, request_type, count - 1) is True


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
    raw = request_.SerializeToString()
    assert has_more_items(raw, type(request_), count) is False
    assert has_more_items(raw, type(request_), count - 1) is True


def test_what_comes_in_parts_is_counted_in_all_of_them() -> None:
    releases = si_pb2.AllocationReleasesRequest(allocationsToRelease=[si_pb2.AllocationRelease()] * 10)
    part = si_pb2.AllocationRequest(releases=releases)
    assert has_more_items(part.SerializeToString() * 3, si_pb2.AllocationRequest, 29) is True
    assert has_more_items(part.SerializeToString() * 3, si_pb2.AllocationRequest, 30) is False


def test_a_tag_may_be_written_longer_than_it_has_to_be() -> None:
    assert has_more_items(b"\x8a\x00\x00" * 5, si_pb2.AllocationRequest, 4) is True
    assert len(si_pb2.AllocationRequest.FromString(b"\x8a\x00\x00" * 5).asks) == 5


def test_it_stops_at_the_first_item_too_many() -> None:
    raw = b"\x0a\x00" * 11 + b"\xff" * 1_000_000
    assert has_more_items(raw, si_pb2.AllocationRequest, 10) is True


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_left_to_who_reads_them(raw: bytes) -> None:
    try:
        count = items_in(si_2021_pb2.UpdateRequest.FromString(raw))
    except DecodeError:
        has_more_items(raw, si_2021_pb2.UpdateRequest, 0)
    else:  # There may be more, in what its reader skips.
        assert has_more_items(raw, si_2021_pb2.UpdateRequest, 0) or count == 0


def test_a_number_without_end_costs_nothing() -> None:
    with pytest.raises(DecodeError):
        si_pb2.AllocationRequest.FromString(b"\xff" * 5_000_000)
    assert has_more_items(b"\xff" * 5_000_000, si_pb2.AllocationRequest, 1) is False
