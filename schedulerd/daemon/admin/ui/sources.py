"""What the page uses of the rest of the daemon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.ui.history import UseHistory
from schedulerd.daemon.admin.ui.queue_file_log import QueueFileLog
from schedulerd.daemon.files.files_in_force import BrokenFile
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.instant import Instant, read_clocks


@dataclass(frozen=True, slots=True)
class UiSources:
    """All functions are called on the loop."""

    scheduler: Scheduler
    """Read only."""
    queries: StateQueries
    """What paces the reading of the state."""
    feed: EventFeed
    access: Access
    history: UseHistory
    queue_files: QueueFileLog
    has_tokens: bool = False
    """Whether clients log in."""
    clocks: Callable[[], Instant] = read_clocks
    host: str = ""
    """Name of this machine."""
    leader: Callable[[], str] = lambda: ""
    """Name of the replica that leads, as a standby is told; '' if it is not known."""
    broken_files: Callable[[], Sequence[BrokenFile]] = tuple
    """The queue files that cannot be used at present."""
