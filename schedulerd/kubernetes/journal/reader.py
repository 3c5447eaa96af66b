"""A journal of the shim, line by line. One that ends in the middle, as a crash leaves it, is read so far."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.codec import FORMAT


class JournalUnreadable(Exception):
    """The file is no journal, or not as it was written."""


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The header, and what follows. Raises `JournalUnreadable`."""
    try:
        with gzip.open(path) as file:
            for number, line in enumerate(_whole_lines(file), 1):
                try:
                    values = msgspec.json.decode(line)
                except ValueError as error:
                    raise JournalUnreadable(f"{path}: line {number}: {error}") from error
                if not isinstance(values, dict):
                    raise JournalUnreadable(f"{path}: line {number} is no object")
                yield values
    except (OSError, zlib.error) as error:
        raise JournalUnreadable(f"{path}: {error}") from error


def settings_of(header: dict[str, Any]) -> ClusterSettings:
    """Of the shim that has written it. Raises `JournalUnreadable`."""
    if header.get("format") != FORMAT:
        raise JournalUnreadable(f"no journal of the shim in format {FORMAT}: format is {header.get('format')!r}")
    try:
        return msgspec.convert(header.get("settings"), ClusterSettings)
    except ValueError as error:
        raise JournalUnreadable(f"settings: {error}") from error


def _whole_lines(file: gzip.GzipFile) -> Iterator[bytes]:
    while True:
        try:
            line = file.readline()
        except EOFError:  # the end of the compression is missing
            return
        if not line.endswith(b"\n"):
            return
        yield line
