"""Readers of Kubernetes JSON: an object, or what is wrong with it and in which field; never another exception."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

_Object = TypeVar("_Object", bound=msgspec.Struct)

_FIELD_LENGTH_MAX = 200
"""Characters of a field's path in an error."""


class MalformedObject(ValueError):
    """The text is no such object. `field` is the path to the field at fault, empty if the text is no JSON object."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


def decode(kind: type[_Object], text: bytes) -> _Object:
    """The object of this kind that the JSON text holds. Raises MalformedObject."""
    try:
        value: _Object = _decoder(kind).decode(text)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None
    return value


def convert(kind: type[_Object], value: object) -> _Object:
    """The object of this kind that decoded JSON holds. Raises MalformedObject."""
    try:
        return msgspec.convert(value, kind)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None


def malformed(error: Exception) -> MalformedObject:
    """What an exception of msgspec says, as an error that names the field in Kubernetes' notation (`spec.nodeName`)."""
    if isinstance(error, RecursionError):
        return MalformedObject("", "nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return MalformedObject("", "not UTF-8")
    problem, found, path = str(error).partition(" - at `")
    field = path.removesuffix("`").removeprefix("$").removeprefix(".") if found else ""
    return MalformedObject(field[:_FIELD_LENGTH_MAX], problem)


@cache
def _decoder(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
