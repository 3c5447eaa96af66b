"""The journal of a daemon: begun if it can be, ended in order, and never a reason to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from schedulerd.config import Settings
from schedulerd.core.language.commands import RunCycle
from schedulerd.daemon.runtime.journaling import begin_journal, end_journal, journal_state
from schedulerd.journal import Journal
from schedulerd.journal.recorder import BLOCK_BYTES
from schedulerd.journal_files.files import END_ROOM_BYTES
from schedulerd.journal_files.writer import CLOSE_SECONDS
from schedulerd.observe.metrics import Metrics
from tests.instants import at
from tests.unit.observe.scrape import text

SEED = 77


def journal_samples(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in text(metrics).splitlines() if line.startswith("schedulerd_journal_")]
    return {name: float(value) for name, value in (line.split() for line in lines)}


def test_without_the_setting_there_is_none() -> None:
    metrics = Metrics()
    assert begin_journal(Settings(), SEED, metrics) is None
    assert journal_samples(metrics) == {}


def test_it_says_what_the_scheduler_is_made_of(tmp_path: Path) -> None:
    settings = Settings(journal=tmp_path, completing_timeout_s=7, cycle_allocations_max=3)
    recorder = begin_journal(settings, SEED, Metrics())
    assert recorder is not None
    asyncio.run(end_journal(recorder, failed=False))
    header = Journal.open(recorder.directory).header
    assert header.timeouts == settings.timeouts()
    assert (header.uuid_seed, header.placements_max) == (SEED, 3)


def test_each_start_begins_another_one(tmp_path: Path) -> None:
    settings, metrics = Settings(journal=tmp_path), Metrics()
    recorders = [begin_journal(settings, SEED, metrics) for _ in range(3)]
    for recorder in recorders:
        assert recorder is not None
        asyncio.run(end_journal(recorder, failed=False))
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("failed", "reason"), [(False, "schedulerd was stopped"), (True, "schedulerd failed; its log says why")]
)
def test_it_ends_with_the_daemon_and_says_how(failed: bool, reason: str, tmp_path: Path) -> None:
    metrics = Metrics()
    with capture_logs() as lines:
        recorder = begin_journal(Settings(journal=tmp_path), SEED, metrics)
        assert recorder is not None
        recorder.command(at(1), RunCycle(7))
        recorder.facts([])
        assert journal_samples(metrics)["schedulerd_journal_recording"] == 1
        asyncio.run(end_journal(recorder, failed))
    (file,) = recorder.directory.iterdir()
    size = file.stat().st_size
    assert lines == [
        {"event": "journal", "log_level": "info", "path": str(recorder.directory)},
        {"event": "journal closed", "log_level": "info", "reason": reason, "commands": 1, "bytes": size},
    ]
    journal = Journal.open(recorder.directory)
    assert len(list(journal)) == 2
    assert journal.end == reason
    assert journal_samples(metrics) == {
        "schedulerd_journal_recording": 0,
        "schedulerd_journal_written_bytes_total": size,
        "schedulerd_journal_waiting_bytes": 0,
    }


def test_a_directory_that_cannot_be_written_is_said_and_stops_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    settings, metrics = Settings(journal=gone), Metrics()
    gone.rmdir()
    with capture_logs() as lines:
        assert begin_journal(settings, SEED, metrics) is None
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("journal cannot be written", "error")
    assert "No such file" in line["reason"]
    assert journal_samples(metrics)["schedulerd_journal_recording"] == 0


def test_the_sizes_that_were_set_divide_it_and_end_it_with_a_line_in_the_log(tmp_path: Path) -> None:
    file_max, all_max, command = 4 * 1024 * 1024, 6 * 1024 * 1024, RunCycle(10**100)
    settings = Settings(journal=tmp_path, journal_file_max_bytes=file_max, journal_max_bytes=all_max)
    metrics = Metrics()
    with capture_logs() as lines:
        recorder = begin_journal(settings, SEED, metrics)
        assert recorder is not None
        for number in range(60_000):
            recorder.command(at(10**18 + number), command)
            recorder.facts([])
        asyncio.run(end_journal(recorder, failed=False))
    line = lines[-1]
    assert (line["event"], line["log_level"]) == ("journal ended", "error")
    assert line["reason"] == "it has reached the size that was set for it"
    assert "scheduling goes on" in line["consequence"]
    assert "end_mark" not in line
    assert journal_samples(metrics)["schedulerd_journal_recording"] == 0
    first, second = (file.stat().st_size for file in sorted(recorder.directory.iterdir()))
    assert file_max - BLOCK_BYTES < first <= file_max
    assert all_max - BLOCK_BYTES - END_ROOM_BYTES < first + second <= all_max


def test_an_end_that_takes_too_long_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = begin_journal(Settings(journal=tmp_path), SEED, Metrics())
    assert recorder is not None
    waited: list[float] = []
    with capture_logs() as lines, monkeypatch.context() as stuck:
        stuck.setattr(recorder._thread, "join", waited.append)
        stuck.setattr(recorder._thread, "is_alive", lambda: True)
        asyncio.run(end_journal(recorder, failed=False))
    assert recorder.close("again")
    assert waited == [CLOSE_SECONDS]
    assert "journal was not written to its end" in [line["event"] for line in lines]


def test_its_state_is_one_sentence(tmp_path: Path) -> None:
    settings, metrics = Settings(journal=tmp_path), Metrics()
    assert journal_state(Settings(), None) == ""
    recorder = begin_journal(settings, SEED, metrics)
    assert recorder is not None
    assert journal_state(settings, recorder) == "recording"
    asyncio.run(end_journal(recorder, failed=False))
    assert journal_state(settings, recorder) == "not recording: schedulerd was stopped"
    with capture_logs():
        assert journal_state(settings, None) == "not recording: it could not be begun; the log says why"
