"""What must hold of what resource managers were told of their asks: a part of `invariants`, counted anew as well."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.model.cluster import ResourceManager


def scheduling_state_tracker(rm: ResourceManager) -> Iterator[str]:
    """Nothing is remembered of asks that do not wait, and what is begun goes on."""
    states = rm.scheduling_state_tracker
    if states is None:
        return
    for name, told in states.told.items():
        partition, application_id, key = name
        known = rm.partitions.get(partition)
        application = known.applications.get(application_id) if known is not None else None
        ask = application.asks.get(key) if application is not None else None
        if ask is None or not ask.pending:
            yield f"it is remembered of ask {key} of application {application_id} that it is {told.state.name}"
    if states.scans and (states.alarm is None or not states.alarm.live):
        yield "asks are gone through, and nothing goes on with it"
