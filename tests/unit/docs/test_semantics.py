"""What code, tests and pages refer to by letter and number stands in `docs/semantics.md`."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[3]
REFERENCES = re.compile(r"SEMANTICS ((?:[A-Z][0-9]*(?:, | and )?)+)")
SECTION, ITEM = re.compile(r"^## ([A-Z])\. "), re.compile(r"^([0-9]+)\. ")


def decided() -> list[str]:
    """Every section as `G`, and every item as `G5`, as often as it stands there."""
    found, section = [], ""
    for line in (PROJECT / "docs" / "semantics.md").read_text(encoding="utf-8").splitlines():
        if heading := SECTION.match(line):
            section = heading[1]
            found.append(section)
        elif item := ITEM.match(line):
            found.append(f"{section}{item[1]}")
    return found


def test_every_reference_is_to_one_decision() -> None:
    there = decided()
    assert len(there) == len(set(there))
    files = [path for top in ("schedulerd", "tests", "docs") for path in (PROJECT / top).rglob("*") if path.is_file()]
    referred = {
        (name, path.name)
        for path in files
        if path.suffix in (".py", ".md", ".toml")
        for reference in REFERENCES.findall(path.read_text(encoding="utf-8"))
        for name in re.findall("[A-Z][0-9]*", reference)
    }
    assert len(referred) > 100
    assert sorted(one for one in referred if one[0] not in there) == []
