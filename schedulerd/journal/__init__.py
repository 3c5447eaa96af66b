"""The journal: every command that the scheduler was given, with its time, so that its history can be played again.

The daemon does not need it to run: its state comes from the resource managers. What is said here is what reads a
journal; it needs the standard library only. What writes one is `recorder`.
"""

from schedulerd.journal.digest import FactsDigest
from schedulerd.journal.header import Header
from schedulerd.journal.reader import Digest, Entry, Journal, JournalUnreadable

__all__ = ["Digest", "Entry", "FactsDigest", "Header", "Journal", "JournalUnreadable"]
