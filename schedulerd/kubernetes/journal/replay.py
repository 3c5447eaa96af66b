"""A journal of the shim played again: a cluster is stepped with what is recorded, and has to want the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from schedulerd.journal_files.digest import Digest, Proof
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.journal.codec import Entry, Step, played, result_text
from schedulerd.kubernetes.journal.reader import EventJournal


@dataclass
class Replayed:
    steps: int = 0
    """Questions of the daemon included."""
    proved: int = 0
    """Of these, steps whose effects are compared with the record."""
    events: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    schedulerd: str = ""
    """Version that has written the journal."""
    end: str = ""
    """How the journal ends, as a sentence."""


def replay(path: Path, see: Callable[[Entry], None] = lambda entry: None) -> Replayed:
    """`see` is told every entry with its effects. Raises `JournalUnreadable` and `NotReproduced`."""
    journal = EventJournal.open(path)
    cluster = Cluster(journal.header.settings)
    found, proof = Replayed(schedulerd=journal.header.schedulerd), Proof()
    for record in journal:
        if isinstance(record, Digest):
            proof.compare(record, "effects of steps")
        else:
            entry = played(record, cluster)
            proof.add(result_text(entry))
            see(entry)
            _count(found, entry)
    found.proved, found.digest, found.end = proof.proved, proof.digest().hexdigest, journal.end
    return found


def _count(found: Replayed, entry: Entry) -> None:
    found.steps += 1
    if isinstance(entry, Step):
        found.events.update(type(event).__name__ for event in entry.events)
        found.effects.update(type(effect).__name__ for effect in entry.effects or ())
