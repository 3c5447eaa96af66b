"""Whether a shim records, as its metrics and `/readyz` say it; and that its cluster is there either way."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedulerd.journal_files.files import JournalFiles
from schedulerd.kubernetes.api import ApiMetrics
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.recorded_cluster import RecordedCluster
from schedulerd.kubernetes.shim.exposition import registry
from schedulerd.kubernetes.shim.families import PREFIX
from schedulerd.kubernetes.shim.journaling import Recording
from tests.kubernetes.builders import pod

SETTINGS = ClusterSettings()
SIZE = 2**30
JOURNAL = f"{PREFIX}journal_"


def samples(recording: Recording | None) -> dict[str, float]:
    text = generate_latest(registry(ApiMetrics(), lambda: None, lambda: 0.0, recording=recording)).decode()
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {one.name.removeprefix(JOURNAL): one.value for one in found if one.name.startswith(JOURNAL)}


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.levelno >= logging.WARNING]


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*/*"))


def test_without_a_directory_nothing_is_recorded_and_nothing_said() -> None:
    recording = Recording(None, SIZE, SIZE)
    with recording.cluster(SETTINGS) as cluster:
        assert not isinstance(cluster, RecordedCluster)
        assert cluster.model.settings is SETTINGS
        assert recording.state == ""
        assert samples(recording) == samples(None) == {}


def test_it_says_that_it_records_and_how_much(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    recording = Recording(tmp_path, SIZE, SIZE)
    assert samples(recording) == {}, "the API server has not answered"
    with recording.cluster(SETTINGS) as cluster:
        cluster.step(1, [v.Put(pod("p"))])
        cluster.step(2, [v.Started(0)])
        assert recording.state == "recording"
        assert samples(recording)["recording"] == 1
    assert recording.state == "not recording: the shim has ended"
    expected = {"recording": 0, "written_bytes_total": size(tmp_path), "entries_total": 2, "waiting_events": 0}
    assert samples(recording) == expected
    assert warnings(caplog) == []
    assert caplog.records[-1].message == "journal closed: the shim has ended"
    assert vars(caplog.records[-1])["fields"] == {"entries": 2, "bytes": size(tmp_path)}


def test_a_journal_that_cannot_go_on_is_said_once_and_the_cluster_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    recording = Recording(tmp_path, SIZE, SIZE)
    with recording.cluster(SETTINGS) as cluster:
        monkeypatch.setattr(JournalFiles, "append", full)
        cluster.step(1, [v.Started(0)])
        assert recording.journal is not None
        assert recording.journal.join()
        assert cluster.step(2, [v.Put(pod("p"))]) is not None
        assert samples(recording)["recording"] == 0
    assert recording.state == "not recording: it cannot be written: [Errno 28] No space left on device"
    (line,) = warnings(caplog)
    assert line.levelno == logging.ERROR
    assert line.message == (
        "journal ended: it cannot be written: [Errno 28] No space left on device; "
        "scheduling goes on without a journal; the next one begins with the next start"
    )


def test_a_directory_that_cannot_be_written_is_said_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = Recording(tmp_path / "missing", SIZE, SIZE)
    with recording.cluster(SETTINGS) as cluster:
        assert not isinstance(cluster, RecordedCluster)
        assert recording.state.startswith("not recording: it could not be begun: [Errno 2] No such file")
        assert samples(recording) == dict.fromkeys(
            ("recording", "written_bytes_total", "entries_total", "waiting_events"), 0
        )
    (line,) = warnings(caplog)
    assert line.message.startswith("journal cannot be written: ")
    assert "scheduling goes on" in line.message


def test_an_end_that_takes_too_long_is_said_and_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(tmp_path, SIZE, SIZE)
    with monkeypatch.context() as stuck, recording.cluster(SETTINGS):
        assert recording.journal is not None
        stuck.setattr(recording.journal, "join", lambda: False)
    (line,) = warnings(caplog)
    assert line.message == "journal was not written to its end: the disk is too slow"
    assert recording.journal.join()
