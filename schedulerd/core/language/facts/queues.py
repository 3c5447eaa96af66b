"""Facts about queues that are added, changed or removed.

These facts are part of `Fact`. They have a module of their own because no ledger of asks, allocations or resources
depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class QueueChange(StrEnum):
    """What changed in a queue."""

    ADDED = "added"
    REMOVED = "removed"
    TYPE = "type"
    """A leaf became a parent, or a parent a leaf."""
    MAX = "max"
    GUARANTEED = "guaranteed"
    CONFIGURATION = "configuration"
    """Any other change by a queue file, namespace tags or an operator; the message says what changed."""


@dataclass(slots=True)
class QueueChanged:
    """A queue was added or removed, or its rules changed: one fact for each `change`.

    Not sent for the queues of an RM that registers again or is stopped: its whole state is dropped.
    """

    rm_id: str
    partition: str
    queue: str
    change: QueueChange
    managed: bool
    """False for a dynamic queue."""
    is_leaf: bool
    amounts: Mapping[str, int] = field(default_factory=dict)
    """The new max or guarantee; empty for other changes, and if the new value is not set."""
    message: str = ""


@dataclass(slots=True)
class QueueNameUnused:
    """An application was accepted into another queue than the one that it names."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    reason: str


@dataclass(slots=True)
class TagIgnored:
    """A namespace tag could not be read. The application was accepted without it, because it runs already (SEMANTICS
    I5)."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    tag: str
    """Name of the tag as written."""
    reason: str
