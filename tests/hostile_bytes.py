"""Bytes that somebody might send in place of a message: made from a seed, for any message type.

Noise alone hardly gets past the first field, so most of it is a message that was broken in one place: a bit, a length,
a piece that is gone or there twice. What a decoder has to fear beyond that is listed by name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

T = TypeVar("T")

TEXTS = (
    "",
    "bug",
    "app-1",
    "node-0",
    "root.a",
    "root",
    "default",
    "[rm]default",
    "vcore",
    "ready",
    "si/node-partition",
)
"""Some mean something to a daemon under test, one to a daemon that is to be found out (`failing_daemon`)."""
NUMBERS = (0, 1, -1, 7, 2**31 - 1, -(2**31))
LIST_MAX = 3
NOISE_BYTES_MAX = 200
DEPTH = 20_000
"""Of groups in each other: readers that call themselves for each run out of stack."""

_LENGTH_DELIMITED, _GROUP = 2, 3


def hostile(choose: random.Random, message_type: type[Message]) -> bytes:
    """Bytes for a receiver of this message, which may even be one."""
    return choose.choice(_KINDS)(choose, message_type)


def a_message(choose: random.Random, message_type: type[Message]) -> Message:
    """A message with each field missing or of any value."""
    return _filled(choose, message_type.DESCRIPTOR)


def field(number: int, content: bytes) -> bytes:
    """A field of a number below 16 as it stands on the wire."""
    return bytes([number << 3 | _LENGTH_DELIMITED]) + varint(len(content)) + content


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _noise(choose: random.Random, _message_type: type[Message]) -> bytes:
    return choose.randbytes(choose.randint(0, NOISE_BYTES_MAX))


def _valid(choose: random.Random, message_type: type[Message]) -> bytes:
    return a_message(choose, message_type).SerializeToString()


def _broken(choose: random.Random, message_type: type[Message]) -> bytes:
    """A message with one to three pieces flipped, cut out, doubled or overwritten."""
    raw = bytearray(_valid(choose, message_type))
    for _ in range(choose.randint(1, 3)):
        if not raw:
            break
        at = choose.randrange(len(raw))
        end = min(len(raw), at + choose.randint(1, 8))
        match choose.randrange(4):
            case 0:
                raw[at] ^= 1 << choose.randrange(8)
            case 1:
                del raw[at:end]
            case 2:
                raw[at:at] = raw[at:end]
            case _:
                raw[at:end] = choose.randbytes(end - at)
    return bytes(raw)


def _not_unicode(choose: random.Random, message_type: type[Message]) -> bytes:
    """Texts that are not UTF-8 where a text is wanted, at any depth that one field after the other leads to."""
    fields = [one for one in message_type.DESCRIPTOR.fields if one.number < 16]
    chosen: Any = choose.choice(fields)
    if chosen.message_type is not None and chosen.message_type.fields:
        return field(chosen.number, _not_unicode(choose, GetMessageClass(chosen.message_type)))
    return field(chosen.number, choose.choice((b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80")))


def _long_number(choose: random.Random, _message_type: type[Message]) -> bytes:
    """A length, or a number, that does not end or is larger than anything."""
    return bytes([choose.randrange(1, 16) << 3 | choose.choice((0, _LENGTH_DELIMITED))]) + b"\xff" * choose.randint(
        4, 40
    )


def _deep(choose: random.Random, _message_type: type[Message]) -> bytes:
    return bytes([choose.randrange(1, 16) << 3 | _GROUP]) * DEPTH


def _filled(choose: random.Random, descriptor: Any) -> Message:
    message = GetMessageClass(descriptor)()
    for one in descriptor.fields:
        if choose.random() < 0.7:
            _fill(choose, message, one)
    return message


def _fill(choose: random.Random, message: Any, one: FieldDescriptor) -> None:
    inner = one.message_type
    if inner is not None and inner.GetOptions().map_entry:
        for _ in range(choose.randint(0, LIST_MAX)):
            key: Any = _scalar(choose, inner.fields_by_name["key"])
            value = inner.fields_by_name["value"]
            if value.message_type is not None:
                getattr(message, one.name)[key].CopyFrom(_filled(choose, value.message_type))
            else:
                getattr(message, one.name)[key] = _scalar(choose, value)
    elif one.is_repeated:
        values = [_value(choose, one) for _ in range(choose.randint(0, LIST_MAX))]
        getattr(message, one.name).extend(values)
    elif inner is not None:
        getattr(message, one.name).CopyFrom(_filled(choose, inner))
    else:
        setattr(message, one.name, _scalar(choose, one))


def _value(choose: random.Random, one: FieldDescriptor) -> object:
    return _filled(choose, one.message_type) if one.message_type is not None else _scalar(choose, one)


def _scalar(choose: random.Random, one: FieldDescriptor) -> object:
    if one.type == FieldDescriptor.TYPE_STRING:
        return choose.choice((*TEXTS, "ä\u2028\U0001f600", "long" * 500))
    if one.type == FieldDescriptor.TYPE_BOOL:
        return choose.random() < 0.5
    if one.enum_type is not None:
        return choose.choice((0, 1, 2, 3, 77))
    if one.type == FieldDescriptor.TYPE_UINT64:
        return choose.choice((0, 1, 2**64 - 1))
    return choose.choice(NUMBERS)


_KINDS: Sequence[Callable[[random.Random, type[Message]], bytes]] = (
    *(_valid, _valid, _valid, _valid, _broken, _broken, _broken, _broken),
    *(_noise, _not_unicode, _long_number, _deep),
)
"""Many are messages, as what comes after bytes that are none is not read."""
