"""Dataclasses as JSON text, whole or in pieces.

Python's encoder writes a value in one call, which for half a megabyte takes as long as allocating a few hundred pods.
Code that shares the interpreter with others takes the same text in pieces, and lets others run in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache

from schedulerd.core.language.resources import within_int64


def json_pieces(value: object) -> Iterator[str]:
    """The text of `as_json` in pieces: each dataclass in a list is a piece, or several if it contains such lists
    itself.

    `value` must not change until the last piece is taken. Raises `TypeError` at a value that JSON cannot express.
    """
    return _pieces(value, "")


def _pieces(value: object, before: str) -> Iterator[str]:
    """`before` is text in front of the first piece."""
    if isinstance(value, list) and _has_dataclasses(value):
        separator = before + "["
        for one in value:
            yield from _pieces(one, separator)
            separator = ", "
        yield "]"
    elif is_dataclass(value) and any(map(_has_dataclasses, (parts := _as_dictionary(value)).values())):
        separator = before + "{"
        for name, part in parts.items():
            yield from _pieces(part, f'{separator}"{name}": ')
            separator = ", "
        yield "}"
    else:
        yield before + as_json(value)


def _has_dataclasses(value: object) -> bool:
    return isinstance(value, list) and bool(value) and is_dataclass(value[0])


def _as_dictionary(value: object) -> dict[str, object]:
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} cannot be shown as JSON")
    return {name: _shown(getattr(value, name)) for name in _field_names(type(value))}


def _shown(value: object) -> object:
    """Limits integers, also in dicts, to int64: many JSON readers know no larger ones. Other values are unchanged."""
    if type(value) is int:
        return within_int64(value)
    if type(value) is dict:
        return {name: _shown(one) for name, one in value.items()}
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


as_json = json.JSONEncoder(default=_as_dictionary).encode
"""Encodes dataclasses, mappings and lists of JSON values in one call. Raises `TypeError` for anything else."""
