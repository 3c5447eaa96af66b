"""What must hold of resource managers: one that is awaited has an alarm, and no other has."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.state.step_context import ResourceManager


def contact(rm: ResourceManager) -> Iterator[str]:
    """An RM that is not connected has an alarm that stops it."""
    waits = rm.state in (ResourceManagerState.INIT, ResourceManagerState.PAUSED)
    if (rm.alarm is not None and rm.alarm.live) != waits:
        yield f"resource manager {rm.rm_id} in state {rm.state} has {'no' if waits else 'an'} alarm"


def alarms(rm: ResourceManager) -> Iterator[Alarm | None]:
    yield rm.alarm
