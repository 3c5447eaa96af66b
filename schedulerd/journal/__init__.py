"""The journal of the daemon: every command of the scheduler with its time, so that its history can be replayed.

The daemon never reads a journal: after a start its state comes from the resource managers. This package exports the
reader, which needs the standard library only; `recorder` writes journals. Both are those of `schedulerd.journal_files`.
"""

from schedulerd.journal.header import Header
from schedulerd.journal.reader import Entry, Journal
from schedulerd.journal_files.digest import Digest, NotReproduced, Proof
from schedulerd.journal_files.reader import JournalUnreadable

__all__ = ["Digest", "Entry", "Header", "Journal", "JournalUnreadable", "NotReproduced", "Proof"]
