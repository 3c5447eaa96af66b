from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from schedulerd.config import matches
from schedulerd.core.language.commands import RunCycle, UpdateApplications
from schedulerd.core.language.specs import MILLISECOND_NS
from schedulerd.instant import Instant
from schedulerd.journal import Digest, Entry, Journal, NotReproduced
from schedulerd.replay.playback import Playback
from tests.instants import at
from tests.unit.replay.recorded import START_NS, a_header, a_history, write_journal

Records = list[Entry | Digest]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return list(Journal.open(write_journal(tmp_path_factory.mktemp("journal"), a_history())))


def a_playback(records: Records, is_over: Callable[[Instant], bool] | None = None) -> Playback:
    return Playback(records, a_header().scheduler(matches), is_over)


def test_a_journal_is_played_to_its_end_and_every_digest_compared(records: Records) -> None:
    playback = a_playback(records)
    steps = list(playback)
    assert [(step.now_ns, step.command) for step in steps] == a_history()
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert playback.commands == playback.proof.proved == len(a_history())
    assert playback.facts == sum(len(step.facts) for step in steps) > 5_000
    assert playback.proof.digests == sum(isinstance(record, Digest) for record in records) > 10
    assert playback.now.monotonic_ns == a_history()[-1][0]


def test_a_digest_that_differs_says_between_which_commands(records: Records) -> None:
    altered = [Digest(300, "0" * 64) if isinstance(one, Digest) and one.entries == 300 else one for one in records]
    playback = a_playback(altered)
    with pytest.raises(NotReproduced, match="the facts of commands 201 to 300 differ from the record"):
        list(playback)
    assert playback.proof.proved == 200


def test_a_command_that_is_missing_shows_at_the_next_digest(records: Records) -> None:
    submissions = (
        one for one in records[120:] if isinstance(one, Entry) and isinstance(one.command, UpdateApplications)
    )
    missing = next(submissions)
    with pytest.raises(NotReproduced, match="commands 101 to 200"):
        list(a_playback([one for one in records if one is not missing]))


def test_other_uuids_are_another_history(records: Records) -> None:
    with pytest.raises(NotReproduced, match="commands 1 to 100"):
        list(Playback(records, a_header(uuid_seed=6).scheduler(matches)))


def test_it_ends_before_the_first_command_after_a_moment(records: Records) -> None:
    until_ns = START_NS + 1_000 * MILLISECOND_NS
    played = [step.now_ns for step in a_playback(records, lambda now: now.monotonic_ns > until_ns)]
    assert played == [now_ns for now_ns, _ in a_history() if now_ns <= until_ns]
    assert played[-1] == until_ns


def test_commands_behind_the_last_digest_are_not_proven(records: Records) -> None:
    cut = list(islice(records, 250))
    playback = a_playback(cut)
    list(playback)
    assert (playback.commands, playback.proof.proved, playback.proof.digests) == (248, 200, 2)


def test_a_command_that_makes_the_scheduler_fail_is_kept_with_the_error(records: Records) -> None:
    def broken() -> Iterator[Entry | Digest]:
        yield from islice(records, 50)
        yield Entry(at(START_NS), RunCycle(allocations_max=None))  # type: ignore[arg-type]
        raise AssertionError("nothing is read beyond it")

    playback = Playback(broken(), a_header().scheduler(matches))
    assert len(list(playback)) == playback.commands == 50
    assert isinstance(playback.failure, TypeError)
    assert playback.failed_at is not None
    assert isinstance(playback.failed_at.command, RunCycle)


def test_what_cannot_be_read_on_is_not_swallowed(tmp_path: Path) -> None:
    journal = write_journal(tmp_path, a_history())
    (file,) = journal.glob("*.journal")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    opened = Journal.open(journal)
    with pytest.raises(ValueError, match=str(file)):
        list(Playback(opened, opened.header.scheduler(matches)))
