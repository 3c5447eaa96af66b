"""The example on `docs/journal.md` does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedulerd.config import matches
from tests.unit.journal.build import a_header, a_story, begin

PAGE = Path(__file__).parents[3] / "docs" / "journal.md"


def test_the_example_plays_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = tmp_path / "journals"
    parent.mkdir()
    recorder = begin(parent, a_header())
    scheduler = a_header().scheduler(matches)
    for entry in a_story():
        recorder.command(entry.now, entry.command)
        recorder.facts(scheduler.step(entry.now.monotonic_ns, entry.command))
    assert recorder.close("it was enough")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(example, names)
    assert capsys.readouterr().out == "it was enough\n"
    assert repr(names["facts"]).count("Allocated(") == 2
