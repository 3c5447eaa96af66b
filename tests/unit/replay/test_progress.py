"""Somebody who waits for a replay at a terminal sees how far it is."""

from __future__ import annotations

import io

from schedulerd.core.language.commands import RingAlarms
from schedulerd.instant import Instant
from schedulerd.journal import Entry
from schedulerd.replay.progress import with_progress

START = Instant(5_000_000_000, 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def entries(count: int) -> list[Entry]:
    return [Entry(Instant(START.monotonic_ns + number * 1_000_000, 0), RingAlarms()) for number in range(count)]


def test_a_terminal_has_one_line_that_is_gone_at_the_end() -> None:
    terminal, ticks = Terminal(), iter(range(100))
    records = entries(2_500)
    assert list(with_progress(records, START, terminal, lambda: float(next(ticks)))) == records
    first, second, *rest = terminal.getvalue().split("\r")[1:]
    assert first.startswith("replaying: 1,000 commands, 999 ms") or "1,000 commands" in first
    assert "2,000 commands" in second
    assert "".join(rest).strip() == ""


def test_a_file_has_no_progress() -> None:
    pipe, records = io.StringIO(), entries(2_500)
    assert list(with_progress(records, START, pipe)) == records
    assert pipe.getvalue() == ""
