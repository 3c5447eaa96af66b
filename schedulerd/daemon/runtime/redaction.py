"""Prepares protobuf messages and long texts for the log: removes secrets, and cuts what is long.

The option `si_secret` of the scheduler interface marks secret fields in the `.proto` files. It is read from the
descriptor, so code that logs a message need not know the fields.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2

SECRET = "(secret)"

TEXT_CHARACTERS_MAX = 2_000
"""Maximum length of one value in a log line. Ids have at most half of it, so a valid id is never cut."""

ITEMS_MAX = 20
"""Number of items that are shown of a list or map in a message."""


def loggable(value: object) -> object:
    """Messages as plain values without secret fields, long texts cut and with their length, anything else unchanged."""
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
