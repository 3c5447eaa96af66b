"""The digest of all results so far: equal digests mean equal results, byte for byte.

SHA-256, because processors have instructions for it, and collisions are no concern.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

DIGEST_ENTRIES = 100
"""A journal has the digest after each so many entries: often enough to find a difference in a moment."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Of the results of the first so many entries, as it was recorded."""

    entries: int
    hexdigest: str


class NotReproduced(Exception):
    """A replay differs from the record; the message says where."""


class Proof:
    """The results of a journal that is written or replayed, and their digest."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.entries = 0
        """Whose results were added."""
        self.digests = 0
        """That were compared, and are the same."""
        self.proved = 0
        """Number of entries that the last of them covers."""

    def add(self, *results: bytes) -> None:
        """The results of the next entries, in order. Each has to say where it ends."""
        self._hash.update(b"".join(results))
        self.entries += len(results)

    def digest(self) -> Digest:
        """Of all results so far; more may follow."""
        return Digest(self.entries, self._hash.hexdigest())

    def compare(self, recorded: Digest, what: str) -> None:
        """Raises `NotReproduced`, which names `what` was compared, such as "facts of commands"."""
        if recorded != self.digest():
            raise NotReproduced(f"the {what} {self.proved + 1:,} to {recorded.entries:,} differ from the record")
        self.digests += 1
        self.proved = recorded.entries
