"""The settings of how long the scheduler waits."""

from __future__ import annotations

from pydantic import BaseModel, Field

from schedulerd.config.setting_types import Days, Seconds
from schedulerd.core.language.specs import DAY_NS, SECOND_NS, Timeouts


class TimeSettings(BaseModel):
    """A part of `Settings`."""

    reconnect_timeout_s: Seconds = Field(
        default=300, description="Seconds after which the state of a disconnected resource manager is dropped."
    )
    resync_after_lost_connection: bool = Field(
        default=False,
        description="Require a full report from a resource manager whose connection broke before all responses "
        "were read. For clients that keep one connection and do not resume their streams, such as "
        "Kubernetes shims.",
    )
    completing_timeout_s: Seconds = Field(
        default=30,
        description="Seconds that an application without asks and allocations stays in the state Completing "
        "before it is Completed.",
    )
    starting_timeout_s: Seconds = Field(
        default=300,
        description="Seconds that an application with one allocation stays in the state Starting before it is Running.",
    )
    placeholder_timeout_s: Seconds = Field(
        default=900,
        description="Gang timeout in seconds, counted from the first allocated placeholder, for applications that "
        "do not set their own.",
    )
    gang_deadlock_timeout_s: float = Field(
        default=60,
        ge=0,
        le=1_000_000_000,
        allow_inf_nan=False,
        description="Seconds without a node for the rest of an incomplete gang, after which later incomplete "
        "gangs release their placeholders for it; at most half of the gang's own timeout. 0: never.",
    )
    reservation_delay_s: float = Field(
        default=2,
        ge=0,
        le=1_000_000_000,
        allow_inf_nan=False,
        description="Age in seconds from which on room of a node is reserved for an ask that fits on no node. 0: "
        "at once.",
    )
    reservation_s: Seconds = Field(
        default=300,
        description="Maximum seconds for which room is reserved for an ask. For the same time after that, none is "
        "reserved for it.",
    )
    preemption_attempt_s: Seconds = Field(
        default=15,
        description="Minimum seconds between two preemption attempts for an ask.",
    )
    queue_cleanup_timeout_s: Seconds = Field(
        default=10,
        description="Seconds after which an empty queue is removed, if a placement rule created it or the queue "
        "file no longer has it.",
    )
    retention_days: Days = Field(
        default=3, description="Days for which a completed, failed or rejected application is remembered."
    )
    early_message_timeout_s: float = Field(
        default=2,
        ge=0,
        le=3_600,
        description="Seconds that an item waits for the application it refers to, which may arrive later "
        "on another stream. 0: it is rejected at once.",
    )
    predicates_timeout_s: Seconds = Field(
        default=5,
        description="Seconds to wait for a resource manager's answer to a predicate call. No answer counts as a "
        "refusal.",
    )
    predicate_retry_delay_s: Seconds = Field(
        default=30,
        description="Seconds until an ask is tried again after its resource manager has refused it on every node "
        "with room. A change of a node ends the delay early.",
    )

    def timeouts(self) -> Timeouts:
        """The durations that the core waits for."""
        return Timeouts(
            completing_ns=_nanoseconds(self.completing_timeout_s, SECOND_NS),
            starting_ns=_nanoseconds(self.starting_timeout_s, SECOND_NS),
            placeholder_ns=_nanoseconds(self.placeholder_timeout_s, SECOND_NS),
            gang_deadlock_timeout_ns=_nanoseconds(self.gang_deadlock_timeout_s, SECOND_NS),
            retention_ns=_nanoseconds(self.retention_days, DAY_NS),
            reservation_delay_ns=_nanoseconds(self.reservation_delay_s, SECOND_NS),
            reservation_ns=_nanoseconds(self.reservation_s, SECOND_NS),
            preemption_attempt_ns=_nanoseconds(self.preemption_attempt_s, SECOND_NS),
            reconnect_ns=_nanoseconds(self.reconnect_timeout_s, SECOND_NS),
            cleanup_ns=_nanoseconds(self.queue_cleanup_timeout_s, SECOND_NS),
            early_message_ns=_nanoseconds(self.early_message_timeout_s, SECOND_NS),
            predicates_ns=_nanoseconds(self.predicates_timeout_s, SECOND_NS),
            predicate_retry_delay_ns=_nanoseconds(self.predicate_retry_delay_s, SECOND_NS),
        )


def _nanoseconds(amount: float, unit_ns: int) -> int:
    return round(amount * unit_ns)
