"""Facts about new queue files.

These facts are part of `Fact`. They have a module of their own because no ledger of asks, allocations or resources
depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedulerd.core.language.specs import NO_CONFIGURATION, ConfigurationText


class ImpactKind(StrEnum):
    """How a new queue file affects the running state."""

    PARTITION_ADDED = "partition_added"
    PARTITION_REMOVED = "partition_removed"
    RULES_CHANGED = "rules_changed"
    NODE_ORDER_CHANGED = "node_order_changed"
    QUEUE_ADDED = "queue_added"
    QUEUE_KEPT = "queue_kept"
    """A placement rule created the queue, and the file names it now."""
    QUEUE_DRAINS = "queue_drains"
    QUEUE_RETURNS = "queue_returns"
    QUEUE_TURNS = "queue_turns"
    """A leaf becomes a parent, or a parent a leaf."""
    OVER_MAX = "over_max"
    OVER_MAX_APPLICATIONS = "over_max_applications"
    OVER_LIMIT = "over_limit"
    GANG_TOO_LARGE = "gang_too_large"
    """A waiting gang could never start under the new max."""
    NO_PLACE = "no_place"
    """Applications could not be submitted again as they were: no placement rule would take them."""


@dataclass(frozen=True, slots=True)
class Impact:
    """One effect of a new queue file on the running state."""

    kind: ImpactKind
    partition: str
    queue: str
    """'' for the partition as a whole."""
    harms: bool
    """True if running or waiting work is worse off: it ends, or gets nothing more for a while."""
    message: str
    """A complete sentence, with queue, names and numbers."""


@dataclass(slots=True)
class ConfigurationAccepted:
    """A new queue file that affects the running state is about to be applied."""

    rm_id: str
    impact: tuple[Impact, ...]


@dataclass(slots=True)
class ConfigurationUpdated:
    """A new queue file is in effect. Facts before this one told what it ended (a removed partition)."""

    rm_id: str
    changed: bool = True
    """False if the content is the same, and only the text was replaced."""
    configuration: ConfigurationText = NO_CONFIGURATION
    replaced: ConfigurationText = NO_CONFIGURATION


@dataclass(slots=True)
class ConfigurationRejected:
    """A new queue file was refused; nothing changed."""

    rm_id: str
    reasons: tuple[str, ...]
