"""`docs/limits.md` has the limits as they are, and tests that exist."""

from __future__ import annotations

import importlib
import re

import pytest

from schedulerd.config import Settings
from tests.unit.docs.named_tests import DOCS, NAMED, defined

TEXT = (DOCS / "limits.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<limit>[^|]+) \| (?P<value>\d+)(?: s)? \| (?:`(?P<where>[\w.]+)`|fixed) \| [^|]+ \| (?P<tests>[^|]+) \|$",
    re.M,
)
ROWS = list(ROW.finditer(TEXT))


def test_every_line_of_the_tables_is_a_limit() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| limit ")]
    assert len(ROWS) == len(lines)


@pytest.mark.parametrize("row", [row for row in ROWS if row["where"]], ids=lambda row: row["limit"])
def test_a_limit_is_what_the_page_says(row: re.Match[str]) -> None:
    module, dot, name = row["where"].rpartition(".")
    value = getattr(importlib.import_module(module), name) if dot else Settings.model_fields[name].default
    assert value == int(row["value"])


def test_every_setting_that_is_a_limit_is_there() -> None:
    limits = {name for name in Settings.model_fields if "max" in name.split("_")}
    named = {row["where"] for row in ROWS}
    assert limits - named == {"cycle_placements_max", "recount_items_max"}, "these bound our own work, not a client's"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["limit"])
def test_every_limit_has_a_test(row: re.Match[str]) -> None:
    named = NAMED.findall(row["tests"])
    assert named
    assert set(named) <= defined()
