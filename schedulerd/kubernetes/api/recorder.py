"""Events about objects, as people see them in `kubectl describe`.

An event that is recorded again (the same object, type, reason, action and note) becomes a series: the one Event in
the API server gets a count and the time of the last repetition, which also keeps it from being forgotten after an hour.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from schedulerd.kubernetes.api.pool import WritePool
from schedulerd.kubernetes.api.writes.base import Outcome, Result
from schedulerd.kubernetes.api.writes.event_records import Event, EventName, Reference, WriteEvent
from schedulerd.kubernetes.objects.meta import micro_time

NOTE_BYTES_MAX = 1024
NAME_CHARACTERS_MAX = 253
CLUSTER_NAMESPACE = "default"
"""Of events about objects without a namespace."""
SERIES_MAX = 8_192
"""How many events are remembered for their repetition."""
SERIES_SECONDS = 3_600.0
"""After so long without a repetition an event is a new one: the API server has forgotten the old one."""


@dataclass(slots=True)
class _Series:
    event: Event
    count: int
    last_s: float
    was_sent: bool = False


class Recorder:
    """Submits events to a pool; `controller` is the name of the scheduler, `instance` that of this process."""

    def __init__(
        self, pool: WritePool, controller: str, instance: str, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._pool = pool
        self._controller = controller
        self._instance = instance
        self._wall_ns = wall_ns
        self._series: OrderedDict[tuple[Reference, str, str, str, str], _Series] = OrderedDict()
        self._last_name_ns = 0

    def record(
        self,
        regarding: Reference,
        reason: str,
        action: str,
        note: str,
        *,
        is_warning: bool = False,
        happens_once: bool = False,
    ) -> asyncio.Future[Outcome]:
        """Its outcome need not be awaited: what became of an event changes nothing. One that `happens_once` is never
        part of a series."""
        now_ns = self._wall_ns()
        now_s = now_ns / 1e9
        type_ = "Warning" if is_warning else "Normal"
        if happens_once:
            event = self._event(regarding, type_, reason, action, note, now_ns)
            return self._pool.submit(WriteEvent(None, event, 1, "", was_sent=False))
        key = (regarding, type_, reason, action, note)
        series = self._series.get(key)
        if series is None or now_s - series.last_s > SERIES_SECONDS:
            series = _Series(self._event(regarding, type_, reason, action, note, now_ns), 0, now_s)
            self._series[key] = series
        series.count += 1
        series.last_s = now_s
        self._series.move_to_end(key)
        if len(self._series) > SERIES_MAX:
            self._series.popitem(last=False)
        write = WriteEvent(key, series.event, series.count, micro_time(now_s), was_sent=series.was_sent)
        done = self._pool.submit(write)
        done.add_done_callback(lambda future: self._told(series, future))
        return done

    def _told(self, series: _Series, done: asyncio.Future[Outcome]) -> None:
        if not done.cancelled() and done.result().result is Result.DONE:
            series.was_sent = True

    def _event(self, regarding: Reference, type_: str, reason: str, action: str, note: str, now_ns: int) -> Event:
        # Unique also when the clock stands still or goes back.
        self._last_name_ns = max(now_ns, self._last_name_ns + 1)
        suffix = f".{self._last_name_ns:x}"
        name = regarding.name[: NAME_CHARACTERS_MAX - len(suffix)].rstrip("-.") + suffix
        if not regarding.namespace:
            # Servers differ in where an event may be whose object has no namespace; all take it with this one.
            regarding = msgspec.structs.replace(regarding, namespace=CLUSTER_NAMESPACE)
        return Event(
            EventName(name, regarding.namespace),
            regarding,
            type_,
            reason[:128],
            action[:128],
            _cut(note),
            micro_time(now_ns / 1e9),
            self._controller,
            self._instance[:128],
        )


def _cut(note: str) -> str:
    if len(note) <= NOTE_BYTES_MAX // 4:  # a character has four bytes at most
        return note
    content = note.encode()
    if len(content) <= NOTE_BYTES_MAX:
        return note
    return content[: NOTE_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."
