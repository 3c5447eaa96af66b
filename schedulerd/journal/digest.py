"""A running digest over all facts: equal digests mean equal facts, byte for byte.

It covers every field of every fact, in order, and the step of each fact. SHA-256, because processors have instructions
for it, and collisions are no concern.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from schedulerd.core.language.facts.fact import Fact
from schedulerd.journal.encode import facts_text

DIGEST_COMMANDS = 100
"""A journal says the digest after each so many commands: often enough to find a difference in a moment."""


class FactsDigest:
    """Of all facts so far."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, facts: Sequence[Fact]) -> None:
        """Adds the facts of one step; to be called for a step without facts as well."""
        self.update_texts([facts_text(facts)])

    def update_texts(self, texts: Sequence[str]) -> None:
        """Adds the facts of some steps as they were written by `facts_text`, one text for each step.

        A text says where it ends, so it is plain where the next step begins.
        """
        self._hash.update("".join(texts).encode("utf-8", "surrogatepass"))

    def hexdigest(self) -> str:
        """The digest of all facts added so far; more may follow."""
        return self._hash.hexdigest()
