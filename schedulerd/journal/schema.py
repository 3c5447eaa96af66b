"""What commands and facts are made of, read off the dataclasses: a new one needs no code in this package.

The names of the fields stand in the header of a journal once, and values without names in its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeGuard, get_args, get_origin, get_type_hints

from schedulerd.core.language.commands import Command

Schema: TypeAlias = Mapping[str, Sequence[str]]
"""Names of dataclasses with the names of their fields, in the order in which values are written."""

Convert: TypeAlias = Callable[[Any], Any]

SCALARS = (str, int, float, bool)


class CodecMissing(TypeError):
    """A command or fact has a field of a type that this package cannot write: a programming error."""


def schema() -> dict[str, list[str]]:
    """Of everything that can be part of a command."""
    return {kind.__name__: [field.name for field in fields(kind)] for kind in command_kinds()}


@cache
def command_kinds() -> tuple[type, ...]:
    """Every dataclass that can be part of a command, the commands among them."""
    found: dict[type, None] = {}

    def visit(hint: Any) -> None:
        if is_dataclass_type(hint) and hint not in found:
            found[hint] = None
            for inner in get_type_hints(hint).values():
                visit(inner)
        for argument in get_args(hint):
            visit(argument)

    visit(Command)
    return tuple(found)


def is_dataclass_type(hint: Any) -> TypeGuard[type]:
    """Whether a type is a dataclass."""
    return isinstance(hint, type) and is_dataclass(hint)


def without_none(hint: Any) -> tuple[Any, bool]:
    """`X` and True for `X | None`, any other type and False."""
    if get_origin(hint) is UnionType:
        rest = [one for one in get_args(hint) if one is not NoneType]
        if len(rest) == 1:
            return rest[0], True
        raise CodecMissing(f"no way to tell the types of {hint} apart")
    return hint, False


def unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
