"""Watches: who is told what of a change, and how a connection ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from aiohttp import web

from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.fake.kinds import Kind
from tests.kubernetes.fake.selectors import Matches
from tests.kubernetes.fake.store import Change, Object

LINES_MAX = 1_000
"""A watch that is so far behind is ended by the server."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects a request is about."""

    kind: Kind
    namespace: str
    matches: Matches | None

    def has(self, thing: Object | None) -> bool:
        if thing is None or (self.namespace and thing["metadata"].get("namespace") != self.namespace):
            return False
        return self.matches is None or self.matches(thing)


class Watch:
    """One open watch; `queue` holds lines that were not written yet."""

    def __init__(
        self, scope: Scope, last_version: Callable[[], int], *, bookmarks: bool, lines_max: int = LINES_MAX
    ) -> None:
        self.scope = scope
        self.last_version = last_version
        self.bookmarks = bookmarks
        self.queue: deque[bytes] = deque()
        self.is_ending = False
        self.is_stalled = False
        self.is_slow = False
        """Takes nothing from the queue, as a client does that does not read."""
        self.written = 0
        self._lines_max = lines_max
        self._has_lost = False
        self._changed = asyncio.Event()

    def offer(self, change: Change) -> None:
        if change.kind is not self.scope.kind:
            return
        was = self.scope.has(change.before)
        if change.is_deletion:
            if was:
                self.add(change.line("DELETED"))
            return
        if self.scope.has(change.object):
            self.add(change.line("MODIFIED" if was else "ADDED"))
        elif was:
            self.add(change.line("DELETED"))

    def add(self, line: bytes) -> None:
        """Nothing comes after a line that was left out, or the client would go on behind it."""
        if self._has_lost:
            return
        if len(self.queue) >= self._lines_max:
            self._has_lost = True
            self.end()
            return
        self.queue.append(line)
        self._changed.set()

    def bookmark(self, version: int, annotations: dict[str, str] | None = None) -> None:
        resource = self.scope.kind.resource
        metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        thing: dict[str, object] = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if resource.kind == "Pod":  # what Go makes of an empty Pod
            thing |= {"spec": {"containers": None}, "status": {}}
        self.add(b'{"type":"BOOKMARK","object":%s}\n' % msgspec.json.encode(thing))

    def error(self, status: Object) -> None:
        self.add(b'{"type":"ERROR","object":%s}\n' % msgspec.json.encode(status))
        self.end()

    def time_is_over(self) -> None:
        """The server ends it, and says before how far it came."""
        if self.bookmarks:
            self.bookmark(self.last_version())
        self.end()

    def end(self) -> None:
        self.is_ending = True
        self._changed.set()

    def wake(self) -> None:
        self._changed.set()

    async def write_to(self, response: web.StreamResponse, fault: Fault | None) -> bool:
        """Writes lines until the watch ends; False if the connection is to be cut."""
        while True:
            while self.queue and not self.is_slow:
                if fault is not None and self.written >= fault.lines and self._fails(fault):
                    line = self.queue.popleft()
                    await response.write(line[: len(line) // 2])
                    return False
                if self.is_stalled or not self.queue:
                    break
                if fault is None and len(self.queue) > 1:
                    self.written += len(self.queue)
                    lines = b"".join(self.queue)
                    self.queue.clear()
                else:
                    lines = self.queue.popleft()
                    self.written += 1
                await response.write(lines)
            if fault is not None and fault.lines == self.written and self._fails(fault):
                return False
            if self.is_ending and not self.is_stalled:
                return True
            self._changed.clear()
            await self._changed.wait()

    def _fails(self, fault: Fault) -> bool:
        """True if the connection is to be cut."""
        if fault.name == "cut_watch":
            return True
        if fault.name == "end_watch":
            self.queue.clear()
            self.is_ending = self._has_lost = True
        else:
            self.is_stalled = True
        return False
