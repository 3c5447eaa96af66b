"""An application that was rejected at submission: remembered for a while, to show why it never ran."""

from __future__ import annotations

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import NewApplication
from schedulerd.core.language.lifecycles import ApplicationState


class RejectedApplication:
    """A rejected application. It has no queue, asks or allocations, and its id can be used again."""

    __slots__ = (
        "alarm",
        "application_id",
        "partition_name",
        "queue",
        "reason",
        "rm_id",
        "serial",
        "spec",
        "state",
        "submitted_at_ns",
    )

    def __init__(
        self,
        spec: NewApplication,
        rm_id: str,
        partition_name: str,
        serial: int,
        now_ns: int,
        reason: str,
        queue: str = "",
    ) -> None:
        self.application_id = spec.application_id
        self.spec = spec
        self.rm_id = rm_id
        self.partition_name = partition_name
        self.serial = serial
        """Order of submission in the partition."""
        self.submitted_at_ns = now_ns
        self.reason = reason
        self.queue = queue
        """Path of the queue that would have been its own, in lower case; '' if it was rejected before it had one."""
        self.state = ApplicationState.REJECTED
        """Rejected, and Expired when it is forgotten."""
        self.alarm: Alarm | None = None
        """Rings when it is to be forgotten."""
