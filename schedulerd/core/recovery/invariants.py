"""What must hold of items that came before what they refer to: each ends by an alarm."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.alarms import Alarm
from schedulerd.core.step_context import ResourceManager


def backlogs(rm: ResourceManager) -> Iterator[str]:
    """Every backlog has an alarm that will ring."""
    for (name, application_id), backlog in rm.early.backlogs.items():
        if backlog.alarm is None or not backlog.alarm.live:
            yield f"the backlog of application {application_id} in partition {name} has no alarm"


def alarms(rm: ResourceManager) -> Iterator[Alarm | None]:
    yield from [held.alarm for held in rm.early]
    yield from [backlog.alarm for backlog in rm.early.backlogs.values()]
