"""The journal of a running daemon: begun before the first step, ended after the last.

A journal that fails does not stop the daemon: the failure is logged once and shown by the metrics, and scheduling goes
on without a journal.
"""

from __future__ import annotations

import structlog

from schedulerd.config import Settings
from schedulerd.daemon.runtime.workers import Workers
from schedulerd.ids import random_seed, uuid_source
from schedulerd.instant import read_clocks
from schedulerd.journal.header import Header
from schedulerd.journal.recorder import JournalRecorder
from schedulerd.journal_files.writer import CONSEQUENCE, RecordingEnd
from schedulerd.observe.metrics import JournalCounts, Metrics

log = structlog.stdlib.get_logger(__name__)


def begin_journal(settings: Settings, uuid_seed: int, metrics: Metrics) -> JournalRecorder | None:
    """Begins a journal; None if none is configured or it cannot be written. `uuid_seed` is the scheduler's seed."""
    if settings.journal is None:
        return None
    header = Header(
        timeouts=settings.timeouts(),
        placements_max=settings.cycle_allocations_max,
        uuid_seed=uuid_seed,
        instance=uuid_source(random_seed())(),
        started=read_clocks(),
    )
    try:
        journal = JournalRecorder.begin(
            settings.journal,
            header,
            header.started.wall_ns,
            _log_end,
            file_max_bytes=settings.journal_file_max_bytes,
            max_bytes=settings.journal_max_bytes,
        )
    except OSError as error:
        log.error("journal cannot be written", reason=str(error), consequence=CONSEQUENCE)
        metrics.watch_journal(lambda: JournalCounts(is_recording=False, written_bytes=0, waiting_bytes=0))
        return None
    log.info("journal", path=str(journal.directory))
    metrics.watch_journal(
        lambda: JournalCounts(journal.is_open, journal.written_bytes, journal.waiting),
    )
    return journal


def journal_state(settings: Settings, journal: JournalRecorder | None) -> str:
    """The state of the journal, for the operator; '' if none is configured."""
    if settings.journal is None:
        return ""
    if journal is None:
        return "not recording: it could not be begun; the log says why"
    return journal.state


async def end_journal(journal: JournalRecorder, failed: bool) -> None:
    """Ends the journal; waits until it is written, a few seconds at most."""
    reason = "schedulerd failed; its log says why" if failed else "schedulerd was stopped"
    if not await Workers("ends of the journal", threads=1, waiting_max=0).run(journal.close, reason):
        log.error("journal was not written to its end", path=str(journal.directory), reason="the disk is too slow")


def _log_end(ending: RecordingEnd) -> None:
    """Logs the end of the journal. Called by the thread that writes it."""
    size = {"commands": ending.entries, "bytes": ending.bytes}
    lacks = {"end_mark": f"cannot be written: {ending.mark_error}"} if ending.mark_error else {}
    if ending.is_orderly:
        log.info("journal closed", reason=ending.reason, **size, **lacks)
    else:
        log.error("journal ended", reason=ending.reason, consequence=CONSEQUENCE, **size, **lacks)
