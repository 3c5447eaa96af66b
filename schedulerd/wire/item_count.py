"""How many items a message has, counted before it is read.

An item of nothing but defaults takes 2 bytes on the wire and about 140 in memory, so a message must be judged by its
bytes: when it is read it is too late. It is looked through only as deep as there are lists, and in slices: messages of
honest clients have millions of fields, others one for every 2 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

ITEM_BYTES_MIN = 2
"""Minimum size of an item on the wire: a shorter message cannot have so many."""

FIELDS_MAX = 10_000
"""Fields of one slice. One takes 0.2 to 1.5 microseconds, so they hold the loop for 2 to 15 ms."""

_VARINT_BYTES_MAX = 10

_VARINT, _LENGTH_DELIMITED = 0, 2
"""Wire types of protobuf. Groups, which proto3 does not have, are counted as if they were not there."""

FIXED_BYTES = {1: 8, 5: 4}
"""Sizes of the wire types that have one."""


@dataclass(frozen=True, slots=True)
class _Inner:
    """A field that is a message: whether it is a list of them, and the fields of it that lead to more lists."""

    is_list: bool
    fields: Mapping[int, _Inner]


class Malformed(ValueError):
    """These bytes are not a message; the decoder will report it with the reason."""


def item_counts(raw: bytes, message_type: type[Message]) -> Iterator[int]:
    """How many elements the lists of messages in `raw`, a serialised message, have at any depth.

    Gives the count so far after every `FIELDS_MAX` fields, so that the loop can turn there, and the whole of it last.
    Of bytes that are no message it is what comes before the first mistake.
    """
    at, end, fields = 0, len(raw), _fields(cast(Descriptor, message_type.DESCRIPTOR))
    around: list[tuple[int, Mapping[int, _Inner]]] = []
    count, fields_left = 0, FIELDS_MAX
    with suppress(Malformed, IndexError):
        while at < end or around:
            if at >= end:
                at, (end, fields) = end, around.pop()
                continue
            if not fields_left:
                yield count
                fields_left = FIELDS_MAX
            fields_left -= 1
            tag, at = varint(raw, at)
            wire_type = tag & 7
            if wire_type == _LENGTH_DELIMITED:
                length, at = varint(raw, at)
                inner = fields.get(tag >> 3)
                if inner is not None:
                    count += inner.is_list
                    if inner.fields:
                        around.append((end, fields))
                        end, fields = min(at + length, end), inner.fields
                        continue
                at += length
            elif wire_type == _VARINT:
                at = varint(raw, at)[1]
            else:
                at += FIXED_BYTES.get(wire_type, 0)
    yield count


@cache
def _fields(message: Descriptor) -> Mapping[int, _Inner]:
    """By number, the fields that have items or lead to some. Messages do not contain themselves in any interface."""
    found = {}
    for field in message.fields:
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        inner = _Inner(field.is_repeated, _fields(field.message_type))
        if inner.is_list or inner.fields:
            found[field.number] = inner
    return found


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    byte = raw[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for more in range(1, _VARINT_BYTES_MAX):
        byte = raw[at + more]
        value |= (byte & 0x7F) << 7 * more
        if byte < 0x80:
            return value, at + more + 1
    raise Malformed
