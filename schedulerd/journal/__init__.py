"""The journal: every command of the scheduler with its time, so that its history can be replayed.

The daemon never reads a journal: after a start its state comes from the resource managers. This package exports the
reader, which needs the standard library only; `recorder` writes journals.
"""

from schedulerd.journal.digest import FactsDigest
from schedulerd.journal.header import Header
from schedulerd.journal.reader import Digest, Entry, Journal
from schedulerd.journal_files.reading import JournalUnreadable

__all__ = ["Digest", "Entry", "FactsDigest", "Header", "Journal", "JournalUnreadable"]
