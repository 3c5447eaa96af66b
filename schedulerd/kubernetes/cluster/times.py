"""Times as Kubernetes writes them, without a clock."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache


@lru_cache(1024)
def epoch_seconds(timestamp: str | None) -> int:
    """Seconds since the epoch of an RFC 3339 time; 0 if there is none, or it cannot be read."""
    if not timestamp:
        return 0
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError):
        return 0
