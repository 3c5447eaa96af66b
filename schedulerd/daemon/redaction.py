"""Protobuf messages and long texts as they may stand in a log: without secrets, and cut.

Which field is a secret is said once, in the `.proto` files, by the option `si_secret` of the scheduler interface. It is
looked up in the descriptor, so nobody who logs a message has to know its fields.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2

SECRET = "(secret)"

TEXT_CHARACTERS_MAX = 2_000
"""Of one value in a log line. Ids have at most half of it, so all of an id that is valid is there."""

ITEMS_MAX = 20
"""Of a list or map of a message."""


def loggable(value: object) -> object:
    """Messages as plain values without what is secret, long texts cut with their length; the rest as it is."""
    if isinstance(value, Message):
        return {field.name: _field(field, content) for field, content in value.ListFields()}
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS_MAX:
        return f"{value[:TEXT_CHARACTERS_MAX]}... ({len(value)} characters)"
    if isinstance(value, list):
        return [loggable(one) for one in value]
    return value


def _field(field: FieldDescriptor, content: Any) -> object:
    if field.GetOptions().Extensions[si_pb2.si_secret]:
        return SECRET
    if not field.is_repeated:
        return loggable(content)
    more = [f"... {len(content) - ITEMS_MAX} more"] if len(content) > ITEMS_MAX else []
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        shown = {str(loggable(key)): loggable(one) for key, one in islice(content.items(), ITEMS_MAX)}
        return shown | dict.fromkeys(more, "")
    return [loggable(one) for one in islice(content, ITEMS_MAX)] + more
