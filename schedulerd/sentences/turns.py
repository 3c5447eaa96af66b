"""What is served before an ask."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.sentences.words import listed, many

WAITS = "it waits for its turn"
ONLY_BEFORE = "quotas and limits have room only for asks before it, which fit on no node"
"""No node fits it, and quotas would not let it in after these."""


def next_in(queue: str) -> str:
    """Nothing is before it."""
    return f"it is next in queue {queue}"


def pods_ahead(count: int, queue: str, what: str = "pod") -> str:
    """Allocations of the queue are before it."""
    return f"{many(count, what)} {'is' if count == 1 else 'are'} ahead of it in queue {queue}"


def queues_before(levels: Sequence[Sequence[str]], left_out: int = 0) -> str:
    """Queues that are served before its own ones, from the root down: the siblings at each level, in order; '' if none
    is."""
    said = [listed(names) for names in levels if names]
    more = [f"{left_out:,} more"] if left_out else []
    return f"served before it: {', then '.join([*said, *more])}" if said else ""
