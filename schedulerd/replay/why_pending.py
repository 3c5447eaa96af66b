"""Why the asks of an application are pending, in the words of `/debug/state`."""

from __future__ import annotations

from itertools import islice

from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views.explanation import Explanation
from schedulerd.core.views.state_query import StateQuery
from schedulerd.replay.names import ApplicationName
from schedulerd.sentences import preemption

ASKS_MAX = 500
"""Maximum number of pending asks of an application that are checked, and of nodes for them."""


def why_pending(scheduler: Scheduler, name: ApplicationName, key: str = "") -> dict[str, list[str]]:
    """The sentences that hold now, with the allocation keys that each is about; of all asks, or of the one of `key`."""
    rm = scheduler.cluster.resource_managers.get(name.rm_id)
    partition = rm.partitions.get(name.partition) if rm is not None else None
    application = partition.applications.get(name.application_id) if partition is not None else None
    if rm is None or partition is None or application is None:
        return {}
    explain = Explanation(partition, rm.state, StateQuery(limit=ASKS_MAX))
    asks = (ask for ask in application.asks.values() if ask.pending and key in ("", ask.key))
    found: dict[str, list[str]] = {}
    for ask in islice(asks, ASKS_MAX):
        waits = explain.waiting(application, ask)
        because = explain.no_preemption(application, ask) if waits else ""
        if waits:
            found.setdefault(f"{waits}; {preemption.none(because)}" if because else waits, []).append(ask.key)
    return found
