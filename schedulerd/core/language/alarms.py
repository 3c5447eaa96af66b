"""Deadlines as data: a heap; the host only asks for its earliest entry.

A cancelled alarm is forgotten, so it can never ring late. Its entry leaves the heap when it comes to the top, or when
more than half of the heap is cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

_SLACK = 64


@dataclass(slots=True, eq=False)
class Alarm:
    deadline_ns: int
    event: Any
    """What the alarm is for (`alarm_events.AlarmEvent`); None after it was cancelled or rang."""
    live: bool = True


class Alarms:
    """All live alarms of the scheduler, earliest deadline first. Alarms with equal deadlines ring in the order in which
    they were set."""

    __slots__ = ("_cancelled", "_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Alarm]] = []
        self._serial = 0
        self._cancelled = 0

    def set(self, deadline_ns: int, event: object) -> Alarm:
        alarm = Alarm(deadline_ns, event)
        self._serial += 1
        heappush(self._heap, (deadline_ns, self._serial, alarm))
        return alarm

    def cancel(self, alarm: Alarm | None) -> None:
        """Forgets an alarm. None, and an alarm that rang or was cancelled, are allowed."""
        if alarm is None or not alarm.live:
            return
        alarm.live, alarm.event = False, None
        self._cancelled += 1
        if self._cancelled * 2 > max(len(self._heap), 2 * _SLACK):
            self._heap = [entry for entry in self._heap if entry[2].live]
            heapify(self._heap)
            self._cancelled = 0

    def next_deadline_ns(self) -> int | None:
        self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int) -> Alarm | None:
        """Removes and returns the earliest alarm if its deadline is not after `now_ns`."""
        self._drop_cancelled()
        if not self._heap or self._heap[0][0] > now_ns:
            return None
        alarm = heappop(self._heap)[2]
        alarm.live = False
        return alarm

    def live(self) -> list[Alarm]:
        """All live alarms in no particular order; for the invariants."""
        return [alarm for _, _, alarm in self._heap if alarm.live]

    def _drop_cancelled(self) -> None:
        while self._heap and not self._heap[0][2].live:
            heappop(self._heap)
            self._cancelled -= 1
