"""What can be said about queues that come, change and go.

These are part of `Fact` too, and have a module of their own because no count of asks, allocations or resources depends
on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class QueueChange(StrEnum):
    """What of a queue is not as it was."""

    ADDED = "added"
    REMOVED = "removed"
    TYPE = "type"
    """A leaf became a parent, or a parent a leaf."""
    MAX = "max"
    GUARANTEED = "guaranteed"
    CONFIGURATION = "configuration"
    """Anything else that a queue file or the tags of a namespace say; the message says what."""


@dataclass(slots=True)
class QueueChanged:
    """A queue came to be, is gone, or has other rules: one fact for each `change`.

    When a resource manager registers anew or is stopped, its queues go with everything else and without this fact.
    """

    rm_id: str
    partition: str
    queue: str
    change: QueueChange
    managed: bool
    """False for a dynamic queue, which the file does not name."""
    is_leaf: bool
    amounts: Mapping[str, int] = field(default_factory=dict)
    """The new max or guaranteed resources; empty for other changes, and where nothing is set any longer."""
    message: str = ""


@dataclass(slots=True)
class TagIgnored:
    """A tag of a namespace, which limits its queue, cannot be read, and the application was accepted without it,
    because it runs already (SEMANTICS I5)."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    tag: str
    """Its name as it was written."""
    reason: str
