"""An application that was rejected at submission: remembered for a while, so that one can see why it never ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.core.alarms import Alarm
from schedulerd.core.commands import NewApplication
from schedulerd.core.lifecycles import ApplicationState

if TYPE_CHECKING:
    from schedulerd.core.model.partition import Partition


class RejectedApplication:
    """It has no queue, no asks and no allocations, and its id is free for another application."""

    __slots__ = ("alarm", "application_id", "partition", "reason", "serial", "spec", "state", "submitted_at_ns")

    def __init__(self, spec: NewApplication, partition: Partition, serial: int, now_ns: int, reason: str) -> None:
        self.application_id = spec.application_id
        self.spec = spec
        self.partition = partition
        self.serial = serial
        """Order of submission in the partition."""
        self.submitted_at_ns = now_ns
        self.reason = reason
        self.state = ApplicationState.REJECTED
        """Expired at last."""
        self.alarm: Alarm | None = None
        """When it is forgotten."""
