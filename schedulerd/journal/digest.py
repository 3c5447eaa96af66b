"""A running digest over all facts: two histories with the same one said the same, byte for byte.

It covers every field of every fact, in order, and which step said it. SHA-256, because the processor has instructions
for it, and because it leaves no room for doubt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from schedulerd.core.facts import Fact
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
        """Of what was added so far; more may follow."""
        return self._hash.hexdigest()
