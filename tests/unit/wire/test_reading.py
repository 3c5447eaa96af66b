"""A message that is read in pieces is the message, and no piece is large."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.wire import reading
from schedulerd.wire.reading import PIECE_BYTES_MAX, VALUES_MAX, read_in_pieces
from tests.hostile_bytes import field
from tests.unit.wire.messages import messages
from tests.unit.wire.test_item_count import REQUESTS

ASKS = si_pb2.AllocationRequest.DESCRIPTOR.fields_by_name["asks"].number
TAGS = si_pb2.AllocationAsk.DESCRIPTOR.fields_by_name["tags"].number


def read(raw: bytes, message_type: type[Message]) -> Message:
    message = message_type()
    for _ in read_in_pieces(raw, message):
        pass
    return message


@pytest.fixture
def tiny_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES_MAX", 4)
    monkeypatch.setattr(reading, "FIELDS_MAX", 3)


@pytest.mark.usefixtures("tiny_pieces")
@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda one: one.DESCRIPTOR.name)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_pieces_are_the_message(request_type: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(request_type))
    assert read(message.SerializeToString(), request_type) == message


@pytest.mark.usefixtures("tiny_pieces")
@pytest.mark.parametrize(
    ("raw", "message_type"),
    [
        (field(ASKS, field(1, b"text that is cut")[:-1]), si_pb2.AllocationRequest),
        (field(ASKS, field(1, b"\xff" * 20)), si_pb2.AllocationRequest),
        (field(1, b"x" * 20)[:-1], si_pb2.AllocationRequest),
        (b"\x0a" + b"\xff" * 30, si_pb2.AllocationRequest),
        (b"\x7b" + b"\x78\x00" * 20, si_pb2.AllocationRequest),
        (b"\x7c" + b"\x78\x00" * 20, si_pb2.AllocationRequest),
    ],
    ids=["cut in an item", "not text", "cut", "a number without end", "a group without end", "an end of no group"],
)
def test_bytes_that_are_no_message_are_a_mistake_in_pieces_too(raw: bytes, message_type: type[Message]) -> None:
    with pytest.raises(DecodeError):
        read(raw, message_type)


@pytest.mark.usefixtures("tiny_pieces")
@given(st.binary(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_what_they_are_in_one_go(raw: bytes) -> None:
    for request_type in REQUESTS:
        try:
            expected = request_type.FromString(raw)
        except DecodeError:
            with pytest.raises(DecodeError):
                read(raw, request_type)
        else:
            assert read(raw, request_type) == expected


@pytest.mark.usefixtures("tiny_pieces")
def test_a_group_of_unknown_fields_is_passed_over_as_a_whole() -> None:
    raw = b"\x7b" + field(ASKS, b"") * 20 + b"\x7c" + si_pb2.AllocationRequest(rmID="rm").SerializeToString()
    assert read(raw, si_pb2.AllocationRequest) == si_pb2.AllocationRequest.FromString(raw)


@pytest.mark.usefixtures("tiny_pieces")
def test_of_several_answers_in_one_the_last_counts_in_pieces_too() -> None:
    dump = callback_pb2.CallbackAnswer(stateDump=callback_pb2.StateDumpAnswer(callID=7, dump="{'long': 'text'}"))
    raw = dump.SerializeToString() * 3
    assert read(raw, callback_pb2.CallbackAnswer) == callback_pb2.CallbackAnswer.FromString(raw)


def test_a_small_message_is_read_at_once() -> None:
    raw = b"\x78\x00" * (PIECE_BYTES_MAX // 2)
    assert list(read_in_pieces(raw, si_pb2.AllocationRequest())) == []
    assert list(read_in_pieces(raw + b"\x78\x00", si_pb2.AllocationRequest())) != []


def test_no_piece_is_much_larger_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags of one ask are in its pieces, and pieces end between two of them."""
    sizes: list[int] = []

    class Recorded:
        DESCRIPTOR = si_pb2.AllocationAsk.DESCRIPTOR

        def MergeFromString(self, raw: bytes) -> None:
            sizes.append(len(raw))

    entry = field(TAGS, field(1, b"same" * 10))
    monkeypatch.setattr(reading, "VALUES_MAX", 10**9)
    turns = len(list(read_in_pieces(entry * 100_000, Recorded())))  # type: ignore[arg-type]
    assert sum(sizes) == len(entry) * 100_000
    assert PIECE_BYTES_MAX <= max(sizes) < PIECE_BYTES_MAX + len(entry)
    assert turns >= len(sizes) - 1


@pytest.mark.parametrize("count", [VALUES_MAX, VALUES_MAX + 1, 3 * VALUES_MAX])
def test_of_a_map_one_entry_more_is_read_than_the_scheduler_takes(count: int) -> None:
    filling = field(1, b"x" * PIECE_BYTES_MAX)
    entries = b"".join(field(TAGS, field(1, b"%06d" % number)) for number in range(count))
    (ask,) = read(field(ASKS, filling + entries), si_pb2.AllocationRequest).asks  # type: ignore[attr-defined]
    assert len(ask.tags) == VALUES_MAX
    assert len(ask.allocationKey) == PIECE_BYTES_MAX


def test_of_a_map_with_one_key_many_times_the_last_entry_counts() -> None:
    filling = field(1, b"x" * PIECE_BYTES_MAX)
    entries = b"".join(field(TAGS, field(1, b"key") + field(2, b"%06d" % number)) for number in range(3 * VALUES_MAX))
    other = field(TAGS, field(1, b"other") + field(2, b"is there"))
    (ask,) = read(field(ASKS, filling + entries + other), si_pb2.AllocationRequest).asks  # type: ignore[attr-defined]
    assert dict(ask.tags) == {"key": f"{3 * VALUES_MAX - 1:06d}", "other": "is there"}


def test_of_a_list_of_texts_too() -> None:
    groups = si_pb2.UserGroupInformation(user="x" * PIECE_BYTES_MAX, groups=["g"] * (VALUES_MAX + 5))
    request = si_pb2.ApplicationRequest(new=[si_pb2.AddApplicationRequest(ugi=groups)])
    read_one = read(request.SerializeToString(), si_pb2.ApplicationRequest)
    assert len(read_one.new[0].ugi.groups) == VALUES_MAX  # type: ignore[attr-defined]
