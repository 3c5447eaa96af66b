"""Puts the parts of the page together."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.ui.app import Ui
from schedulerd.daemon.admin.ui.history import UseHistory
from schedulerd.daemon.admin.ui.queue_file_log import QueueFileLog
from schedulerd.daemon.admin.ui.sources import UiSources
from schedulerd.daemon.files.files_in_force import BrokenFile
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.instant import read_clocks


def make_ui(
    scheduler: Scheduler,
    queries: StateQueries,
    feed: EventFeed,
    access: Access,
    placements: Callable[[str, str], int],
    *,
    has_tokens: bool,
    leader: Callable[[], str],
    broken_files: Callable[[], Sequence[BrokenFile]],
) -> Ui:
    """The page of a daemon. The caller runs its `history`, and gives all facts to its `queue_files`.

    `placements` returns the number of allocations made so far in a partition, given with its resource manager.
    `leader` names the replica that leads, for the page of a standby; '' if it is not known. `broken_files` are the
    queue files that cannot be used at present.
    """
    history = UseHistory(scheduler.cluster, queries, placements, read_clocks)
    return Ui(
        UiSources(
            *(scheduler, queries, feed, access, history, QueueFileLog()),
            has_tokens=has_tokens,
            host=socket.gethostname(),
            leader=leader,
            broken_files=broken_files,
        )
    )
