"""What is written of a cluster is read again; a journal that cannot go on ends, and nothing else does."""

from __future__ import annotations

import json
import threading
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from schedulerd.journal_files.blocks import MAGIC, block, blocks
from schedulerd.journal_files.digest import DIGEST_ENTRIES, NotReproduced
from schedulerd.journal_files.files import JournalFiles
from schedulerd.journal_files.reader import JournalUnreadable, find_files
from schedulerd.journal_files.writer import RecordingEnd
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey, Written
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal import recorder as writing
from schedulerd.kubernetes.journal.cli import kubernetes_replay
from schedulerd.kubernetes.journal.codec import (
    Entry,
    PreemptionQuestion,
    Question,
    Step,
    from_values,
    to_text,
)
from schedulerd.kubernetes.journal.compression import Deflater, Inflater
from schedulerd.kubernetes.journal.header import KIND, Header
from schedulerd.kubernetes.journal.recorded_cluster import RecordedCluster
from schedulerd.kubernetes.journal.recorder import EventRecorder
from schedulerd.kubernetes.journal.replay import replay
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from tests.kubernetes.builders import bound, node, pod
from tests.loops import each_row
from tests.unit.journal.build import Disk

SETTINGS = ClusterSettings(scheduler_names=frozenset({"a", "b", "schedulerd"}))
SIZE = 2**30
ENDED = "the shim has ended"


class Ends:
    def __init__(self) -> None:
        self.told: list[RecordingEnd] = []

    def __call__(self, ending: RecordingEnd) -> None:
        self.told.append(ending)

    @property
    def reasons(self) -> list[tuple[str, bool]]:
        return [(one.reason, one.is_orderly) for one in self.told]


@pytest.fixture
def ends() -> Ends:
    return Ends()


HEADER = Header(SETTINGS, "abc")
HEADER_BLOCK = json.dumps(KIND.file_header(HEADER.to_values(), 1, 0)).encode()


def begin(folder: Path, ends: Ends, file_max_bytes: int = SIZE) -> EventRecorder:
    return EventRecorder.begin(folder, HEADER, 0, ends, file_max_bytes=file_max_bytes, max_bytes=SIZE)


def on_disk(directory: Path, ends: Ends, disk: Disk) -> EventRecorder:
    files = JournalFiles(directory, KIND, HEADER, file_max_bytes=SIZE, max_bytes=SIZE, open_file=disk.open)
    return EventRecorder(files, ends)


def play(journal: EventRecorder, steps: int) -> None:
    cluster = RecordedCluster(SETTINGS, journal)
    cluster.step(1, [v.Put(node("n")), v.Put(pod("p"))])
    cluster.step(2, [v.Started(0)])
    for number in range(steps):
        cluster.step(3 + number, [v.Tick()])


def write(folder: Path, ends: Ends, steps: int = 3, file_max_bytes: int = SIZE) -> Path:
    journal = begin(folder, ends, file_max_bytes)
    play(journal, steps)
    assert journal.close(ENDED)
    return journal.directory


def lines(journal: Path) -> list[Any]:
    """All after the header."""
    text_of = Inflater().decompress
    (file,) = find_files(journal)
    with file.open("rb") as opened:
        _, *contents = blocks(opened)
    return [json.loads(line) for content in contents for line in text_of(content).splitlines()]


def rewrite(journal: Path, changed: list[Any]) -> None:
    (file,) = find_files(journal)
    text = b"".join(json.dumps(line).encode() + b"\n" for line in changed)
    file.write_bytes(MAGIC + block(HEADER_BLOCK) + block(Deflater().compress(text)))


def test_what_is_written_is_played(tmp_path: Path, ends: Ends) -> None:
    found = replay(write(tmp_path, ends, DIGEST_ENTRIES))
    assert ends.reasons == [(ENDED, True)]
    assert (found.steps, found.proved, found.end) == (DIGEST_ENTRIES + 2,) * 2 + (ENDED,)
    assert found.effects["Recovery"] == 1


def test_every_digest_is_compared(tmp_path: Path, ends: Ends) -> None:
    path = write(tmp_path, ends, DIGEST_ENTRIES)
    good = lines(path)
    at = [number for number, line in enumerate(good) if "digest" in line]
    assert len(at) == 2
    for number in at:
        rewrite(path, [{**line, "digest": "0"} if index == number else line for index, line in enumerate(good)])
        with pytest.raises(NotReproduced):
            replay(path)


def test_files_follow_each_other_and_are_played_as_one(
    tmp_path: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BLOCK_EVENTS", 1)
    directory = write(tmp_path, ends, 200, file_max_bytes=2_000)
    files = find_files(directory)
    assert len(files) > 3
    assert max(file.stat().st_size for file in files) <= 2_000 + 200, "the end mark may be beyond the bound"
    assert sum(file.stat().st_size for file in files) == ends.told[0].bytes
    found = replay(tmp_path)
    assert (found.steps, found.proved, found.end) == (202, 202, ENDED)
    assert ends.told[0].entries == 202


def _instances(type_: Any) -> Any:
    """Something of the type that is not its default, as far as that can be made."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if type_ is str:
        return "text"
    if type_ is ApplicationId:
        return ApplicationId("ns", "text")
    if type_ in (int, bool):
        return type_(1)
    if origin is tuple and arguments[-1] is ...:
        return (_instances(arguments[0]),)
    return next(iter(type_)) if hasattr(type_, "__members__") else None


@each_row("kind", typing.get_args(v.Event), ids=lambda kind: kind.__name__)
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
    journal = begin(tmp_path, ends)
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
    assert journal.close(ENDED)
    seen: list[Any] = []
    found = replay(journal.directory, seen.append)
    assert [one.answer for one in seen if not isinstance(one, Step)] == answers
    assert found.proved == found.steps == 7
    # Without the questions nothing is remembered of a refusal, and nothing asked again.
    rewrite(journal.directory, [line for line in lines(journal.directory) if "question" not in line])
    with pytest.raises(NotReproduced):
        replay(journal.directory)


def test_a_step_that_raises_is_the_last_one_and_raises_again(
    tmp_path: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path, ends)
    cluster = RecordedCluster(SETTINGS, journal)
    cluster.step(1, [v.Put(node("n"))])
    monkeypatch.setattr(Cluster, "step", _raise)
    with pytest.raises(ZeroDivisionError):
        cluster.step(2, [v.Started(0)])
    assert journal.close(ENDED)
    assert [line["now"] for line in lines(journal.directory) if "now" in line] == [1, 2]
    monkeypatch.undo()
    with pytest.raises(NotReproduced):
        replay(journal.directory)
    monkeypatch.setattr(Cluster, "step", lambda self, now_ns, events: _raise() if now_ns == 2 else [])
    with pytest.raises(ZeroDivisionError):
        replay(journal.directory)


def _raise(*_: Any) -> Any:
    raise ZeroDivisionError


def test_secrets_are_not_recorded(tmp_path: Path, ends: Ends) -> None:
    """`kubectl apply` leaves the whole object in an annotation."""
    journal = begin(tmp_path, ends)
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "secret", "kept": "yes"}
    RecordedCluster(SETTINGS, journal).step(1, [v.Put(pod("p", meta={"annotations": annotations}))])
    assert journal.close(ENDED)
    text = json.dumps(lines(journal.directory))
    assert "secret" not in text
    assert '"kept": "yes"' in text


def test_a_disk_that_is_too_slow_ends_it_and_holds_nobody(
    tmp_path: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAITING_EVENTS_MAX", 10)
    may_write = threading.Event()
    append = JournalFiles.append
    monkeypatch.setattr(JournalFiles, "append", lambda *given: may_write.wait() and append(*given))
    journal = begin(tmp_path, ends)
    for number in range(30):
        journal.put(Step(number, [v.Tick()], []))
    assert not journal.is_open
    assert journal.waiting == 12
    may_write.set()
    assert journal.join()
    assert ends.reasons == [("the disk is too slow for it: more than 10 events waited to be written", False)]
    assert replay(journal.directory).steps == 6


@pytest.mark.parametrize(("room", "has_mark"), [(3_000, True), (20, False)])
def test_a_full_disk_ends_it_and_not_the_shim(room: int, has_mark: bool, tmp_path: Path, ends: Ends) -> None:
    disk = Disk(SIZE)
    journal = on_disk(tmp_path, ends, disk)
    cluster = RecordedCluster(SETTINGS, journal)
    disk.room_bytes = room
    number = 0
    while journal.is_open:
        number += 1
        cluster.step(number, [v.Put(pod(f"p{number}"))])
    assert journal.join()
    (ending,) = ends.told
    assert "No space left" in ending.reason
    assert journal.state == f"not recording: {ending.reason}"
    assert (ending.mark_error == "") == has_mark
    assert cluster.step(number + 1, [v.Put(pod("q"))]) is not None, "the shim goes on"
    found = replay(tmp_path)
    assert found.steps == ending.entries
    assert ("No space left" in found.end) == has_mark


@pytest.mark.parametrize(
    "text",
    [
        b"[]\n",
        b"plain\n",
        b'{"now": 1, "events": [["Put", "Nothing", {}]]}\n',
        b'{"now": 1, "events": [["Put", "Pod", {"spec": 3}]]}\n',
        b'{"question": ["p", "n"]}\n',
    ],
)
def test_what_is_no_line_of_a_journal_is_not_played(text: bytes, tmp_path: Path) -> None:
    check_is_refused(tmp_path, MAGIC + block(HEADER_BLOCK) + block(Deflater().compress(text)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain",
        MAGIC + block(b"plain"),
        MAGIC + block(b"[]"),
        MAGIC + block(b'{"format": 3}'),
        MAGIC + block(json.dumps({"format": KIND.format, "settings": 3}).encode()),
        MAGIC + block(HEADER_BLOCK) + block(b"not compressed"),
        MAGIC + block(HEADER_BLOCK) + block(Deflater().compress(b"{}\n") + b"more"),
        MAGIC + block(HEADER_BLOCK) + block(Deflater().compress(b"{}\n")[:-1]),
    ],
)
def test_what_is_no_journal_is_not_played(content: bytes, tmp_path: Path) -> None:
    check_is_refused(tmp_path, content)


def check_is_refused(folder: Path, content: bytes) -> None:
    path = folder / "000001.journal"
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
