"""JSON values back to commands: the exact inverse of `encode`, also for what another version of schedulerd wrote.

Equal amounts become one shared object, as they are when they come from the wire codec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from schedulerd.core.language.commands import Command
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.journal.schema import (
    SCALARS,
    CodecMissing,
    Convert,
    Schema,
    command_kinds,
    is_dataclass_type,
    unless_none,
    without_none,
)

RESOURCES_MAX = 4096
"""Distinct amounts that are shared; with more of them only the sharing is lost."""


class CommandReader:
    """Reads commands that were written with the fields of `names`, which another version may have written.

    A field that is missing there gets its default.
    """

    def __init__(self, names: Schema) -> None:
        self._names = names
        self._kinds = {kind.__name__: kind for kind in command_kinds()}
        self._commands = {kind.__name__ for kind in get_args(Command)}
        self._resources = lru_cache(RESOURCES_MAX)(_resources)
        self._readers: dict[type, _Reader] = {}

    def command(self, name: str, values: Sequence[Any]) -> Command:
        """A command from its values. Raises `ValueError`, `TypeError` or `LookupError` if this version has no such
        command."""
        if name not in self._commands:
            raise LookupError(f"there is no command {name!r}")
        command: Command = self._reader(self._kinds[name]).row(values)
        return command

    def _reader(self, kind: type) -> _Reader:
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._readers[kind] = self._make_reader(kind)
        return reader

    def _make_reader(self, kind: type) -> _Reader:
        names = self._names[kind.__name__]
        hints = get_type_hints(kind)
        if unknown := [name for name in names if name not in hints]:
            raise LookupError(f"{kind.__name__} has no field {', '.join(unknown)}")
        in_order = list(names) == [field.name for field in fields(kind)]
        return _Reader(kind, None if in_order else tuple(names), [self._convert(hints[name]) for name in names])

    def _convert(self, hint: Any) -> Convert | None:
        """A function that makes a value of this type from JSON; None if no conversion is needed."""
        hint, optional = without_none(hint)
        convert = self._convert_value(hint)
        return convert if convert is None or not optional else unless_none(convert)

    def _convert_value(self, hint: Any) -> Convert | None:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (list, tuple):
            collection, item = origin, arguments[0]
            if is_dataclass_type(item):
                return lambda table: collection(self._reader(item).table(table))
            convert = self._convert(item)
            return collection if convert is None else lambda values: collection(map(convert, values))
        if is_dataclass_type(hint):
            return lambda values: self._reader(hint).row(values)
        if hint is Resources:
            return lambda amounts: self._resources(tuple(amounts.items()))
        if origin is frozenset or hint is Limits:
            return frozenset if origin is frozenset else Limits
        if origin is Mapping or hint in SCALARS:
            return None
        if issubclass(hint, Enum):
            return {value.value: value for value in hint}.__getitem__
        raise CodecMissing(f"no way to read {hint}")


class _Reader:
    """Makes dataclasses of one kind from rows and tables."""

    def __init__(self, kind: type, names: tuple[str, ...] | None, converts: Sequence[Convert | None]) -> None:
        """`names` says in which order the values stand; None if it is that of the fields."""
        self._converts = converts
        self._make: Callable[..., Any] = (
            kind if names is None else lambda *values: kind(**dict(zip(names, values, strict=True)))
        )

    def row(self, values: Sequence[Any]) -> Any:
        pairs = zip(self._converts, values, strict=True)
        return self._make(*[value if convert is None else convert(value) for convert, value in pairs])

    def table(self, table: Sequence[Any]) -> Iterable[Any]:
        count, *columns = table
        if not count:
            return ()
        pairs = zip(self._converts, columns, strict=True)
        return map(self._make, *[_column(count, values, convert) for convert, values in pairs])


def _column(count: int, values: Sequence[Any], convert: Convert | None) -> Sequence[Any]:
    if convert is not None:
        values = [*map(convert, values)]
    if len(values) == count:
        return values
    (value,) = values
    return [value] * count


def _resources(items: tuple[tuple[str, int], ...]) -> Resources:
    return Resources(items)
