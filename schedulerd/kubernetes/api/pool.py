"""Sends writes: the urgent ones first, so many at a time, so many in a second, and again when they fail.

A write that waits to be tried again holds no slot. Events are the first to go: above `events_max` the oldest that waits
is dropped, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as random_module
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial

from schedulerd.kubernetes.api.backoff import Backoff, BackoffSettings, Random
from schedulerd.kubernetes.api.errors import WriteForbidden
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.transport import JSON, Answer, Gate, Request, Transport, ungated
from schedulerd.kubernetes.api.writes.base import Outcome, Result, Retry, Urgency, Write

LOG = logging.getLogger(__name__)

BUGS_MAX = 3
"""Attempts at one write that may end with an exception that nobody expects: then it is given up."""
TRACEBACK_EVERY_S = 10.0
"""Between two such exceptions that are logged; all are counted."""
PACE_S = 0.025
"""The least wait for tokens. Writes leave together then: a turn of the loop, and an answer that comes alone, for each
write made a pod three times as expensive."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    in_flight_max: int = 64
    rate_per_s: float = 2_000.0
    burst: int = 2_000
    events_max: int = 5_000
    """Events that wait."""
    writes_max: int = 200_000
    """All that wait; what is above is not taken (`Result.DROPPED`)."""
    request_s: float = 10.0
    """For one request."""
    backoff: BackoffSettings = field(default_factory=lambda: BackoffSettings(0.1, 2.0, 10.0, 1.0))


class _Entry:
    """A submitted write."""

    __slots__ = (
        "backoff",
        "bugs",
        "deadline_s",
        "done",
        "has_left",
        "is_withdrawn",
        "key",
        "submitted_s",
        "tries",
        "write",
    )

    def __init__(self, write: Write, done: asyncio.Future[Outcome], now_s: float) -> None:
        self.write = write
        self.key = write.key
        self.done = done
        self.submitted_s = now_s
        self.deadline_s = now_s + write.seconds_max
        self.tries = 0
        self.backoff: Backoff | None = None
        self.bugs = 0
        """Tries that ended with an exception that nobody expects."""
        self.has_left = False
        self.is_withdrawn = False
        """Not to be tried again."""


class PoolCaller:
    """How a write reaches the server. With a gate, it has to be open when the write leaves."""

    def __init__(self, transport: Transport, gate: Gate | None, request_s: float) -> None:
        self._transport = transport
        self._gate = gate
        self._request_s = request_s

    async def send(
        self,
        method: str,
        resource: Resource,
        path: str,
        body: bytes,
        *,
        query: Sequence[tuple[str, str]] = (),
        content_type: str = JSON,
    ) -> Answer:
        request = Request(method, resource, path, query, body, content_type, seconds_max=self._request_s)
        return await self._transport.request(request, self._gate)

    async def get(self, resource: Resource, path: str) -> Answer:
        return await self._transport.request(Request("GET", resource, path, seconds_max=self._request_s))

    def found_out(self, write: Write, what: str) -> None:
        self._transport.metrics.lost_answers[write.kind, what] += 1


class TokenBucket:
    """`rate` tokens come in a second, and at most `burst` are kept. Times are those of any monotonic clock."""

    def __init__(self, rate: float, burst: int, now_s: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at_s = now_s

    def take(self, now_s: float) -> float:
        """Takes a token and gives 0, or gives the seconds until there will be one."""
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._rate)
        self._at_s = now_s
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate


class WritePool:
    """Used on one event loop; nothing runs between submissions, answers and due retries."""

    def __init__(
        self,
        transport: Transport,
        settings: PoolSettings | None = None,
        *,
        may_write: Gate = ungated,
        random: Random = random_module.random,
    ) -> None:
        """`may_write` is asked whenever a write leaves: for how many seconds from then on it may take effect."""
        self._settings = settings or PoolSettings()
        self._metrics = transport.metrics
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._bucket = TokenBucket(self._settings.rate_per_s, self._settings.burst, self._loop.time())
        # No token is lost meanwhile, also if the loop is late.
        self._pace_s = min(PACE_S, 0.5 * self._settings.burst / self._settings.rate_per_s)
        self._queues: dict[Urgency, deque[_Entry]] = {urgency: deque() for urgency in Urgency}
        self._by_urgency = tuple(self._queues.values())
        self._events = self._queues[Urgency.EVENT]
        self._keyed: dict[Hashable, _Entry] = {}
        """By key the entry that waits; one in flight is in `_behind`."""
        self._behind: dict[Hashable, _Entry | None] = {}
        """By key of an entry in flight the one that leaves after it."""
        self._flying: dict[Hashable, _Entry] = {}
        """By key of an entry in flight the entry itself."""
        self._caller = PoolCaller(transport, may_write, self._settings.request_s)
        self._in_flight = 0
        self._delayed: set[_Entry] = set()
        self._tasks: dict[_Entry, asyncio.Task[None]] = {}
        """Of those in flight."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._traceback_due_s = 0.0
        self._unfinished = 0
        self._is_idle: asyncio.Event | None = None
        self._metrics.queued = lambda kind: len(self._queues[Urgency[kind.upper()]])
        self._metrics.in_flight = lambda: self._in_flight

    @property
    def waiting(self) -> int:
        """Writes that have no outcome and are not in flight."""
        behind = sum(entry is not None for entry in self._behind.values())
        return sum(map(len, self._queues.values())) + len(self._delayed) + behind

    def submit(self, write: Write) -> asyncio.Future[Outcome]:
        """Its outcome comes as the future's result, never as an exception."""
        entry = _Entry(write, self._loop.create_future(), self._loop.time())
        done = entry.done
        self._unfinished += 1
        if self._is_closed:
            self._finish(entry, Outcome(Result.CLOSED))
            return done
        if entry.key is not None and self._supersede(entry.key, entry):
            return done
        if self._is_full(write):
            self._finish(entry, Outcome(Result.DROPPED, "too many writes wait"))
            return done
        self._enqueue(entry)
        self._pump()
        return done

    def withdraw(self, key: Hashable) -> asyncio.Future[Outcome] | None:
        """Gives up what waits under the key. A write that is in flight is not tried again: the future is its end."""
        waiting = self._keyed.pop(key, None)
        if waiting is not None:
            if waiting in self._delayed:
                self._delayed.discard(waiting)
            else:
                self._queues[waiting.write.urgency].remove(waiting)
            self._finish(waiting, Outcome(Result.SUPERSEDED))
            return None
        if key not in self._behind:
            return None
        behind, self._behind[key] = self._behind[key], None
        if behind is not None:
            self._finish(behind, Outcome(Result.SUPERSEDED))
        entry = self._flying[key]
        entry.is_withdrawn = True
        return entry.done

    async def close(self, drain_s: float = 0.0) -> None:
        """Waits up to `drain_s` for what was submitted, and gives up the rest."""
        if drain_s > 0 and self._unfinished:
            self._is_idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await self._is_idle.wait()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        waiting = [entry for queue in self._queues.values() for entry in queue]
        waiting += [*self._delayed, *(entry for entry in self._behind.values() if entry is not None)]
        for queue in self._queues.values():
            queue.clear()
        self._delayed.clear()
        for entry in waiting:
            self._finish(entry, self._closed(entry))
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _supersede(self, key: Hashable, entry: _Entry) -> bool:
        """Puts the entry in the place of an older one, or behind it if that is in flight; False without any."""
        older = self._keyed.get(key)
        if older is not None:  # it keeps its place, or the wait that the server asked for
            older.done, entry.done = entry.done, older.done
            older.write, entry.write = entry.write, older.write
            older.deadline_s, older.tries = entry.deadline_s, 0
            self._finish(entry, Outcome(Result.SUPERSEDED))
            return True
        if key in self._behind:
            behind = self._behind[key]
            self._behind[key] = entry
            if behind is not None:
                self._finish(behind, Outcome(Result.SUPERSEDED))
            return True
        return False

    def _is_full(self, write: Write) -> bool:
        events = self._events
        if len(events) >= self._settings.events_max and write.urgency is Urgency.EVENT:
            self._drop(events.popleft())
        # The first is more than those that wait, and costs nothing.
        if self._unfinished <= self._settings.writes_max or self.waiting < self._settings.writes_max:
            return False
        if events and write.urgency is not Urgency.EVENT:
            self._drop(events.popleft())
            return False
        self._metrics.events_dropped += write.urgency is Urgency.EVENT
        return True

    def _drop(self, entry: _Entry) -> None:
        self._metrics.events_dropped += 1
        self._keyed.pop(entry.key, None)
        self._finish(entry, Outcome(Result.DROPPED, "too many events wait"))

    def _enqueue(self, entry: _Entry, *, first: bool = False) -> None:
        queue = self._queues[entry.write.urgency]
        if first:
            queue.appendleft(entry)
        else:
            queue.append(entry)
        if entry.key is not None:
            self._keyed[entry.key] = entry

    def _pump(self) -> None:
        """Lets leave what may."""
        if self._timer is not None:  # everything leaves when it rings
            return
        while self._in_flight < self._settings.in_flight_max:
            for queue in self._by_urgency:
                if queue:
                    break
            else:
                return
            wait_s = self._bucket.take(self._loop.time())
            if wait_s > 0.0:
                self._timer = self._loop.call_later(max(wait_s, self._pace_s), self._token_due)
                return
            self._leave(queue.popleft())

    def _token_due(self) -> None:
        self._timer = None
        self._pump()

    def _leave(self, entry: _Entry) -> None:
        write, key = entry.write, entry.key
        if key is not None:
            self._keyed.pop(key, None)
            self._behind[key] = None
            self._flying[key] = entry
        if not entry.has_left:
            entry.has_left = True
            self._metrics.write_wait_seconds[write.kind].observe(self._loop.time() - entry.submitted_s)
        self._in_flight += 1
        entry.tries += 1
        self._tasks[entry] = self._loop.create_task(self._attempt(entry))

    async def _attempt(self, entry: _Entry) -> None:
        write = entry.write
        result: Outcome | Retry = Retry("cancelled", "the pool was closed")
        try:
            result = await write.attempt_once(self._caller)
        except WriteForbidden as error:
            result = Outcome(Result.UNKNOWN if write.in_doubt else Result.NOT_LEADER, str(error))
        except asyncio.CancelledError:
            write.in_doubt = True
            raise
        except Exception as error:  # noqa: BLE001 - a bug in one write must neither end the others nor stay unseen
            result = self._failed(entry, error)
        finally:
            self._in_flight -= 1
            del self._tasks[entry]
            self._settle(entry, result)

    def _failed(self, entry: _Entry, error: Exception) -> Outcome | Retry:
        """Nobody expects this exception, so nobody knows whether the write was performed."""
        write, now_s = entry.write, self._loop.time()
        write.in_doubt = True
        entry.bugs += 1
        self._metrics.write_bugs[write.kind] += 1
        if now_s >= self._traceback_due_s:
            self._traceback_due_s = now_s + TRACEBACK_EVERY_S
            LOG.error("a bug of schedulerd in a write (%s), try %d", write.kind, entry.tries, exc_info=error)
        retry = Retry("bug", f"{type(error).__name__}: {error}")
        return retry if entry.bugs < BUGS_MAX else write.given_up(retry)

    def _settle(self, entry: _Entry, result: Outcome | Retry) -> None:
        behind = None
        if entry.key is not None:
            behind = self._behind.pop(entry.key, None)
            self._flying.pop(entry.key, None)
        if self._is_closed:
            self._finish(entry, self._closed(entry) if isinstance(result, Retry) else result)
            return
        if isinstance(result, Outcome):
            self._finish(entry, result)
        elif behind is not None or entry.is_withdrawn:
            self._finish(entry, Outcome(Result.SUPERSEDED, result.message, result.code))
        else:
            self._retry(entry, result)
        if behind is not None:
            self._enqueue(behind, first=True)
        self._pump()

    def _retry(self, entry: _Entry, retry: Retry) -> None:
        write, now_s = entry.write, self._loop.time()
        self._metrics.write_retries[write.kind, retry.cause] += 1
        if entry.backoff is None:
            entry.backoff = Backoff(self._settings.backoff, self._random)
        wait_s = entry.backoff.failed(now_s) + (retry.after_s or 0.0)
        if entry.tries >= write.tries_max or now_s + wait_s > entry.deadline_s:
            outcome = write.given_up(retry)
            if outcome.result is Result.UNKNOWN:
                self._metrics.lost_answers[write.kind, "unknown"] += 1
            self._finish(entry, outcome)
            return
        self._delayed.add(entry)
        if entry.key is not None:
            self._keyed[entry.key] = entry
        self._loop.call_later(wait_s, partial(self._due, entry))

    def _due(self, entry: _Entry) -> None:
        if entry not in self._delayed:
            return
        self._delayed.discard(entry)
        self._enqueue(entry, first=True)
        self._pump()

    def _closed(self, entry: _Entry) -> Outcome:
        return Outcome(Result.UNKNOWN if entry.write.in_doubt else Result.CLOSED)

    def _finish(self, entry: _Entry, outcome: Outcome) -> None:
        self._metrics.writes[entry.write.kind, outcome.result] += 1
        self._unfinished -= 1
        if self._unfinished == 0 and self._is_idle is not None:
            self._is_idle.set()
        if not entry.done.done():
            entry.done.set_result(outcome)
