"""Reads a large message in pieces, so that the event loop can turn between them.

protobuf reads a message in one go and keeps the interpreter's lock meanwhile: a message of 16 MiB that is made of
entries of maps would hold the loop for more than a second. A serialised message may be cut between two fields and its
pieces be merged one after the other; a field that is a large message is cut in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from schedulerd.core.language.checks import TAGS_MAX
from schedulerd.wire.item_count import FIELDS_MAX, FIXED_BYTES, Malformed, varint

PIECE_BYTES_MAX = 256 * 1024
"""A piece is read from this size on. It takes 20 ms at most: entries of maps take longest, some 80 ms per MiB."""

VALUES_MAX = TAGS_MAX + 1
"""Entries of one map, and texts of one list, that are read of a part of a message that is larger than a piece. One with
so many is refused by the scheduler, so the entries after that are left out."""

_VARINT, _LENGTH_DELIMITED, _GROUP, _GROUP_END = 0, 2, 3, 4


@dataclass(frozen=True, slots=True)
class _Field:
    """A field: its name, whether it is a message, and whether it is repeated."""

    name: str
    is_message: bool
    is_list: bool
    is_values: bool
    """A map, or a list of texts."""


def read_in_pieces(raw: bytes, message: Message) -> Iterator[None]:
    """Merges `raw`, a serialised message of this type, into `message`; the loop may turn wherever this yields.

    The result is that of `message.MergeFromString(raw)`, except for entries beyond `VALUES_MAX`. Raises `DecodeError`.
    """
    if len(raw) <= PIECE_BYTES_MAX:
        message.MergeFromString(raw)
        return
    fields = _fields(cast(Descriptor, message.DESCRIPTOR))
    values: Counter[int] = Counter()
    fields_left, depth = FIELDS_MAX, 0
    merged = at = 0
    try:
        while at < len(raw):
            begin = at
            number, wire_type, content, at = _field_at(raw, at)
            depth += (wire_type == _GROUP) - (wire_type == _GROUP_END)
            known = None if depth or wire_type != _LENGTH_DELIMITED else fields.get(number)
            if known is not None and known.is_message and at - content > PIECE_BYTES_MAX:
                message.MergeFromString(raw[merged:begin])
                yield
                yield from read_in_pieces(raw[content:at], _part(message, known))
                merged = at
            elif known is not None and known.is_values:
                values[number] += 1
                if values[number] > VALUES_MAX:
                    if merged < begin:
                        message.MergeFromString(raw[merged:begin])
                        merged = begin
                    values[number] = len(getattr(message, known.name)) + 1  # of entries with one key the last counts
                    if values[number] > VALUES_MAX:
                        merged = at
            fields_left -= 1
            if at - merged >= PIECE_BYTES_MAX and not depth:
                message.MergeFromString(raw[merged:at])
                merged = at
            elif fields_left:
                continue
            fields_left = FIELDS_MAX
            yield
    except (Malformed, IndexError):
        pass  # What is left is no message, which protobuf says better.
    message.MergeFromString(raw[merged:])


def _field_at(raw: bytes, at: int) -> tuple[int, int, int, int]:
    """Number and wire type of the field that begins there, and where its content begins and ends."""
    tag, content = varint(raw, at)
    wire_type = tag & 7
    if wire_type == _LENGTH_DELIMITED:
        length, content = varint(raw, content)
        end = content + length
    elif wire_type == _VARINT:
        end = varint(raw, content)[1]
    else:
        end = content + FIXED_BYTES.get(wire_type, 0)
    if end > len(raw):
        raise Malformed
    return tag >> 3, wire_type, content, end


def _part(message: Message, field: _Field) -> Message:
    """The message in this field of another: a new one at the end of a list, or the only one."""
    part: Any = getattr(message, field.name)
    if field.is_list:
        return cast(Message, part.add())
    part.SetInParent()
    return cast(Message, part)


@cache
def _fields(descriptor: Descriptor) -> Mapping[int, _Field]:
    """The fields whose content is checked, by number."""
    found = {}
    for field in descriptor.fields:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        is_message = field.message_type is not None and not is_map
        is_values = is_map or (field.is_repeated and field.type == FieldDescriptor.TYPE_STRING)
        if is_message or is_values:
            found[field.number] = _Field(field.name, is_message, field.is_repeated, is_values)
    return found
