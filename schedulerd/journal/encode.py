"""Commands as JSON text and facts as text for a digest: short, and cheap enough to be written for each ask.

A dataclass is the list of its values. Lists of dataclasses are written by column, and a column that is the same in
every row is written once: most columns of a batch of asks are, which makes the text a tenth as long, and a third as
dear to write. JSON and not `marshal`, because that cannot write the subclasses of `dict`, `str` and `int` that commands
are made of unless they are copied, and is slower then; because it can be read without tools; and because a journal
from elsewhere cannot run code when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from itertools import groupby
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.instant import Instant
from schedulerd.journal.schema import SCALARS, CodecMissing, Convert, is_dataclass_type, unless_none, without_none

_JSON = json.JSONEncoder(check_circular=False, separators=(",", ":"))

_Column: TypeAlias = tuple[Convert | None, Callable[[Sequence[Any]], bool] | None]
"""A function that makes a value plain, and a function that tells whether all values are the same; None if not
needed."""


def entry_text(now: Instant, command: Command) -> str:
    """One command with its time on both clocks as ASCII text without line breaks."""
    kind = type(command)
    return _JSON.encode((now.monotonic_ns, now.wall_ns, kind.__name__, _WRITERS[kind].row(command)))


def facts_text(facts: Sequence[Fact]) -> str:
    """All facts of one step, to be compared and not to be read: no two steps that differ have the same text.

    Equal facts give equal text, whichever objects they share: that is what makes it fit for a digest. Each run of facts
    of one kind is a line with the kind and their number, a table of what is no text, and then all their texts, a line
    each, in JSON if one has several lines. An empty line ends the step.
    """
    return "".join([_SAYINGS[kind].text(tuple(run)) for kind, run in groupby(facts, type)]) + "\n"


def facts_bytes(facts: Sequence[Fact]) -> bytes:
    """`facts_text` as the digest of a journal has it."""
    return facts_text(facts).encode("utf-8", "surrogatepass")


class _Writer:
    """Takes dataclasses of one kind apart."""

    def __init__(self, hints: Mapping[str, Any]) -> None:
        """The fields with their types."""
        self._values = _getter(f"one.{name}" for name in hints)
        self._columns = _columns(hints)

    def row(self, one: object) -> list[Any]:
        """Its values."""
        (values,) = self._values((one,))
        return [
            value if plain is None else plain(value) for value, (plain, _) in zip(values, self._columns, strict=True)
        ]

    def table(self, rows: Sequence[object]) -> list[Any]:
        """How many there are, then a list for each field: of the value that all of them have, or of the values."""
        return [len(rows), *_written(zip(*self._values(rows), strict=True), self._columns)]


class _Saying:
    """Makes the text of facts of one kind. Those of a placement are texts mostly, which JSON would take long for."""

    def __init__(self, kind: type) -> None:
        hints = _hints(kind)
        self._kind = kind.__name__
        self._texts = [name for name, hint in hints.items() if hint is str]
        rest = {name: hint for name, hint in hints.items() if hint is not str}
        lines = "\\n".join(f"{{one.{name}}}" for name in self._texts)
        self._values = _getter([f"f'{lines}'", *(f"one.{name}" for name in rest)])
        self._columns = _columns(rest)

    def text(self, facts: Sequence[Fact]) -> str:
        texts, *rest = zip(*self._values(facts), strict=True)
        table = _JSON.encode([*_written(rest, self._columns)])
        lines = "\n".join(texts)
        if lines.count("\n") == max(len(self._texts), 1) * len(facts) - 1:
            return f"{self._kind} {len(facts)}\n{table}\n{lines}\n"
        lines = _JSON.encode([[getattr(one, name) for name in self._texts] for one in facts])
        return f"{self._kind} {len(facts)} JSON\n{table}\n{lines}\n"


class _Writers(dict[type, _Writer]):
    """A cache of writers by kind of command; each is made when the kind is first seen."""

    def __missing__(self, kind: type) -> _Writer:
        writer = self[kind] = _Writer(_hints(kind))
        return writer


class _Sayings(dict[type, _Saying]):
    """A cache of `_Saying` by kind of fact; each is made when the kind is first seen."""

    def __missing__(self, kind: type) -> _Saying:
        saying = self[kind] = _Saying(kind)
        return saying


_WRITERS = _Writers()
_SAYINGS = _Sayings()


def _hints(kind: type) -> dict[str, Any]:
    """The types of all fields, in order."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _columns(hints: Mapping[str, Any]) -> list[_Column]:
    return [(_plain(hint), _sameness(hint)) for hint in hints.values()]


def _written(values: Iterable[Sequence[Any]], columns: Iterable[_Column]) -> Iterator[Sequence[Any]]:
    """The values of each column; one value if all rows have the same."""
    for column, (plain, are_same) in zip(values, columns, strict=True):
        if are_same is not None and are_same(column):
            column = column[:1]
        yield column if plain is None else [*map(plain, column)]


def _getter(expressions: Iterable[str]) -> Callable[[Sequence[object]], list[tuple[Any, ...]]]:
    """All these values of objects (each is called `one`), in a tuple for each of them.

    It is compiled from the names of fields, as `dataclass` compiles what it adds: attributes that stand in code are
    read in half the time that `attrgetter` takes, and reading them is most of what a journal costs.
    """
    values = "".join(f"{expression}, " for expression in expressions)
    getter: Callable[[Sequence[object]], list[tuple[Any, ...]]] = eval(f"lambda rows: [({values}) for one in rows]")
    return getter


def _plain(hint: Any) -> Convert | None:
    """A function that makes a value of this type writable as JSON; None if it already is."""
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
