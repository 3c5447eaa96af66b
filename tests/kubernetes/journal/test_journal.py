"""What is written of a cluster is read again; a journal that cannot go on ends, and nothing else does."""

from __future__ import annotations

import gzip
import json
import threading
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey, Written
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal import writer as writing
from schedulerd.kubernetes.journal.cli import kubernetes_replay
from schedulerd.kubernetes.journal.codec import (
    DIGEST_STEPS,
    Entry,
    PreemptionQuestion,
    Question,
    Step,
    from_values,
    to_text,
)
from schedulerd.kubernetes.journal.reader import JournalUnreadable
from schedulerd.kubernetes.journal.recorded_cluster import RecordedCluster
from schedulerd.kubernetes.journal.replay import NotReproduced, replay
from schedulerd.kubernetes.journal.writer import JournalWriter
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from schedulerd.kubernetes.shim.journaling import recorded
from tests.kubernetes.builders import bound, node, pod

SETTINGS = ClusterSettings(scheduler_names=frozenset({"a", "b", "schedulerd"}))
SIZE = 2**30


class Ends:
    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def __call__(self, reason: str, is_orderly: bool) -> None:
        self.told.append((reason, is_orderly))


@pytest.fixture
def ends() -> Ends:
    return Ends()


def write(folder: Path, ends: Ends, steps: int = 3, max_bytes: int = SIZE) -> Path:
    journal = JournalWriter(folder, SETTINGS, max_bytes, ends)
    cluster = RecordedCluster(SETTINGS, journal)
    cluster.step(1, [v.Put(node("n")), v.Put(pod("p"))])
    cluster.step(2, [v.Started(0)])
    for number in range(steps):
        cluster.step(3 + number, [v.Tick()])
    assert journal.close()
    return journal.path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def rewrite(path: Path, changed: list[Any]) -> None:
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in changed)))


def test_what_is_written_is_played(tmp_path: Path, ends: Ends) -> None:
    found = replay(write(tmp_path, ends, DIGEST_STEPS))
    assert ends.told == [("the shim has ended", True)]
    assert (found.steps, found.proved, found.end) == (DIGEST_STEPS + 2,) * 2 + ("the shim has ended",)
    assert found.effects["Recovery"] == 1


def test_every_digest_is_compared(tmp_path: Path, ends: Ends) -> None:
    path = write(tmp_path, ends, DIGEST_STEPS)
    good = lines(path)
    at = [number for number, line in enumerate(good) if "digest" in line]
    assert len(at) == 2
    for number in at:
        rewrite(path, [{**line, "digest": "0"} if index == number else line for index, line in enumerate(good)])
        with pytest.raises(NotReproduced):
            replay(path)


def test_a_journal_that_was_cut_is_read_so_far(tmp_path: Path, ends: Ends) -> None:
    path = write(tmp_path, ends, 50)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    found = replay(path)
    assert 0 <= found.steps < 52
    assert (found.proved, found.end) == (0, "")


def _instances(type_: Any) -> Any:
    """Something of the type that is not its default, as far as that can be made."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if type_ is str:
        return "text"
    if type_ in (int, bool):
        return type_(1)
    if origin is tuple and arguments[-1] is ...:
        return (_instances(arguments[0]),)
    return next(iter(type_)) if hasattr(type_, "__members__") else None


@pytest.mark.parametrize("kind", typing.get_args(v.Event), ids=lambda kind: kind.__name__)
def test_every_event_is_read_as_it_was_written(kind: Any) -> None:
    if kind in (v.Put, v.Gone):
        event = kind(pod("p", labels={"a": "b"}))
    else:
        values = {one.name: _instances(one.type) for one in msgspec.structs.fields(kind)}
        if kind is v.PendingReasonTold:
            values["waiting"] = Waiting(State.QUOTA_BLOCKED, rule=Rule.QUOTA, queue="root.q", used=3)
        if kind is v.VolumeWritten:
            values["written"] = WriteKey(Written.CLAIM, "c")
        event = kind(**values)
    entry = Step(5, [event])
    assert from_values(msgspec.json.decode(to_text(entry))) == entry


@pytest.mark.parametrize("question", [Question("p", "n", True), PreemptionQuestion("p", "n", ["q"], 1)])
def test_questions_are_read_as_they_were_written(question: Entry) -> None:
    assert from_values(msgspec.json.decode(to_text(question))) == question


def test_questions_are_played(tmp_path: Path, ends: Ends) -> None:
    """What is remembered of a refusal is asked for again."""
    journal = JournalWriter(tmp_path, SETTINGS, SIZE, ends)
    cluster = RecordedCluster(SETTINGS, journal)
    there = [v.Put(node("n", cpu="1")), v.Put(pod("p", schedulerName="a")), v.Put(bound("q", "n", schedulerName="a"))]
    cluster.step(1, [*there, v.Started(0)])
    answers = [
        cluster.predicates("p", "gone", allocate=True),
        cluster.predicates("p", "n", allocate=False),
        cluster.preemption_predicates("p", "n", ["q"], 0),
        cluster.preemption_predicates("p", "gone", ["q"], 0),
    ]
    assert len({answer is None for answer in answers}) == 2
    cluster.step(2, [v.Put(node("gone"))])
    cluster.step(10**10, [v.Tick()])
    assert journal.close()
    seen: list[Any] = []
    found = replay(journal.path, seen.append)
    assert [one.answer for one in seen if not isinstance(one, Step)] == answers
    assert found.proved == found.steps == 7
    # Without the questions nothing is remembered of a refusal, and nothing asked again.
    rewrite(journal.path, [line for line in lines(journal.path) if "question" not in line])
    with pytest.raises(NotReproduced):
        replay(journal.path)


def test_a_step_that_raises_is_the_last_one_and_raises_again(
    tmp_path: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JournalWriter(tmp_path, SETTINGS, SIZE, ends)
    cluster = RecordedCluster(SETTINGS, journal)
    cluster.step(1, [v.Put(node("n"))])
    monkeypatch.setattr(Cluster, "step", _raise)
    with pytest.raises(ZeroDivisionError):
        cluster.step(2, [v.Started(0)])
    assert journal.close()
    assert [line["now"] for line in lines(journal.path) if "now" in line] == [1, 2]
    monkeypatch.undo()
    with pytest.raises(NotReproduced):
        replay(journal.path)
    monkeypatch.setattr(Cluster, "step", lambda self, now_ns, events: _raise() if now_ns == 2 else [])
    with pytest.raises(ZeroDivisionError):
        replay(journal.path)


def _raise(*_: Any) -> Any:
    raise ZeroDivisionError


def test_secrets_are_not_recorded(tmp_path: Path, ends: Ends) -> None:
    """`kubectl apply` leaves the whole object in an annotation."""
    journal = JournalWriter(tmp_path, SETTINGS, SIZE, ends)
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "secret", "kept": "yes"}
    RecordedCluster(SETTINGS, journal).step(1, [v.Put(pod("p", meta={"annotations": annotations}))])
    assert journal.close()
    text = gzip.decompress(journal.path.read_bytes())
    assert b"secret" not in text
    assert b'"kept":"yes"' in text


def test_it_ends_at_its_size(tmp_path: Path, ends: Ends) -> None:
    found = replay(write(tmp_path, ends, 50_000, max_bytes=3_000))
    assert ends.told == [("it has reached the size that was set for it", False)]
    assert 1 <= found.steps < 50_000
    assert found.proved == found.steps


def test_a_disk_that_is_too_slow_ends_it_and_holds_nobody(
    tmp_path: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAITING_EVENTS_MAX", 10)
    may_write = threading.Event()
    write_one = JournalWriter._write
    monkeypatch.setattr(JournalWriter, "_write", lambda self, entry: may_write.wait() and write_one(self, entry))
    journal = JournalWriter(tmp_path, SETTINGS, SIZE, ends)
    for number in range(30):
        journal.put(Step(number, [v.Tick()], []))
    assert not journal.is_open
    may_write.set()
    journal._thread.join(10)
    assert ends.told == [("the disk is too slow: more than 10 events waited to be written", False)]
    assert replay(journal.path).steps == 6


def test_an_error_of_the_disk_ends_it(tmp_path: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalWriter(tmp_path, SETTINGS, SIZE, ends)
    monkeypatch.setattr(journal, "_line", lambda text: (_ for _ in ()).throw(OSError("no space left")))
    cluster = RecordedCluster(SETTINGS, journal)
    cluster.step(1, [v.Started(0)])
    journal._thread.join(10)
    assert ends.told == [("it cannot be written: no space left; no end mark: no space left", False)]
    assert cluster.step(2, [v.Put(pod("p"))]) is not None


def test_a_directory_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with recorded(SETTINGS, tmp_path / "missing", SIZE) as cluster:
        assert not isinstance(cluster, RecordedCluster)
        assert cluster.model.settings is SETTINGS
    assert "journal cannot be written" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        b"plain",
        b"{}\n",
        b'{"format": 1, "settings": 3}\n',
        b'{"format": 1, "settings": {}}\n[]\n',
        b'{"format": 1, "settings": {}}\n{"now": 1, "events": [["Put", "Nothing", {}]]}\n',
        b'{"format": 1, "settings": {}}\n{"now": 1, "events": [["Put", "Pod", {"spec": 3}]]}\n',
        b'{"format": 1, "settings": {}}\n{"question": ["p", "n"]}\n',
    ],
)
def test_what_is_no_journal_is_not_played(text: bytes, tmp_path: Path) -> None:
    check_is_refused(tmp_path, gzip.compress(text))


@pytest.mark.parametrize("content", [b"", b"plain"])
def test_what_is_not_compressed_is_not_played(content: bytes, tmp_path: Path) -> None:
    check_is_refused(tmp_path, content)


def check_is_refused(folder: Path, content: bytes) -> None:
    path = folder / "j.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(JournalUnreadable):
        replay(path)
    assert CliRunner().invoke(kubernetes_replay, [str(path)]).exit_code == 2


def test_the_command(tmp_path: Path, ends: Ends) -> None:
    path = write(tmp_path, ends)
    ran = CliRunner().invoke(kubernetes_replay, [str(path), "--effects"])
    assert ran.exit_code == 0, ran.output
    assert '0.000000 [["Recovery",{"applications"' in ran.output
    assert "5 steps, of which 5 are proved" in ran.output
    rewrite(path, [{**line, "digest": "0"} if "digest" in line else line for line in lines(path)])
    assert CliRunner().invoke(kubernetes_replay, [str(path)]).exit_code == 1
