"""`docs/events.md` describes exactly the events that there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import fact as facts
from schedulerd.observe.event_changes import _RELEASE_REASONS
from schedulerd.observe.event_messages import reason
from schedulerd.observe.event_record import SI, Event
from tests.instants import at
from tests.unit.core import builders
from tests.unit.observe import build
from tests.unit.observe.event_talk import Listener
from tests.unit.observe.test_event_explanations import EXAMPLES
from tests.unit.observe.test_event_stories import STORIES

PAGE = (Path(__file__).parents[3] / "docs" / "events.md").read_text(encoding="utf-8")


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of each row of the table below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    for line in lines[1:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def documented(heading: str, *columns: int) -> set[tuple[str, ...]]:
    """The values of these columns; a cell may have several with commas between them."""
    found: set[tuple[str, ...]] = set()
    for row in rows(heading):
        combined: list[tuple[str, ...]] = [()]
        for column in columns:
            combined = [(*left, one.strip()) for left in combined for one in row[column].split(",")]
        assert not found & set(combined), f"twice: {combined}"
        found.update(combined)
    return found


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Every story, every explanation, and every cause for which an allocation has to go or an ask is withdrawn."""
    listener = Listener()
    monkeypatch.setattr(builders, "Conversation", listener.overhear())
    stories = [story for some in STORIES.values() for story, _ in some]
    for story in dict.fromkeys(stories):
        story()
    for fact, _, _ in EXAMPLES:
        listener.recorder.observe([fact], at(0))
    for cause in facts.WithdrawCause:
        listener.recorder.observe([build.withdrawn(cause, memory=1)], at(0))
    for release in facts.ReleaseCause:
        listener.recorder.observe([build.release_requested(TerminationType.TIMEOUT, release)], at(0))
    listener.recorder.observe([build.ask(awaited_placeholder=True, memory=1)], at(0))
    return listener.events()


def test_every_change_is_in_the_table_and_nothing_else(happened: list[Event]) -> None:
    records = [event.record for event in happened]
    resource_manager = SI.UNKNOWN_EVENTRECORD_TYPE
    changes = {
        (SI.Type.Name(record.kind), SI.ChangeType.Name(record.change), SI.ChangeDetail.Name(record.detail))
        for record in records
        if record.change != SI.NONE or record.detail != SI.DETAILS_NONE or record.kind == resource_manager
    }
    assert documented("Changes", 0, 1, 2) == changes


def test_every_explanation_is_in_the_table_and_nothing_else(happened: list[Event]) -> None:
    explained = {
        (SI.Type.Name(record.kind), reason(record))
        for record in (event.record for event in happened)
        if (record.change, record.detail) == (SI.NONE, SI.DETAILS_NONE)
        and not record.reason.startswith("ResourceManager")
    }
    assert set(_RELEASE_REASONS.values()) <= {word for _, word in explained}
    assert documented("Explanations", 0, 1) == explained
