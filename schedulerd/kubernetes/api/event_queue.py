"""One bounded queue from all watches to the task that applies their events.

A watch that finds it full waits, and reads nothing from its connection meanwhile. If that takes too long the API server
ends the watch, which then lists anew: a slow shim costs lists, not memory.
"""

from __future__ import annotations

import asyncio
from collections import deque

from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.watch_events import WatchEvent

EVENTS_MAX = 20_000
"""A batch is taken as a whole as long as fewer are queued."""


class EventQueue:
    """Batches of events in the order in which they came; of one resource they are never reordered."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self._events_max = events_max
        self._batches: deque[tuple[Resource, list[WatchEvent]]] = deque()
        self._events = 0
        self._has_some = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def __len__(self) -> int:
        """Events that wait."""
        return self._events

    async def put(self, resource: Resource, events: list[WatchEvent]) -> None:
        while self._events >= self._events_max:
            self._has_room.clear()
            await self._has_room.wait()
        self._batches.append((resource, events))
        self._events += len(events)
        self._has_some.set()

    async def get(self) -> tuple[Resource, list[WatchEvent]]:
        """The oldest batch."""
        while not self._batches:
            self._has_some.clear()
            await self._has_some.wait()
        return self.get_nowait()

    def get_nowait(self) -> tuple[Resource, list[WatchEvent]]:
        """The oldest batch; raises `IndexError` if there is none."""
        resource, events = self._batches.popleft()
        self._events -= len(events)
        if self._events < self._events_max:
            self._has_room.set()
        return resource, events
