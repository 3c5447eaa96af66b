"""How far a replay is, for somebody who waits at a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, TypeVar

from schedulerd.instant import Instant
from schedulerd.journal import Digest, Entry
from schedulerd.replay.moment import duration_text

RecordT = TypeVar("RecordT", bound=Entry | Digest)
EVERY_SECONDS = 0.5
_LOOKED_AT_EACH = 1_000
"""Records between two readings of the clock."""


def with_progress(
    records: Iterable[RecordT],
    start: Instant,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RecordT]:
    """The records as they are. If `stream` (standard error) is a terminal, it has one line that says how many commands
    were replayed, and up to which time of the record; the line is gone at the end."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield from records
        return
    commands, written, due = 0, 0, clock() + EVERY_SECONDS
    try:
        for number, record in enumerate(records, 1):
            if isinstance(record, Entry):
                commands += 1
                if number % _LOOKED_AT_EACH == 0 and clock() >= due:
                    due = clock() + EVERY_SECONDS
                    since = duration_text(record.now.monotonic_ns - start.monotonic_ns)
                    text = f"replaying: {commands:,} commands, {since} of the record"
                    stream.write(f"\r{text:<{written}}")
                    stream.flush()
                    written = len(text)
            yield record
    finally:
        if written:
            stream.write(f"\r{'':<{written}}\r")
            stream.flush()
