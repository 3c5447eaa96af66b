"""Every file and folder of the project that a page names is there, and every page about the inside can be found."""

from __future__ import annotations

import re
from pathlib import Path

from schedulerd.core.state.model.predicate_check import Purpose
from schedulerd.core.state.pending.rules.states import STATES
from schedulerd.journal.header import FORMAT
from tests.loops import each_row

ROOT = Path(__file__).parents[3]
INTERNALS = ROOT / "docs" / "internals"
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

ROOMS = (ROOT, ROOT / "schedulerd", ROOT / "tests", ROOT / "protos")
"""Paths are written from one of these."""

FILE = re.compile(r"`([\w.*-]+/[\w./*-]+\.(?:py|toml|proto))(?:::\w+)?`")
FOLDER = re.compile(r"`((?:core|wire|observe|daemon|config|journal|replay|schedulerd|tests)/(?:[\w/]*\w)?/?)`")


@each_row("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [name for name in FILE.findall(text) if not any(list(room.glob(name)) for room in ROOMS)]
    missing += [name for name in FOLDER.findall(text) if not any((room / name).is_dir() for room in ROOMS)]
    assert missing == []


def test_a_page_says_what_is_not_there() -> None:
    assert FILE.findall("`core/decide/placement.py` and `handlers/taking.py::take`") == [
        "core/decide/placement.py",
        "handlers/taking.py",
    ]
    assert FOLDER.findall("`core/decide/`, `core/` and `core/rules`") == ["core/decide/", "core/", "core/rules"]


def test_every_page_about_the_inside_is_linked_from_the_architecture_or_from_another_one() -> None:
    pages = [ROOT / "ARCHITECTURE.md", *INTERNALS.glob("*.md")]
    linked = {
        Path(target).name
        for page in pages
        for target in re.findall(r"\]\(([\w./-]+\.md)", page.read_text(encoding="utf-8"))
        if Path(target).name != page.name
    }
    assert {page.name for page in INTERNALS.glob("*.md")} <= linked


def test_every_floor_and_room_of_the_core_is_in_a_table() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text[text.index("## Floors of the core") : text.index("## All packages")]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    core = ROOT / "schedulerd" / "core"
    packages = {one.parent.name for folder in (core, core / "state") for one in folder.glob("*/__init__.py")}
    assert named - {"core", "state"} == packages - {"state"} | {"scheduler", "cycle", "reactions"}


def test_the_pending_states_are_those_of_the_core() -> None:
    rows = re.findall(r"^\| [A-Z_]+ \|.*$", (INTERNALS / "pending-states.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [[cell.strip() for cell in row.strip("|").split("|")] for row in rows] == [
        [
            state.name,
            meaning.waits_for,
            meaning.ends_when,
            meaning.cause,
            meaning.scheduling_state.name if meaning.scheduling_state is not None else "-",
            meaning.pod_reason,
        ]
        for state, meaning in STATES.items()
    ]


def test_the_purposes_of_predicate_checks_are_those_of_the_core() -> None:
    text = (INTERNALS / "predicates.md").read_text(encoding="utf-8")
    section = text[text.index("## A check") : text.index("## Histories")]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [purpose.name for purpose in Purpose]


def test_the_version_of_the_journal_is_that_of_its_header() -> None:
    assert f"This is version {FORMAT}." in (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
