"""The state diagram in the documentation is the table that the scheduler runs by."""

from __future__ import annotations

import re
from pathlib import Path

from schedulerd.core.lifecycles import APPLICATION

DOCUMENT = Path(__file__).parents[3] / "docs" / "gangs.md"


def test_the_diagram_shows_every_transition_and_no_other() -> None:
    drawn = re.findall(r"^ +(\w+) --> (\w+): (\w+)$", DOCUMENT.read_text(), re.MULTILINE)
    table = [(old, new, trigger) for old, row in APPLICATION.items() for trigger, new in row.items()]
    assert sorted(drawn) == sorted((str(old), str(new), str(trigger)) for old, new, trigger in table)
