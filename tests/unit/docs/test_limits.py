"""`docs/limits.md` has the limits as they are, and every setting that is one."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from schedulerd.config import Settings
from tests.loops import each_row

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "limits.md").read_text(encoding="utf-8")
HEADS = ("| limit |", "| time limit |")
ROW = re.compile(
    r"^\| (?P<limit>[^|]+) \| (?P<value>\d+(?:\.\d+)?)(?: [sd])? \| (?:`(?P<where>[\w.]+)`|fixed) \| [^|]+ \|$",
    re.M,
)
ROWS = list(ROW.finditer(TEXT))


def test_every_line_of_the_tables_is_a_limit() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(HEADS)]
    assert len(ROWS) == len(lines)


@each_row("row", [row for row in ROWS if row["where"]], ids=lambda row: row["where"])
def test_a_limit_is_what_the_page_says(row: re.Match[str]) -> None:
    module, dot, name = row["where"].rpartition(".")
    value = getattr(importlib.import_module(module), name) if dot else Settings.model_fields[name].default
    assert value == float(row["value"]) * (1e9 if name.endswith("_NS") else 1)


def test_every_setting_that_is_a_limit_or_a_time_is_there() -> None:
    words = {"max", "s", "days"}
    limits = {name for name in Settings.model_fields if words & set(name.split("_"))}
    assert limits - {row["where"] for row in ROWS} == set()
