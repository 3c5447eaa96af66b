"""`docs/limits.md` has the limits as they are."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import schedulerd
from schedulerd.config import Settings
from tests.loops import each_row

TEXT = (Path(__file__).parents[3] / "docs" / "limits.md").read_text(encoding="utf-8")
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


OF_OTHERS = re.compile(r"_generated|simulate|kubernetes|replay|terminal|core\.\w+\.(rules|handlers|actions)")
"""No part of the daemon, or bounds of one search, which are no limit of what a client may send."""

CONSTANT = re.compile(r"^([A-Z]\w*_(?:MAX|SECONDS|SECONDS_MAX|SECONDS_MIN|S))\b[^=\n]*=", re.M)

NO_LIMITS = {
    "schedulerd.address.UNIX_PATH_BYTES_MAX": "of the operating system",
    "schedulerd.admin_client.TIMEOUT_SECONDS": "of the command line",
    "schedulerd.client.channel.MESSAGE_BYTES_MAX": "that of the daemon",
    "schedulerd.core.state.model.predicate_check.REASONS_MAX": "of a text",
    "schedulerd.core.state.constraints.node_selector.TEXTS_MAX": "what is read once is not read again",
    "schedulerd.core.state.pending.sort_keys.INT32_MAX": "of a type",
    "schedulerd.core.language.reading.UINT64_MAX": "of a type",
    "schedulerd.daemon.runtime.collector.BUSY_SECONDS_MIN": "of Python's collector",
    "schedulerd.daemon.runtime.collector.IDLE_SECONDS_MIN": "of Python's collector",
    "schedulerd.journal.decode.RESOURCES_MAX": "what is read once is not read again",
}


def constants() -> set[str]:
    """All that are named like a limit."""
    root = Path(schedulerd.__file__).parent
    modules = [one.name.removeprefix("schedulerd.") for one in pkgutil.walk_packages([str(root)], "schedulerd.")]
    return {
        f"schedulerd.{module}.{name}"
        for module in modules
        if OF_OTHERS.match(module) is None and (path := root / f"{module.replace('.', '/')}.py").exists()
        for name in CONSTANT.findall(path.read_text(encoding="utf-8"))
    }


def test_every_constant_that_is_a_limit_is_there() -> None:
    found = constants()
    assert len(found) > 50
    named = {row["where"] for row in ROWS}
    assert found - named == set(NO_LIMITS)
