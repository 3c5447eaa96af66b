"""Reads a journal of the shim: its entries are what its cluster was told and asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from schedulerd.journal_files.reader import JournalReader
from schedulerd.kubernetes.journal.codec import Entry, from_values
from schedulerd.kubernetes.journal.compression import Inflater
from schedulerd.kubernetes.journal.header import KIND, Header


class EventJournal(JournalReader[Header, Entry]):
    """A journal of the shim."""

    kind = KIND

    def parse_header(self, values: dict[str, Any]) -> Header:
        return msgspec.convert(values, Header)

    def entry_reader(self) -> Callable[[Any], Entry]:
        return from_values

    def text_reader(self) -> Callable[[bytes], bytes]:
        return Inflater().decompress
