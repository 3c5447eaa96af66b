"""What stands at the beginning of every file of a journal of the shim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from schedulerd import __version__
from schedulerd.journal_files.kind import Kind
from schedulerd.kubernetes.cluster.settings import ClusterSettings

KIND = Kind("shim 3", "entries_before", proved="steps", has_digest_after_failure=True)
"""Entries are steps, and questions of the daemon."""


@dataclass(frozen=True, slots=True)
class Header:
    """All that has to be known to play a journal again."""

    settings: ClusterSettings
    instance: str
    """Id of this start of the shim."""
    schedulerd: str = __version__
    """Version that has written the file."""

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = msgspec.to_builtins(self, order="deterministic")
        return values
