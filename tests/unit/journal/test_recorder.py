"""What the owner of a scheduler tells a journal, and what becomes of it when it cannot be written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulerd.config import matches
from schedulerd.core.language.commands import RunCycle
from schedulerd.core.language.facts.fact import CycleRan, Fact
from schedulerd.journal import Journal, Proof
from schedulerd.journal.encode import facts_bytes
from schedulerd.journal_files.writer import RecordingEnd
from tests.instants import at
from tests.unit.journal.build import a_header, a_story, begin

STORY = a_story()


class World:
    """A recorder whose journal is told all that a scheduler is."""

    def __init__(self, parent: Path) -> None:
        self.endings: list[RecordingEnd] = []
        self.recorder = begin(parent, a_header(), self.endings.append)
        self.scheduler = a_header().scheduler(matches)
        self.proof = Proof()

    def play(self) -> None:
        for entry in STORY:
            self.recorder.command(entry.now, entry.command)
            facts = self.scheduler.step(entry.now.monotonic_ns, entry.command)
            self.recorder.facts(facts)
            self.proof.add(facts_bytes(facts))


def test_every_step_is_recorded_with_what_it_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.recorder.is_open
    world.play()
    assert world.recorder.close("enough")
    journal = Journal.open(world.recorder.directory)
    assert list(journal) == [*STORY, world.proof.digest()]
    assert (journal.end, world.endings[0].is_orderly) == ("enough", True)
    assert world.recorder.waiting == 0
    assert world.recorder.written_bytes == world.endings[0].bytes == journal.files[0].stat().st_size


def test_the_facts_are_those_of_the_moment_whatever_becomes_of_what_they_share(tmp_path: Path) -> None:
    world = World(tmp_path)
    fact = CycleRan(1, 2, False)
    world.recorder.command(at(1), RunCycle(7))
    world.recorder.facts([fact])
    world.proof.add(facts_bytes([fact]))
    fact.allocations = 2
    world.recorder.close("enough")
    assert list(Journal.open(tmp_path))[1] == world.proof.digest()


def test_the_command_at_which_the_scheduler_raised_is_the_last(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play()
    world.recorder.command(at(100 * 10**9), RunCycle(9))
    assert world.recorder.close("it raised")
    records = list(Journal.open(tmp_path))
    assert records[:-1] == STORY
    assert records[-1] == type(STORY[0])(at(100 * 10**9), RunCycle(9))


def test_a_command_that_cannot_be_written_down_ends_the_journal_and_nothing_else(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.play()
    digest_before = world.proof.digest()
    placements: Any = object()
    world.recorder.command(at(1), RunCycle(placements))
    assert not world.recorder.is_open
    world.recorder.facts([])
    world.play()
    assert world.recorder.close("enough")
    (ending,) = world.endings
    assert not ending.is_orderly
    assert ending.reason.startswith("a RunCycle cannot be written down: TypeError: ")
    journal = Journal.open(tmp_path)
    assert list(journal) == [*STORY, digest_before]
    assert journal.end == ending.reason


def test_a_fact_that_cannot_be_written_down_ends_it_too(tmp_path: Path) -> None:
    @dataclass
    class Rumour:
        told: complex

    world = World(tmp_path)
    rumours: list[Any] = [Rumour(1j)]
    facts: list[Fact] = rumours
    world.recorder.command(at(1), RunCycle(7))
    world.recorder.facts(facts)
    assert world.recorder.close("enough")
    assert list(Journal.open(tmp_path)) == []
    assert "cannot be written down" in world.endings[0].reason
