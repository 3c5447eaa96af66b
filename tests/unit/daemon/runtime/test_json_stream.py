"""The same JSON text, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from schedulerd.daemon.admin.debug_state import STATE_JSON, as_json
from schedulerd.daemon.runtime.json_stream import PAUSE, PIECE_CHARS, JsonWriter, Listed
from tests.loops import each_row


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    parts: list[Thing] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    last: Thing | None = None


SMALL = Thing("small")
TREE = Thing(
    'a "tree"',
    {"memory": 1},
    [Thing("ä", parts=[SMALL, SMALL]), SMALL],
    [(1, "x"), (2, "y")],
    Thing("b", parts=[SMALL]),
)


@each_row(
    "value",
    [None, 7, "text", [], {}, [1, 2], [SMALL], [[SMALL]], SMALL, TREE, [TREE, SMALL], {"things": [TREE], "none": []}],
    ids=repr,
)
def test_the_pieces_are_the_text(value: object) -> None:
    assert "".join(STATE_JSON.pieces(value)) == as_json(value)


def test_the_text_is_what_any_reader_understands() -> None:
    assert json.loads(as_json(TREE)) == {
        "name": 'a "tree"',
        "sizes": {"memory": 1},
        "parts": [
            {"name": "ä", "sizes": {}, "parts": [json.loads(as_json(SMALL))] * 2, "notes": [], "last": None},
            json.loads(as_json(SMALL)),
        ],
        "notes": [[1, "x"], [2, "y"]],
        "last": {"name": "b", "sizes": {}, "parts": [json.loads(as_json(SMALL))], "notes": [], "last": None},
    }


def test_a_piece_has_some_characters_however_deep_the_lists_are() -> None:
    pieces = list(STATE_JSON.pieces([Thing("deep", parts=[Thing("deeper", parts=[SMALL] * 1_000)])]))
    size = len(as_json(SMALL))
    assert all(PIECE_CHARS <= len(piece) < PIECE_CHARS + 2 * size for piece in pieces[:-1])
    assert len(pieces) > 10


BY_ITEM = JsonWriter(as_json, ",", ":", chars=0)


def test_items_of_a_listed_are_made_when_they_are_written() -> None:
    made: list[int] = []

    def items() -> Iterator[dict[str, int]]:
        for number in range(3):
            made.append(number)
            yield {"number": number}

    value = {"before": 1, "all": Listed(items()), "empty": Listed([]), "nested": {"more": Listed([1])}}
    written = BY_ITEM.pieces(value)
    text = next(written)
    assert made == []
    while made != [0]:
        text += next(written)
    assert text.endswith('{"number": 0}')
    text += "".join(written)
    assert json.loads(text) == {
        "before": 1,
        "all": [{"number": 0}, {"number": 1}, {"number": 2}],
        "empty": [],
        "nested": {"more": [1]},
    }


def test_a_pause_ends_a_piece_and_is_no_item() -> None:
    assert list(STATE_JSON.pieces(Listed([PAUSE, 1, PAUSE, 2, PAUSE]))) == ["", "[1", ", 2", "]"]


@pytest.mark.parametrize("value", [object(), {"oops": object()}, [Thing("a", parts=[SMALL, object()])], Thing])  # type: ignore[list-item]
def test_what_json_cannot_hold(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be shown as JSON"):
        as_json(value)
    with pytest.raises(TypeError, match="cannot be shown as JSON"):
        list(STATE_JSON.pieces(value))
