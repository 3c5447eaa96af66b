"""The command that stops and starts a queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SetQueueStopped:
    """An operator stops a queue, or starts it again. A stopped queue, and every queue below it, takes no new
    applications; those that are in it go on until they complete.

    It holds over new queue files, until the queue is started, the queue is removed, or the RM registers again.
    """

    rm_id: str
    queue: str
    """Full path; case is ignored."""
    stopped: bool
    partition: str = ""
    by: str = ""
    """Name of the operator, for the event; '' if it is not known."""
