"""Plays a journal on an empty scheduler, and compares the facts with the record.

Every digest is compared in every kind of replay, so what a replay shows is what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.scheduler import Scheduler
from schedulerd.instant import Instant
from schedulerd.journal import Digest, Entry, Proof
from schedulerd.journal.encode import facts_bytes

DISMANTLED_EACH = 10_000
"""Pieces of dropped state that are freed after each step: nothing waits for a replay, so this may take a while."""


class Step(NamedTuple):
    """One command and its facts."""

    number: int
    """Of the command in its history, from 1."""
    now_ns: int
    """Monotonic time, of the clock that the scheduler was stepped with."""
    command: Command
    facts: Sequence[Fact]


class Playback:
    """Iterate over it once, for the steps in their order. The counts are of what was played so far."""

    def __init__(
        self, records: Iterable[Entry | Digest], scheduler: Scheduler, is_over: Callable[[Instant], bool] | None = None
    ) -> None:
        """`is_over`, if given, ends the playback before the first command for whose time it returns True."""
        self._records = records
        self._is_over = is_over
        self.proof = Proof()
        """Of the facts of the commands that were played."""
        self.scheduler = scheduler
        self.facts = 0
        self.now = Instant(0, 0)
        """When the last command came."""
        self.failed_at: Entry | None = None
        """The command that made the scheduler fail, as it did in the daemon if nothing was recorded after that."""
        self.failure: Exception | None = None
        """How it failed; nothing is played after that."""

    def __iter__(self) -> Iterator[Step]:
        """Raises `NotReproduced`, and what the records raise when they cannot be read on."""
        for record in self._records:
            if isinstance(record, Digest):
                self.proof.compare(record, "facts of commands")
                continue
            if self._is_over is not None and self._is_over(record.now):
                return
            try:
                facts = self.scheduler.step(record.now.monotonic_ns, record.command)
            except Exception as error:  # noqa: BLE001 whatever it is, it is a finding, and the story until then is wanted
                self.failed_at, self.failure = record, error
                return
            self.scheduler.dismantle(DISMANTLED_EACH)
            self.proof.add(facts_bytes(facts))
            self.facts += len(facts)
            self.now = record.now
            yield Step(self.commands, record.now.monotonic_ns, record.command, facts)

    @property
    def commands(self) -> int:
        """That were played."""
        return self.proof.entries
