"""How many items a message has, counted before it is read.

An item of nothing but defaults takes 2 bytes on the wire and about 140 in memory, so a message must be judged by its
bytes: when it is read it is too late. Only a message that is long enough to have too many items is looked through, and
only as deep as there are lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

_ITEM_BYTES_MIN = 2
_VARINT_BYTES_MAX = 10

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf. Groups, which proto3 does not have, are counted as if they were not there."""


@dataclass(frozen=True, slots=True)
class _Inner:
    """A field that is a message: whether it is a list of them, and the fields of it that lead to more lists."""

    is_list: bool
    fields: Mapping[int, _Inner]


class _Malformed(ValueError):
    """These bytes are no message, which whoever reads them will say better."""


def has_more_items(raw: bytes, message_type: type[Message], items_max: int) -> bool:
    """Whether lists of messages in `raw`, a serialised message, have more elements than that, at any depth."""
    if len(raw) <= _ITEM_BYTES_MIN * items_max:
        return False
    try:
        return _count(raw, 0, len(raw), _fields(cast(Descriptor, message_type.DESCRIPTOR)), items_max) > items_max
    except (_Malformed, IndexError):
        return False


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


def _count(raw: bytes, at: int, end: int, fields: Mapping[int, _Inner], items_max: int) -> int:
    """Items of the message between two places; stops when there are too many."""
    count = 0
    while at < end:
        tag, at = _varint(raw, at)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            length, at = _varint(raw, at)
            inner = fields.get(tag >> 3)
            if inner is not None:
                count += inner.is_list
                if inner.fields:
                    count += _count(raw, at, min(at + length, end), inner.fields, items_max - count)
                if count > items_max:
                    break
            at += length
        elif wire_type == _VARINT:
            at = _varint(raw, at)[1]
        elif wire_type == _FIXED64:
            at += 8
        elif wire_type == _FIXED32:
            at += 4
    return count


def _varint(raw: bytes, at: int) -> tuple[int, int]:
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
    raise _Malformed
