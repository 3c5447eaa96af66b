"""The same JSON text, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from schedulerd.daemon.admin.json_pieces import as_json, json_pieces
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
    assert "".join(json_pieces(value)) == as_json(value)


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


def test_each_thing_of_a_list_is_a_piece_however_deep_the_list_is() -> None:
    pieces = list(json_pieces([Thing("deep", parts=[Thing("deeper", parts=[SMALL] * 100)])]))
    assert sum('"small"' in piece for piece in pieces) == 100
    assert max(map(len, pieces)) < 2 * len(as_json(SMALL))


@pytest.mark.parametrize("value", [object(), {"oops": object()}, [Thing("a", parts=[SMALL, object()])], Thing])  # type: ignore[list-item]
def test_what_json_cannot_hold(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be shown as JSON"):
        as_json(value)
    with pytest.raises(TypeError, match="cannot be shown as JSON"):
        list(json_pieces(value))
