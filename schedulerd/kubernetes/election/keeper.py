"""Keeps the lease on an event loop: watches it, takes it when it is free, renews it, and releases it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from schedulerd.kubernetes.api.errors import ApiError
from schedulerd.kubernetes.api.pool import PoolCaller
from schedulerd.kubernetes.api.reflector import Reflector, WatchSettings
from schedulerd.kubernetes.api.resources import LEASES, Resource
from schedulerd.kubernetes.api.transport import Transport
from schedulerd.kubernetes.api.watch_events import Deleted, Upserted, WatchEvent
from schedulerd.kubernetes.api.writes import CreateLease, Outcome, Result, Retry, UpdateLease, Write
from schedulerd.kubernetes.api.writes.leases import Lease, LeaseMetadata, lease_of
from schedulerd.kubernetes.election.elector import Attempt, Elector, Standing

LOG = logging.getLogger(__name__)

RESULTS = ("done", "failed", "conflict")
"""Of an attempt to take or renew the lease."""
WAIT_SECONDS_MAX = 5.0
"""Between two looks at the clock: an event loop's own may stand still while the machine sleeps."""


def boot_time() -> float:
    """Seconds since the machine started, with the time in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseLost(Exception):
    """This process led, and does no longer; the message says why."""


@dataclass(frozen=True, slots=True)
class LeaseName:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaseKeeper:
    """`run` it as a task; it ends when the elector's standing is OVER. Everything else is for the same loop."""

    def __init__(
        self,
        transport: Transport,
        name: LeaseName,
        elector: Elector,
        *,
        clock: Callable[[], float] = boot_time,
        wall: Callable[[], float] = time.time,
        stuck: Callable[[float], bool] = lambda now_s: False,
        changed: Callable[[], None] = lambda: None,
        watch: WatchSettings | None = None,
    ) -> None:
        """`stuck` says whether this process has come to a halt elsewhere: then it neither takes nor renews the lease.
        `changed` is called when the standing or the leader may have."""
        self.metadata: LeaseMetadata | None = None
        """Of the lease object, as it was seen last."""
        self.renewals: Counter[str] = Counter()
        """Attempts to take or renew the lease by result, one of `RESULTS`."""
        self._elector = elector
        self._name = name
        self._clock = clock
        self._wall = wall
        self._stuck = stuck
        self._changed = changed
        self._wake = asyncio.Event()
        self._is_failing = self._is_releasing = False
        # Two attempts fit into the time for one renewal.
        self._attempt_s = elector.times.renew_deadline_s / 2
        self._caller = PoolCaller(transport, None, self._attempt_s)
        self._reflector = Reflector(
            transport,
            LEASES,
            Lease,
            self._told,
            namespace=name.namespace,
            field_selector=f"metadata.name={name.name}",
            settings=watch,
        )

    def may_lead(self, is_able: bool) -> None:
        """Whether a standby takes the lease when it can."""
        self._elector.may_lead(is_able)
        self._wake.set()

    def release(self) -> None:
        """Ends `run`, after the lease was given back if it is held."""
        self._is_releasing = True
        self._wake.set()

    async def run(self) -> None:
        watching = asyncio.create_task(self._reflector.run())
        following = asyncio.create_task(self._follow())
        try:
            await asyncio.wait([watching, following], return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            await following
        finally:
            for task in (watching, following):
                task.cancel()
            await asyncio.gather(watching, following, return_exceptions=True)

    async def _follow(self) -> None:
        elector = self._elector
        while not self._is_releasing:
            self._wake.clear()
            attempt = None if self._is_stuck() else elector.attempt(self._clock(), self._wall())
            if elector.standing is Standing.OVER:
                self._changed()
                return
            if attempt is not None:
                await self._try(attempt)
                self._changed()
            else:
                await self._pause()
        attempt = elector.release(self._clock(), self._wall())
        self._changed()
        if attempt is not None:
            await self._give_back(attempt)

    async def _pause(self) -> None:
        """Until something is due, or happens."""
        due_s = self._elector.due_s
        wait_s = WAIT_SECONDS_MAX if due_s is None else min(due_s - self._clock(), WAIT_SECONDS_MAX)
        if self._is_stuck():
            wait_s = min(self._elector.times.retry_s, WAIT_SECONDS_MAX)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(wait_s, 0.001)):
                await self._wake.wait()

    def _is_stuck(self) -> bool:
        return self._stuck(self._clock())

    async def _try(self, attempt: Attempt) -> None:
        outcome = await self._send(attempt)
        now_s, elector = self._clock(), self._elector
        was_standby = elector.standing is Standing.STANDBY
        is_gone = isinstance(outcome, Outcome) and outcome.result is Result.GONE and bool(attempt.version)
        if isinstance(outcome, Retry) or not (is_gone or outcome.result in (Result.DONE, Result.CONFLICT)):
            self._note(outcome.message or "no answer")
            elector.failed(now_s)
        elif outcome.result is Result.DONE:
            self._note("")
            lease = lease_of(outcome.object)
            self.metadata = lease.metadata
            elector.performed(now_s, lease.spec, lease.metadata.resource_version)
        else:
            self.renewals["conflict"] += 1
            found = lease_of(outcome.object) if outcome.object else None
            if found is None:
                elector.lost_race(now_s, None, "")
            else:
                self.metadata = found.metadata
                elector.lost_race(now_s, found.spec, found.metadata.resource_version)
        if was_standby and elector.standing is Standing.LEADER:
            LOG.info("this process leads: %s holds the lease %s", elector.identity, self._name)

    async def _send(self, attempt: Attempt) -> Outcome | Retry:
        name = self._name
        write: Write = CreateLease(name.namespace, name.name, attempt.record)
        if attempt.version:
            write = UpdateLease(name.namespace, name.name, attempt.record, attempt.version, self._kept(attempt))
        seconds = self._attempt_s
        if self._elector.standing is Standing.LEADER:
            seconds = min(seconds, max(self._elector.seconds_left(self._clock()), 0.001))
        try:
            async with asyncio.timeout(seconds):
                return await write.attempt_once(self._caller)
        except TimeoutError:
            return Retry("unreachable", f"the API server has not answered within {seconds:g} s")
        except ApiError as error:
            return Retry("unusable", str(error))

    def _kept(self, attempt: Attempt) -> LeaseMetadata | None:
        """What the update must not change: known, as whoever has changed it since has made another version."""
        seen = self.metadata
        return seen if seen is not None and seen.resource_version == attempt.version else None

    async def _give_back(self, attempt: Attempt) -> None:
        """Best effort: without it the lease expires."""
        for _ in range(2):
            outcome = await self._send(attempt)
            if isinstance(outcome, Outcome) and outcome.result is Result.DONE:
                LOG.info("the lease %s is released", self._name)
                return
            found = lease_of(outcome.object) if isinstance(outcome, Outcome) and outcome.object else None
            if found is None or found.spec.holder_identity != self._elector.identity:
                break
            self.metadata = found.metadata
            attempt = Attempt(attempt.record, found.metadata.resource_version)
        LOG.warning("the lease %s is not released, and expires: %s", self._name, outcome.message)

    def _note(self, problem: str) -> None:
        """Says so when renewals begin to fail, and when they succeed again."""
        self.renewals["failed" if problem else "done"] += 1
        if bool(problem) != self._is_failing:
            self._is_failing = bool(problem)
            if problem:
                LOG.warning("the lease %s cannot be written: %s", self._name, problem)
            else:
                LOG.info("the lease %s can be written again", self._name)

    async def _told(self, resource: Resource, events: list[WatchEvent]) -> None:
        now_s, elector = self._clock(), self._elector
        before = elector.leader
        for event in events:
            if isinstance(event, Upserted):
                self._saw(now_s, event.object)
            elif isinstance(event, Deleted) or not elector.is_known:  # or all were told, and there is none
                elector.saw(now_s, None, "")
        if elector.leader != before:
            LOG.info("the leader is %s", elector.leader or "nobody")
        self._wake.set()
        self._changed()

    def _saw(self, now_s: float, lease: Lease) -> None:
        if self._elector.standing is Standing.STANDBY:
            self.metadata = lease.metadata
        self._elector.saw(now_s, lease.spec, lease.metadata.resource_version)
