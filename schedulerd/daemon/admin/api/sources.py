"""What the API uses of the rest of the daemon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.instant import Instant, read_clocks


@dataclass(frozen=True, slots=True)
class ApiSources:
    """All functions are called on the loop."""

    scheduler: Scheduler
    """Read only; commands go through the owner."""
    queries: StateQueries
    """What paces the reading of the state."""
    feed: EventFeed
    access: Access
    clocks: Callable[[], Instant] = read_clocks
