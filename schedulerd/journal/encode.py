"""Commands and facts as JSON text: short, and cheap enough to be written for each ask.

A dataclass is the list of its values. Lists of dataclasses are written by column, and a column that is the same in
every row is written once: most columns of a batch of asks are, which makes the text a tenth as long, and a third as
dear to write. JSON and not `marshal`, because that cannot write the subclasses of `dict`, `str` and `int` that commands
are made of unless they are copied, and is slower then; because anybody can read it; and because a journal of somebody
else cannot run code when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from itertools import groupby
from operator import attrgetter
from typing import Any, get_args, get_origin, get_type_hints

from schedulerd.core.commands import Command
from schedulerd.core.facts import Fact
from schedulerd.journal.schema import SCALARS, CodecMissing, Convert, is_dataclass_type, unless_none, without_none

_JSON = json.JSONEncoder(check_circular=False, separators=(",", ":"))


def entry_text(now_ns: int, command: Command) -> str:
    """One command with its time (nanoseconds since the epoch) as ASCII text without line breaks."""
    kind = type(command)
    return _JSON.encode((now_ns, kind.__name__, _WRITERS[kind].row(command)))


def facts_text(facts: Sequence[Fact]) -> str:
    """All facts of one step, likewise.

    Equal facts give equal text, whichever objects they share: that is what makes it fit for a digest.
    """
    runs = groupby(facts, type)
    return _JSON.encode([(kind.__name__, _WRITERS[kind].table(tuple(run))) for kind, run in runs])


class _Writer:
    """Takes dataclasses of one kind apart."""

    def __init__(self, kind: type) -> None:
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        self._values = _getter(names)
        self._columns = [(_plain(hints[name]), _sameness(hints[name])) for name in names]

    def row(self, one: object) -> list[Any]:
        """Its values."""
        pairs = zip(self._values(one), self._columns, strict=True)
        return [value if plain is None else plain(value) for value, (plain, _) in pairs]

    def table(self, rows: Sequence[object]) -> list[Any]:
        """How many there are, then a list for each field: of the value that all of them have, or of the values."""
        if len(rows) == 1:
            return [1, *([value] for value in self.row(rows[0]))]
        return [len(rows), *self._written(zip(*map(self._values, rows), strict=True))]

    def _written(self, columns: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        for column, (plain, are_same) in zip(columns, self._columns, strict=False):
            if are_same is not None and are_same(column):
                yield column[:1]
            else:
                yield column if plain is None else [*map(plain, column)]


class _Writers(dict[type, _Writer]):
    """Made for a kind when it is first seen."""

    def __missing__(self, kind: type) -> _Writer:
        writer = self[kind] = _Writer(kind)
        return writer


_WRITERS = _Writers()


def _getter(names: Sequence[str]) -> Callable[[object], Sequence[Any]]:
    """All values of an object at once; `attrgetter` gives no tuple for a single name, and takes no less than one."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: [getattr(one, name) for name in names]


def _plain(hint: Any) -> Convert | None:
    """What makes a value of that type something JSON can write; None if it can write it as it is."""
    hint, optional = without_none(hint)
    plain = _plain_value(hint)
    return plain if plain is None or not optional else unless_none(plain)


def _plain_value(hint: Any) -> Convert | None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is frozenset:
        return sorted
    if origin in (list, tuple):
        item = arguments[0]
        if is_dataclass_type(item):
            return lambda rows: _WRITERS[item].table(rows) if rows else [0]
        plain = _plain(item)
        return None if plain is None else lambda values: [plain(value) for value in values]
    if is_dataclass_type(hint):
        return lambda one: _WRITERS[hint].row(one)
    if origin is Mapping or hint in SCALARS or issubclass(hint, dict | Enum):
        return None
    raise CodecMissing(f"no way to write {hint}")


def _sameness(hint: Any) -> Callable[[Sequence[Any]], bool] | None:
    """What tells whether all values of a column are the same; None for a type of which that is not asked.

    The answer depends on the values alone. Equality does not do for mappings: `Resources` with and without a zero are
    equal and not the same, nor are mappings in another order.
    """
    hint, _ = without_none(hint)
    if get_origin(hint) is Mapping or (isinstance(hint, type) and issubclass(hint, dict)):
        return _are_same_mappings
    if isinstance(hint, type) and issubclass(hint, (*SCALARS, Enum)):
        return _are_equal
    return None


def _are_equal(column: Sequence[Any]) -> bool:
    first = column[0]
    return bool(column[-1] == first) and column.count(first) == len(column)


def _are_same_mappings(column: Sequence[Mapping[str, Any] | None]) -> bool:
    first = column[0]
    items = None if first is None else [*first.items()]
    return all(one is first or (one is not None and [*one.items()] == items) for one in column)
