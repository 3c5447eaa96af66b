"""What differs on the disk between the journals of the daemon and of the shim, besides their entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Header(Protocol):
    """All that has to be known to play a journal again. It is the same in every file of a journal."""

    @property
    def instance(self) -> str:
        """Id of the start of the process that has written the journal."""

    def to_values(self) -> dict[str, Any]:
        """As plain values for JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Names are keys of JSON objects."""

    format: int | str
    """Of the files; to be raised whenever an older reader would misunderstand them."""
    entries_before: str
    """Of the header of a file: number of entries in the earlier files."""
    proved: str
    """Of a digest: number of entries whose results it covers."""
    has_digest_after_failure: bool
    """Whether the results before an entry that failed are proved at the end of the journal."""

    def file_header(self, header: Mapping[str, Any], file: int, entries: int) -> dict[str, Any]:
        """The first block of a file: `header` are the values of the journal's, `file` is its number from 1, and so many
        entries are in the files before it."""
        return {"format": self.format, **header, "file": file, self.entries_before: entries}

    def journal_header(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the journal's header, from the first block of a file."""
        return {key: value for key, value in values.items() if key not in ("format", "file", self.entries_before)}
