"""What has changed in a view, and how its texts are written."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from schedulerd.daemon.admin.ui import texts
from schedulerd.daemon.admin.ui.bars import SHADES, bar, shade, sparkline
from schedulerd.daemon.admin.ui.view import View, changes, whole
from tests.loops import each_row


def done(work: Generator[None, None, bytes]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return json.loads(end.value or b"null")


def a_view(**rows: str) -> View:
    made = View("Title", "template.html")
    made.put(running="7", running__class="n")
    made.begin("rows")
    for key, text in rows.items():
        made.add("rows", key, name=text, name__href="/ui/")
    return made


def test_a_whole_view_has_all_texts_and_rows() -> None:
    fields = {"name": "x", "name@href": "/ui/"}
    assert done(whole(a_view(a="x"))) == {
        "t": {"running": "7", "running@class": "n"},
        "l": {"rows": {"o": True, "r": [["a", fields]]}},
    }
    assert done(whole(a_view()))["l"] == {"rows": {"o": True, "r": []}}


def test_nothing_is_sent_if_nothing_has_changed() -> None:
    assert done(changes(a_view(a="x"), a_view(a="x"))) is None


def test_only_changed_rows_are_sent() -> None:
    found = done(changes(a_view(a="x", b="y"), a_view(a="x", b="z")))
    assert found == {"l": {"rows": {"o": False, "r": [["b", {"name": "z", "name@href": "/ui/"}]]}}}


def test_rows_that_come_go_or_move_give_the_whole_order() -> None:
    found = done(changes(a_view(a="x", b="y", c="z"), a_view(c="z", d="new", a="x")))
    assert found["l"]["rows"]["o"] is True
    assert found["l"]["rows"]["r"] == [["c", {}], ["d", {"name": "new", "name@href": "/ui/"}], ["a", {}]]
    assert done(changes(a_view(a="x"), a_view())) == {"l": {"rows": {"o": True, "r": []}}}


def test_many_rows_are_written_in_pieces() -> None:
    rows = {f"k{number}": "x" for number in range(1_000)}
    work = whole(a_view(**rows))
    pauses = 0
    while next(work, "end") is None:
        pauses += 1
    assert pauses > 5
    assert len(done(whole(a_view(**rows)))["l"]["rows"]["r"]) == 1_000


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        ("a\u202eb\u2066c\u200bd", "abcd"),
        ("a\x00b\x1b[31mc", "ab[31mc"),
        ("line\nbreak\ttab", "line break tab"),
        ("<script>", "<script>"),
        ("\ud800x", "x"),
        ("x" * 500, "x" * 399 + "…"),
    ],
)
def test_what_cannot_be_seen_is_left_out(text: str, seen: str) -> None:
    assert texts.visible(text) == seen
    made = View(text, "t")
    made.put(name=text)
    made.add("rows", "k", name=text)
    assert (made.title, made.texts["name"], made.lists["rows"][0].fields["name"]) == (seen, seen, seen)


@each_row(
    ("name", "value", "text"),
    [
        ("vcore", 500, "500m"),
        ("vcore", 4_000, "4"),
        ("vcore", 3_127_500, "3,128"),
        ("memory", 16 << 30, "16Gi"),
        ("memory", 12_345_678_901, "11.5Gi"),
        ("memory", 0, "0"),
        ("gpu", 12_000, "12,000"),
        ("memory", -(1 << 20), "-1Mi"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
    ],
)
def test_amounts_have_units(name: str, value: int, text: str) -> None:
    assert texts.amount(name, value) == text


def test_counts_and_times() -> None:
    assert [texts.short_count(one) for one in (7, 940, 2_400, 36_100, 1_300_000, 2e9)] == [
        "7",
        "940",
        "2.4k",
        "36.1k",
        "1.3M",
        "2.0G",
    ]
    assert (texts.many(1, "node"), texts.many(1_200, "node")) == ("1 node", "1,200 nodes")
    assert [texts.percent(*one) for one in ((0, 5), (1, 1_000), (999, 1_000), (5, 5), (1, 0), (0, 0))] == [
        0,
        1,
        99,
        100,
        100,
        0,
    ]
    assert texts.clock_time(1_700_000_000_000_000_000) == "22:13:20"
    assert texts.row_key("a", "b") != texts.row_key("a\0b", "c")


def test_a_bar_ends_at_its_end() -> None:
    assert bar("b", 30, 50, 40, 100) == {"bu__class": "u w30", "bp__class": "p x30 w50", "bg__class": "g x40"}
    assert bar("b", 90, 50, 400, 100) == {"bu__class": "u w90", "bp__class": "p x90 w10", "bg__class": "g x100"}
    assert bar("b", 150, 0, None, 100) == {"bu__class": "u w100", "bp__class": "p x100 w0", "bg__class": "g off"}
    assert bar("b", 5, 5, 5, 0) == {"bu__class": "u w0", "bp__class": "p x0 w0", "bg__class": "g off"}


def test_shades_and_lines() -> None:
    assert [shade(part, 100) for part in (0, 1, 10, 11, 99, 100, 250)] == [0, 1, 1, 2, SHADES, SHADES, SHADES]
    assert sparkline([0, 5, 10], 10) == "M0 60.0L300 30.0L600 0.0"
    assert sparkline([], 1) == sparkline([1], 1) == ""
