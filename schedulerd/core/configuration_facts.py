"""What can be said about queue files that come while something runs.

These are part of `Fact` too, and have a module of their own because no count of asks, allocations or resources depends
on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedulerd.core.specs import NO_CONFIGURATION, ConfigurationText


class ImpactKind(StrEnum):
    """What kind of difference a new queue file makes to what is running."""

    PARTITION_ADDED = "partition_added"
    PARTITION_REMOVED = "partition_removed"
    RULES_CHANGED = "rules_changed"
    NODE_ORDER_CHANGED = "node_order_changed"
    QUEUE_ADDED = "queue_added"
    QUEUE_KEPT = "queue_kept"
    """It was created by a placement rule, and the file names it now."""
    QUEUE_DRAINS = "queue_drains"
    QUEUE_RETURNS = "queue_returns"
    QUEUE_TURNS = "queue_turns"
    """A leaf becomes a parent, or a parent a leaf."""
    OVER_MAX = "over_max"
    OVER_MAX_APPLICATIONS = "over_max_applications"
    OVER_LIMIT = "over_limit"
    GANG_TOO_LARGE = "gang_too_large"
    """A gang that waits could never start under the new max."""


@dataclass(frozen=True, slots=True)
class Impact:
    """One difference that a new queue file makes to what is running."""

    kind: ImpactKind
    partition: str
    queue: str
    """'' for the partition as a whole."""
    harms: bool
    """True if something that runs or waits now is worse off: it ends, or gets nothing more for a while."""
    message: str
    """The whole of it as a sentence, with queue, names and numbers."""


@dataclass(slots=True)
class ConfigurationAccepted:
    """A new queue file is about to be applied, and makes a difference to what is running at this moment."""

    rm_id: str
    impact: tuple[Impact, ...]


@dataclass(slots=True)
class ConfigurationUpdated:
    """A new queue file holds from now on; what it ended (a removed partition) was said by the facts before."""

    rm_id: str
    changed: bool = True
    """False if it says what held before: nothing but the text itself was replaced."""
    configuration: ConfigurationText = NO_CONFIGURATION
    replaced: ConfigurationText = NO_CONFIGURATION


@dataclass(slots=True)
class ConfigurationRejected:
    """A new queue file does not hold; nothing changed."""

    rm_id: str
    reasons: tuple[str, ...]
