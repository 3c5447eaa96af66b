"""The state diagrams in the documentation are the tables that the scheduler runs by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedulerd.core.language.lifecycles import APPLICATION, NODE, RESOURCE_MANAGER

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize(
    ("page", "table"),
    [("gangs.md", APPLICATION), ("internals/nodes.md", NODE), ("internals/recovery.md", RESOURCE_MANAGER)],
)
def test_the_diagram_shows_every_transition_and_no_other(page: str, table: Mapping[Any, Mapping[Any, Any]]) -> None:
    drawn = re.findall(r"^ +(\w+) --> (\w+): ([\w ]+)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    cells = [(str(old), str(new), str(trigger)) for old, row in table.items() for trigger, new in row.items()]
    assert sorted(drawn) == sorted(cells)
