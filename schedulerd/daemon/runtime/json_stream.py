"""JSON texts that may be long, in pieces, so that the loop can do other work in between: one writer for all of them.

A piece is cut by what it holds: after `chars` characters, between two items of a list. Items are dataclasses, or those
of a `Listed`, which are made when they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pydantic_core import to_json

PIECE_CHARS = 2_048
"""Size from which a piece is handed on: it takes about a tenth of a millisecond to make, the objects included."""

PAUSE: Any = object()
"""In place of an item of a `Listed`: nothing to write, but a good moment for other work. It ends a piece."""

_PLAIN = frozenset({str, int, bool, float, type(None)})


def compact(value: object) -> str:
    """The text of a value that pydantic can write, without blanks."""
    return to_json(value).decode()


class Listed:
    """A list of which each item is made when it is written."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items


class JsonWriter:
    """A style of JSON."""

    def __init__(self, encode: Callable[[object], str], comma: str, colon: str, *, chars: int = PIECE_CHARS) -> None:
        """`encode` gives the text of a value that contains no long list, in one call."""
        self._encode, self._comma, self._colon = encode, comma, colon
        self._chars = chars

    def pieces(self, value: object) -> Iterator[str]:
        """The text of dataclasses, dicts and lists. `value` must not change until the last piece is taken."""
        collected: list[str] = []
        left = self._chars
        for text in self._texts(value, ""):
            collected.append(text)
            left -= len(text)
            if left <= 0 or not text:
                yield "".join(collected)
                collected.clear()
                left = self._chars
        if collected:
            yield "".join(collected)

    def whole(self, value: object) -> Generator[None, None, bytes]:
        """The whole text in UTF-8; stops after each piece."""
        pieces = []
        for piece in self.pieces(value):
            pieces.append(piece)
            yield
        return "".join(pieces).encode()

    def _texts(self, value: object, before: str) -> Iterator[str]:
        """`before` is text in front of the first one."""
        if not has_items(value):
            yield before + self._encode(value)
        elif isinstance(value, (Listed, list)):
            separator = before + "["
            for item in value.items if isinstance(value, Listed) else value:
                if item is PAUSE:
                    yield ""
                    continue
                yield from self._texts(item, separator)
                separator = self._comma
            yield "]" if separator is self._comma else separator + "]"
        else:
            separator = before + "{"
            for name, part in _members(value):
                yield from self._texts(part, f"{separator}{self._encode(name)}{self._colon}")
                separator = self._comma
            yield "}"


def has_items(value: Any) -> bool:
    """Whether there is a list in it that may be long: a `Listed`, or one of dataclasses. Others contain none."""
    kind = value.__class__
    if kind in _PLAIN:
        return False
    if kind is dict:
        return any(has_items(part) for _, part in _members(value))
    if isinstance(value, list):
        return bool(value) and is_dataclass(value[0])
    return kind is Listed or any(has_items(getattr(value, name)) for name in field_names(kind))


@cache
def field_names(kind: type) -> tuple[str, ...]:
    """Of a dataclass; empty for any other class."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    return ((name, getattr(value, name)) for name in field_names(value.__class__))
