"""Reading a journal, whole or not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from schedulerd import __version__
from schedulerd.config import matches
from schedulerd.core.language.commands import RunCycle
from schedulerd.journal import Digest, Entry, Journal, JournalUnreadable, Proof
from schedulerd.journal.encode import facts_bytes, facts_text
from schedulerd.journal.header import KIND
from schedulerd.journal_files.blocks import MAGIC, block
from tests.unit.journal.build import GENEROUS_BYTES, a_header, a_story, begin, entries, files_in, texts

STORY = a_story(1)
HEADER = KIND.file_header(a_header().to_values(), 1, 0)


def recorded(directory: Path, file_max: int = GENEROUS_BYTES) -> Path:
    """A journal of the story in so many files; gives the last one."""
    directory.mkdir()
    files = files_in(directory, file_max=file_max)
    for line in texts(STORY):
        files.append(line.encode("ascii"), 1)
    files.end(b'{"end": "enough", "commands": 6}')
    return max(directory.iterdir())


def made(directory: Path, *blocks: object, **header: Any) -> Path:
    """A journal with these values in its blocks, and the header with these changes."""
    contents = [{**HEADER, **header}, *blocks]
    directory.joinpath("000001.journal").write_bytes(
        MAGIC + b"".join(block(json.dumps(content).encode("ascii")) for content in contents)
    )
    return directory


def test_a_journal_that_was_written_is_played_again_by_what_its_header_says(tmp_path: Path) -> None:
    scheduler, said = a_header().scheduler(matches), Proof()
    recorder = begin(tmp_path, a_header())
    for entry in STORY:
        recorder.command(entry.now, entry.command)
        facts = scheduler.step(entry.now.monotonic_ns, entry.command)
        recorder.facts(facts)
        said.add(facts_bytes(facts))
    assert recorder.close("enough")

    journal = Journal.open(tmp_path)
    again, proof = journal.header.scheduler(matches), Proof()
    for record in journal:
        if isinstance(record, Entry):
            proof.add(facts_bytes(again.step(record.now.monotonic_ns, record.command)))
        else:
            proof.compare(record, "facts of commands")
    assert (proof.proved, proof.digests) == (len(STORY), 1)
    assert proof.digest() == said.digest()
    assert journal.header == a_header()
    assert (journal.end, journal.cut_bytes) == ("enough", 0)


def test_it_can_be_read_again_and_found_by_a_file_or_by_what_it_is_in(tmp_path: Path) -> None:
    file = recorded(tmp_path / "one")
    for path in (tmp_path, tmp_path / "one", file):
        journal = Journal.open(path)
        assert journal.files == (file,)
        assert entries(journal) == entries(journal) == STORY


@pytest.mark.slow
def test_a_crash_at_any_byte_costs_what_was_not_whole_and_nothing_else(tmp_path: Path) -> None:
    file = recorded(tmp_path / "one")
    data = file.read_bytes()
    header_end = data.index(block(texts(STORY)[0].encode("ascii")))
    found = 0
    for length in range(header_end, len(data)):
        file.write_bytes(data[:length])
        journal = Journal.open(file)
        read = entries(journal)
        assert read == STORY[: len(read)]
        assert found <= len(read) <= found + 1
        found = len(read)
        assert "without an end mark" in journal.end
        assert (f"the last {journal.cut_bytes} bytes" in journal.end) == (journal.cut_bytes > 0)
    assert found == len(STORY)


def test_a_crash_before_the_header_was_whole_leaves_nothing_to_read(tmp_path: Path) -> None:
    file = recorded(tmp_path / "one")
    data = file.read_bytes()
    for length in range(0, data.index(block(texts(STORY)[0].encode("ascii"))), 10):
        file.write_bytes(data[:length])
        with pytest.raises(JournalUnreadable, match="ends within its header"):
            Journal.open(file)


def test_a_crash_while_the_next_file_was_begun_costs_nothing(tmp_path: Path) -> None:
    last = recorded(tmp_path / "one", file_max=1)
    data = last.read_bytes()
    for length in range(0, 200, 10):
        last.write_bytes(data[:length])
        journal = Journal.open(tmp_path)
        assert entries(journal) == STORY[:-1]
        assert journal.cut_bytes == (length if length < len(MAGIC) else length - len(MAGIC))


def test_a_file_in_the_middle_that_ends_early_is_no_torn_tail(tmp_path: Path) -> None:
    recorded(tmp_path / "one", file_max=1)
    journal = Journal.open(tmp_path)
    second = journal.files[1]
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.raises(JournalUnreadable, match=f"{second} ends within a block, although another file follows"):
        list(journal)


def test_damage_is_said_with_file_and_offset(tmp_path: Path) -> None:
    file = recorded(tmp_path / "one")
    data = bytearray(file.read_bytes())
    offset = data.index(block(texts(STORY)[3].encode("ascii")))
    data[offset + 20] ^= 1
    file.write_bytes(data)
    journal = Journal.open(file)
    read: list[Entry | Digest] = []
    with pytest.raises(JournalUnreadable, match=f"{file}: damaged at offset {offset}: the content"):
        read.extend(journal)
    assert read == STORY[:3]
    assert journal.end == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    recorded(tmp_path / "one", file_max=1)
    tmp_path.joinpath("one", "000002.journal").unlink()
    with pytest.raises(JournalUnreadable, match=r"000002\.journal is missing: it comes before 000003"):
        Journal.open(tmp_path)


def test_a_file_of_another_journal_does_not_follow(tmp_path: Path) -> None:
    recorded(tmp_path / "one", file_max=1)
    recorded(tmp_path / "two")
    shutil.copy(tmp_path / "two" / "000001.journal", tmp_path / "one" / "000003.journal")
    with pytest.raises(JournalUnreadable, match=r"000003\.journal is not what follows"):
        list(Journal.open(tmp_path / "one"))


def test_which_journal_is_asked_if_there_are_several(tmp_path: Path) -> None:
    for name in ("b", "a"):
        recorded(tmp_path / name)
    with pytest.raises(JournalUnreadable, match=r"several journals .* say which: a, b"):
        Journal.open(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_where_no_journal_is(name: str, tmp_path: Path) -> None:
    with pytest.raises(JournalUnreadable, match="there is no journal in"):
        Journal.open(tmp_path / name)


def test_what_may_not_be_looked_into_is_not_said_to_be_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "of-somebody-else").unlink()
    tmp_path.joinpath("a-file").touch()
    with monkeypatch.context() as stranger:
        stranger.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(JournalUnreadable, match=r"no file \*.journal, and no permission .* into of-somebody-else$"):
            Journal.open(tmp_path)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(JournalUnreadable, match=r"there is no journal in .*loop: Too many levels of symbolic links"):
        Journal.open(loop)


def test_a_file_that_goes_while_the_journal_is_read_is_said(tmp_path: Path) -> None:
    last = recorded(tmp_path / "one", file_max=1)
    journal = Journal.open(tmp_path)
    last.unlink()
    with pytest.raises(JournalUnreadable, match=r"000006\.journal: .*No such file"):
        list(journal)


def test_another_format_is_refused_before_anything_else_is_looked_at(tmp_path: Path) -> None:
    made(tmp_path, format=9, timeouts="something new", version="7.0.0")
    with pytest.raises(JournalUnreadable, match=r"000001\.journal: its format is 9, written by schedulerd 7\.0\.0; .*"):
        Journal.open(tmp_path)


def test_the_format_before_is_refused_with_what_is_read_and_what_wrote_it(tmp_path: Path) -> None:
    made(tmp_path, [1, "RunCycle", [7]], format=1, version="0.1.0" + "x" * 1_000)
    with pytest.raises(JournalUnreadable) as refused:
        Journal.open(tmp_path)
    _, _, sentence = str(refused.value).partition("000001.journal: ")
    assert sentence == (
        f"its format is 1, written by schedulerd 0.1.0{'x' * 35}; this is schedulerd {__version__}, "
        "which reads format 5 only: read the journal with the version that wrote it"
    )


def test_a_header_with_more_than_is_known_is_not_guessed_at(tmp_path: Path) -> None:
    made(tmp_path, dice=6)
    with pytest.raises(JournalUnreadable, match=r"its header is not understood: .*dice"):
        Journal.open(tmp_path)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([1, 2, "Dance", []], "there is no command 'Dance'"),
        ([1, 2, "RunCycle", []], "argument"),
        ([1, 2, "ConnectResourceManager", ["rm", "more"]], "argument"),
        ([1, 2, "DisconnectResourceManager", ["rm", "boredom"]], "boredom"),
        ([1, 2, "UpdateAllocations", ["rm", [2, ["app-1"]], [0], [0]]], "argument"),
        ([1], "unpack"),
        (7, "unpack"),
    ],
)
def test_a_command_that_is_not_understood_is_said_with_file_and_offset(
    values: object, what: str, tmp_path: Path
) -> None:
    journal = Journal.open(made(tmp_path, [1, 2, "RunCycle", [7]], values))
    with pytest.raises(JournalUnreadable, match=rf"000001\.journal, block at offset \d+: .*{what}"):
        list(journal)


def test_a_record_that_is_neither_digest_nor_end_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(JournalUnreadable, match="a record is not understood"):
        list(Journal.open(made(tmp_path, {"dice": 6})))


def test_a_block_that_is_not_json_is_damage(tmp_path: Path) -> None:
    file = made(tmp_path) / "000001.journal"
    file.write_bytes(file.read_bytes() + block(b"no json"))
    with pytest.raises(JournalUnreadable, match=r"000001\.journal: Expecting value"):
        list(Journal.open(tmp_path))


def test_a_field_that_an_older_version_did_not_have_gets_its_default(tmp_path: Path) -> None:
    names = HEADER["names"]
    asks = [name for name in names["NewAsk"] if name in ("allocation_key", "application_id", "resources")]
    names = {**names, "NewAsk": asks[::-1]}
    table = [2, [{"vcore": 1}], ["pod-0-0", "pod-0-1"], ["app-1"]]
    journal = Journal.open(made(tmp_path, [1, 2, "UpdateAllocations", ["rm", table, [0], [0]]], names=names))
    assert [record.command for record in entries(journal)] == [STORY[4].command]


def test_a_field_that_only_a_newer_version_has_is_refused(tmp_path: Path) -> None:
    names = {**HEADER["names"], "RunCycle": ["allocations_max", "dice"]}
    journal = Journal.open(made(tmp_path, [1, 2, "RunCycle", [7, 6]], names=names))
    with pytest.raises(JournalUnreadable, match="RunCycle has no field dice"):
        list(journal)


def test_a_step_without_facts_is_part_of_the_digest() -> None:
    one, other = Proof(), Proof()
    one.add(facts_bytes([]))
    assert one.digest().hexdigest != other.digest().hexdigest
    assert facts_text([]) == "\n"
    assert RunCycle(7) == STORY[-1].command


@pytest.mark.parametrize(
    "content", [b"[" * 60_000, b"9" * 5_000, b"no json", b"\xff", b'"\\ud800"', b"null", b"7", b"[7]"]
)
@pytest.mark.parametrize("is_header", [False, True])
def test_a_line_that_no_journal_has_is_an_error_and_not_a_crash(
    tmp_path: Path, content: bytes, is_header: bool
) -> None:
    header = json.dumps(HEADER).encode("ascii")
    contents = [content] if is_header else [header, content]
    tmp_path.joinpath("000001.journal").write_bytes(MAGIC + b"".join(map(block, contents)))
    with pytest.raises(JournalUnreadable):
        list(Journal.open(tmp_path))
