"""Hypothesis strategies for any protobuf message, made from its descriptor: whatever the wire allows in every field.

A field that is added to the interface is covered without a line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

MessageT = TypeVar("MessageT", bound=Message)

_BITS = {
    FieldDescriptor.TYPE_INT32: 31,
    FieldDescriptor.TYPE_INT64: 63,
}


def messages(
    message_type: type[MessageT], texts: Sequence[str] = (), *, items_max: int = 3, **fixed: object
) -> st.SearchStrategy[MessageT]:
    """Messages with each field missing or with any value; `texts` are strings that mean something to the receiver.

    `fixed` fields of the outermost message always have that value.
    """
    return _message(message_type.DESCRIPTOR, texts, items_max).map(lambda filled: _with(filled, fixed))


def spoiled(good: MessageT, texts: Sequence[str] = ()) -> st.SearchStrategy[MessageT]:
    """Copies of `good` with up to three of its fields missing or of any value."""
    names = [field.name for field in good.DESCRIPTOR.fields]
    changed = st.lists(st.sampled_from(names), max_size=3, unique=True)
    return st.builds(_overwritten, st.just(good), messages(type(good), texts), changed)


def _overwritten(good: MessageT, garbage: MessageT, names: Sequence[str]) -> MessageT:
    message = type(good)()
    message.CopyFrom(good)
    for name in names:
        message.ClearField(name)
    for field, value in garbage.ListFields():
        if field.name in names:
            message.MergeFrom(type(good)(**{field.name: value}))
    return message


def _with(message: Any, fixed: Mapping[str, object]) -> Any:
    for name, value in fixed.items():
        setattr(message, name, value)
    return message


def _message(descriptor: Any, texts: Sequence[str], items_max: int) -> st.SearchStrategy[Any]:
    fields = {field.name: _field(field, texts, items_max) for field in descriptor.fields}
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: GetMessageClass(descriptor)(**values))


def _field(field: FieldDescriptor, texts: Sequence[str], items_max: int) -> st.SearchStrategy[Any]:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        keys = _value(entry.fields_by_name["key"], texts, items_max)
        return st.dictionaries(keys, _value(entry.fields_by_name["value"], texts, items_max), max_size=items_max)
    if field.is_repeated:
        return st.lists(_value(field, texts, items_max), max_size=items_max)
    return _value(field, texts, items_max)


def _value(field: FieldDescriptor, texts: Sequence[str], items_max: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return _message(field.message_type, texts, items_max)
    if field.enum_type is not None:
        known = [value.number for value in field.enum_type.values]
        return st.one_of(st.sampled_from(known), st.integers(-(2**31), 2**31 - 1))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type in _BITS:
        limit = 2 ** _BITS[field.type]
        return st.one_of(st.integers(-2, 20), st.sampled_from([-limit, limit - 1]), st.integers(-limit, limit - 1))
    assert field.type == FieldDescriptor.TYPE_STRING, f"{field.full_name}: no strategy for its type"
    return st.one_of(st.sampled_from([*texts, ""]), st.text(max_size=8), st.just("long" * 500))
