"""What stands at the beginning of every file of a journal of the shim."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec

from schedulerd import __version__
from schedulerd.kubernetes.cluster.settings import ClusterSettings

FORMAT = "shim 3"
"""Of the files; the daemon's journal has numbers."""


@dataclass(frozen=True, slots=True)
class Header:
    """Only `file` and `entries_before` differ between the files of a journal."""

    settings: ClusterSettings
    instance: str
    """Id of this start of the shim."""
    schedulerd: str = __version__
    """Version that has written the file."""
    file: int = 1
    entries_before: int = 0
    """Steps and questions in the earlier files."""

    def of_next_file(self, entries: int) -> Self:
        return replace(self, file=self.file + 1, entries_before=entries)

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = msgspec.to_builtins(self, order="deterministic")
        return {"format": FORMAT, **values}

    @classmethod
    def from_content(cls, content: bytes) -> Self:
        """Of the first block of a file. Raises `ValueError`."""
        values = json.loads(content)
        found = values.pop("format", None) if isinstance(values, dict) else None
        if found != FORMAT:
            raise ValueError(f"this is no journal of the shim in format {FORMAT!r}: its format is {found!r}")
        return msgspec.convert(values, cls)
