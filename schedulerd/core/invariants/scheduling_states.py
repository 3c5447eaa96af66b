"""What must hold of the scheduling states that resource managers were told."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.state.step_context import ResourceManager


def scheduling_state_tracker(rm: ResourceManager) -> Iterator[str]:
    """The tracker has no state of an ask that is not pending, and a scan that has begun goes on."""
    states = rm.scheduling_state_tracker
    if states is None:
        return
    for name, told in states.told.items():
        partition, application_id, key = name
        known = rm.partitions.get(partition)
        application = known.applications.get(application_id) if known is not None else None
        ask = application.asks.get(key) if application is not None else None
        if ask is None or not ask.pending:
            state = told.state.name if told.state is not None else "a pending reason"
            yield f"{state} was told of ask {key} of application {application_id}, which is not pending"
    if states.scans and (states.alarm is None or not states.alarm.live):
        yield "a scan of asks has begun, and no alarm continues it"


def alarms(rm: ResourceManager) -> Iterator[Alarm | None]:
    yield rm.scheduling_state_tracker.alarm if rm.scheduling_state_tracker is not None else None
