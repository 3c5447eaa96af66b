"""A journal of the shim played again: a cluster is stepped with what is recorded, and has to want the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from schedulerd.journal_files.reading import JournalUnreadable
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.journal.codec import EffectsDigest, Entry, Step, from_values, played
from schedulerd.kubernetes.journal.reader import Journal


class NotReproduced(Exception):
    """What was played is not what happened."""


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
    journal = Journal.open(path)
    cluster = Cluster(journal.header.settings)
    found, digest = Replayed(schedulerd=journal.header.schedulerd), EffectsDigest()
    for place, line in journal.lines():
        if "digest" in line:
            if line["digest"] != digest.text():
                raise NotReproduced(f"the effects of steps {found.proved + 1} to {digest.steps} are others")
            found.proved = digest.steps
        else:
            entry = played(_entry(place, line), cluster)
            digest.add(entry)
            see(entry)
            _count(found, entry)
    found.end = journal.end
    found.digest = digest.text()
    return found


def _entry(place: str, line: dict[str, object]) -> Entry:
    try:
        return from_values(line)
    except (ValueError, KeyError, TypeError) as error:
        raise JournalUnreadable(f"{place}: {error!r}") from error


def _count(found: Replayed, entry: Entry) -> None:
    found.steps += 1
    if isinstance(entry, Step):
        found.events.update(type(event).__name__ for event in entry.events)
        found.effects.update(type(effect).__name__ for effect in entry.effects or ())
