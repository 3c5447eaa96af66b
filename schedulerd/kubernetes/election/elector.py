"""Decides who leads: what to write into the lease and when, and for how long this process may act. Pure.

STANDBY ──the lease is free or has expired, and was written──▶ LEADER ──released, lost, not renewed in time──▶ OVER

Two clocks are never compared. A standby counts the lease's duration from when it saw the lease change last, a leader
counts its renew deadline from before it sent the renewal that succeeded. So the leader stops `duration_s` minus
`renew_deadline_s` before anybody else may begin, whatever time the two machines believe it is; that margin is for
clocks of different speed and for writes that are under way. Taking over a lease that somebody has renewed meanwhile
is impossible: each write names the version that it replaces.

Times are seconds of a clock that never runs backwards, and that runs while the machine sleeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from schedulerd.kubernetes.api.writes.leases import LeaseRecord
from schedulerd.kubernetes.objects.meta import micro_time

DURATION_SECONDS_MAX = 3600
"""A lease that claims more is taken for one of so much."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Kubernetes' own components use the same defaults."""

    duration_s: int = 15
    """Without a renewal for so long the lease is free."""
    renew_deadline_s: float = 10.0
    """Without a renewal for so long the leader stops."""
    retry_s: float = 2.0
    """Between two renewals, and between two tries."""


class Standing(Enum):
    STANDBY = "standby"
    LEADER = "leader"
    OVER = "over"
    """It has led, or was told to end, and will not lead again."""


class Attempt(msgspec.Struct, frozen=True):
    """A write of the lease, which is to begin now."""

    record: LeaseRecord
    version: str
    """Resource version of what it replaces; empty: the lease is to be created."""


class Elector:
    """Tell it what happens; after that `due_s` says when `attempt` is to be called."""

    def __init__(self, identity: str, times: LeaseTimes | None = None) -> None:
        """`identity` is of this process alone: not even its next start may have the same."""
        self.identity = identity
        self.times = times or LeaseTimes()
        self.standing = Standing.STANDBY
        self.why_over = ""
        self.is_known = False
        """It is known what the lease is, or that there is none."""
        self._may_lead = False
        self._record: LeaseRecord | None = None
        """As it was seen last, or written by this process."""
        self._version = ""
        self._changed_s = 0.0
        """When it was seen to have changed."""
        self._began_s = 0.0
        """When the last attempt began; it may still be under way."""
        self._retry_at_s = 0.0
        self._renewed_s = 0.0
        """Of a leader: when the last attempt began that has succeeded."""

    @property
    def leader(self) -> str:
        """Identity of the holder, as far as is known; empty if there is none."""
        return (self._record.holder_identity or "") if self._record is not None and self._version else ""

    @property
    def transitions(self) -> int:
        """How often the lease has changed its holder."""
        return (self._record.lease_transitions or 0) if self._record is not None else 0

    def seconds_left(self, now_s: float) -> float:
        """For how long from now on a write may take effect; 0 or less: it must not leave."""
        if self.standing is not Standing.LEADER:
            return 0.0
        return self._renewed_s + self.times.renew_deadline_s - now_s

    @property
    def due_s(self) -> float | None:
        """When `attempt` is to be called; None: not before something has happened."""
        if self.standing is Standing.LEADER:
            return min(self._retry_at_s, self._renewed_s + self.times.renew_deadline_s)
        if self.standing is Standing.OVER or not self._may_lead or not self.is_known:
            return None
        return max(self._free_s(), self._retry_at_s)

    def may_lead(self, is_able: bool) -> None:
        """Whether a standby takes the lease when it can."""
        self._may_lead = is_able

    def attempt(self, now_s: float, wall_s: float) -> Attempt | None:
        """What is to be written now; None if nothing is. `wall_s`, seconds since the epoch, is for people alone."""
        self._check_deadline(now_s)
        due_s = self.due_s
        if due_s is None or now_s < due_s:
            return None
        self._began_s, self._retry_at_s = now_s, now_s + self.times.retry_s
        return Attempt(self._next_record(micro_time(wall_s)), self._version)

    def performed(self, now_s: float, record: LeaseRecord, version: str) -> None:
        """The attempt has succeeded: the lease is this, in this version."""
        self._check_deadline(now_s)
        self._record, self._version = record, version
        if self.standing is Standing.OVER or now_s >= self._began_s + self.times.renew_deadline_s:
            return
        self._renewed_s = self._began_s
        self.standing = Standing.LEADER

    def failed(self, now_s: float) -> None:
        """The attempt had no effect, or nobody knows whether it had: the next one finds out."""
        self._check_deadline(now_s)

    def saw(self, now_s: float, record: LeaseRecord | None, version: str) -> None:
        """A standby's watch tells what the lease is. A deleted one counts as held until it would have expired.

        A leader does not listen: what a watch tells may be older than what it has written itself.
        """
        if self.standing is Standing.STANDBY:
            self._see(now_s, record, version)

    def lost_race(self, now_s: float, record: LeaseRecord | None, version: str) -> None:
        """The attempt was refused, as the lease is not what it was to replace, but this; None: it was deleted."""
        self._check_deadline(now_s)
        if self.standing is Standing.LEADER:
            if record is None or record.holder_identity == self.identity:
                # Deleted by somebody, or touched, or an attempt whose answer was lost: it is written again at once.
                self._version, self._retry_at_s = version, now_s
                return
            self._end(f"{record.holder_identity or 'somebody who released it'} has taken it")
        self._see(now_s, record, version)

    def release(self, now_s: float, wall_s: float) -> Attempt | None:
        """It leads no longer. What is to be written so that another one may take over at once; None: nothing."""
        self._check_deadline(now_s)
        led, self.standing = self.standing is Standing.LEADER, Standing.OVER
        self.why_over = self.why_over or "it was released"
        if not led or self._record is None:
            return None
        now = micro_time(wall_s)
        record = LeaseRecord("", 1, now, now, self._record.lease_transitions)
        return Attempt(record, self._version)

    def _see(self, now_s: float, record: LeaseRecord | None, version: str) -> None:
        self.is_known = True
        if record is not None and record != self._record:
            self._record, self._changed_s = record, now_s
        self._version = version

    def _free_s(self) -> float:
        """When a standby may take it."""
        record = self._record
        if record is None or not record.holder_identity or record.holder_identity == self.identity:
            return 0.0
        duration_s = record.lease_duration_seconds or self.times.duration_s
        return self._changed_s + min(duration_s, DURATION_SECONDS_MAX)

    def _next_record(self, now: str) -> LeaseRecord:
        record, duration_s = self._record, self.times.duration_s
        if record is None:
            return LeaseRecord(self.identity, duration_s, now, now, 0)
        if record.holder_identity == self.identity:
            return LeaseRecord(self.identity, duration_s, record.acquire_time or now, now, record.lease_transitions)
        return LeaseRecord(self.identity, duration_s, now, now, (record.lease_transitions or 0) + 1)

    def _check_deadline(self, now_s: float) -> None:
        if self.standing is Standing.LEADER and self.seconds_left(now_s) <= 0.0:
            self._end(f"no renewal for {self.times.renew_deadline_s:g} s")

    def _end(self, why: str) -> None:
        self.standing, self.why_over = Standing.OVER, why
